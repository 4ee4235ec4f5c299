"""The stored form of encrypted messages: bodies encrypted, headers clear.

Payload and user headers are encrypted separately, each with its own nonce, and the two lengths in
the header are those of the ciphertexts; an empty payload becomes 28 bytes, while missing user
headers stay missing. Encrypting comes before numbering, so the checksum covers
the stored form; after decrypting it still does, and a client cannot check it.
"""

import struct
from typing import Final

import numpy as np

from borzoi.model.errors import CannotDecrypt
from borzoi.model.limits import HEADER_BYTES
from borzoi.model.value import Value
from borzoi.partitions.turns import Work
from borzoi.records.batch import Batch, walk
from borzoi.records.header import LENGTHS_AT
from borzoi.security.encryption import OVERHEAD_BYTES, STEP_BYTES, Cipher

#: user_headers_length, payload_length and reserved: the rest of a header from LENGTHS_AT on.
LENGTHS: Final = struct.Struct("<IIQ")
assert LENGTHS_AT + LENGTHS.size == HEADER_BYTES


class Decrypted(Value):
    """Decrypted messages, and how many were left out because they could not be decrypted."""

    messages: memoryview
    count: int
    unreadable: int


def encrypted(batch: Batch, cipher: Cipher) -> Batch:
    """Return the same messages with encrypted bodies, in a new buffer."""
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


def encrypting(batch: Batch, cipher: Cipher) -> Work[Batch]:
    """The same in shares of about `STEP_BYTES`; a batch of one message may be of any size."""
    if batch.count == 1 and batch.size > STEP_BYTES:
        return (yield from _encrypting_one(batch, cipher))
    parts = []
    step = max(STEP_BYTES * batch.count // max(batch.size, 1), 1)
    for first in range(0, batch.count, step):
        part = batch.part(first, min(first + step, batch.count))
        parts.append(encrypted(part, cipher).messages)
        yield
    return walk(memoryview(bytearray().join(parts)))


def _encrypting_one(batch: Batch, cipher: Cipher) -> Work[Batch]:
    source = batch.messages
    user_headers, payload, reserved = LENGTHS.unpack_from(source, LENGTHS_AT)
    clear_headers = source[HEADER_BYTES + payload :]
    sealed_headers = cipher.encrypt(clear_headers) if user_headers else b""
    body_end = HEADER_BYTES + payload + OVERHEAD_BYTES
    # Not a bytearray: that would be filled with zeros first, in one step.
    stored = np.empty(body_end + len(sealed_headers), np.uint8).data
    stored[:LENGTHS_AT] = source[:LENGTHS_AT]
    LENGTHS.pack_into(stored, LENGTHS_AT, len(sealed_headers), payload + OVERHEAD_BYTES, reserved)
    clear = source[HEADER_BYTES : HEADER_BYTES + payload]
    yield from cipher.encrypting(clear, stored[HEADER_BYTES:body_end])
    stored[body_end:] = sealed_headers
    return walk(stored)


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
