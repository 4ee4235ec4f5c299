"""The stored form of encrypted messages: bodies encrypted, headers clear.

Payload and user headers are encrypted separately, each with its own nonce, and the two lengths in
the header are those of the ciphertexts; an empty payload becomes 28 bytes, while missing user
headers stay missing. Encrypting comes before numbering, so the checksum covers
the stored form; after decrypting it still does, and a client cannot check it.
"""

import struct
from dataclasses import dataclass
from typing import Final

from borzoi.model.errors import CannotDecrypt
from borzoi.model.limits import HEADER_BYTES
from borzoi.records.batch import Batch, walk
from borzoi.records.header import LENGTHS_AT
from borzoi.security.encryption import Cipher

#: user_headers_length, payload_length and reserved: the rest of a header from LENGTHS_AT on.
LENGTHS: Final = struct.Struct("<IIQ")
assert LENGTHS_AT + LENGTHS.size == HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Decrypted:
    """Decrypted messages, and how many were left out because they could not be decrypted."""

    messages: memoryview
    count: int
    unreadable: int


def encrypted(batch: Batch, cipher: Cipher) -> Batch:
    """The same messages with encrypted bodies, in a buffer of their own."""
    source = batch.messages
    stored = bytearray()
    for start, end in batch.bounds():
        user_headers, payload, reserved = LENGTHS.unpack_from(source, start + LENGTHS_AT)
        body = start + HEADER_BYTES
        sealed = cipher.encrypt(source[body : body + payload])
        sealed_headers = cipher.encrypt(source[body + payload : end]) if user_headers else b""
        stored += source[start : start + LENGTHS_AT]
        stored += LENGTHS.pack(len(sealed_headers), len(sealed), reserved)
        stored += sealed
        stored += sealed_headers
    return walk(memoryview(stored))


def decrypted(messages: memoryview, cipher: Cipher) -> Decrypted:
    """Decrypt stored messages.

    A message that cannot be decrypted is left out: one stored before encryption was turned on, or
    with another key, must not stop consumers from polling past it. The caller logs it.
    """
    clear = bytearray()
    count = 0
    batch = walk(messages)
    for start, end in batch.bounds():
        user_headers, payload, reserved = LENGTHS.unpack_from(messages, start + LENGTHS_AT)
        body = start + HEADER_BYTES
        try:
            opened = cipher.decrypt(messages[body : body + payload])
            opened_headers = cipher.decrypt(messages[body + payload : end]) if user_headers else b""
        except CannotDecrypt:
            continue
        clear += messages[start : start + LENGTHS_AT]
        clear += LENGTHS.pack(len(opened_headers), len(opened), reserved)
        clear += opened
        clear += opened_headers
        count += 1
    return Decrypted(memoryview(clear), count, len(batch) - count)
