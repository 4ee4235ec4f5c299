"""AES-256-GCM under one key, for data at rest.

A ciphertext is stored as

    bytes      field
    0..12      nonce, random for every call
    12..n-16   the plaintext's bytes, encrypted
    n-16..n    authentication tag

so it is 28 bytes longer than its plaintext. There is no associated data.
"""

import base64
import binascii
import os
from collections.abc import Callable
from typing import Final

from borzoi.model.errors import CannotDecrypt, CannotEncrypt, InvalidEncryptionKey

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
#: How much longer a ciphertext is than its plaintext.
OVERHEAD_BYTES: Final = NONCE_BYTES + TAG_BYTES


class Cipher:
    """Encrypts and decrypts with one key, given as the base64 text of exactly 32 bytes.

    `draw` returns nonces; only tests should pass their own, because reusing a nonce under one key
    reveals both plaintexts.
    """

    __slots__ = ("_aes", "_draw", "_invalid_tag")

    def __init__(self, key_base64: str, *, draw: Callable[[int], bytes] = os.urandom) -> None:
        # Imported here: most servers encrypt nothing, and the library costs 6 MB and 50 ms.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._aes = AESGCM(decoded_key(key_base64))
        self._invalid_tag = InvalidTag
        self._draw = draw

    def encrypt(self, plaintext: bytes | bytearray | memoryview) -> bytes:
        """Return nonce, ciphertext and tag of the plaintext, which may be empty."""
        nonce = self._draw(NONCE_BYTES)
        try:
            return nonce + self._aes.encrypt(nonce, plaintext, None)
        except (OverflowError, ValueError) as error:
            raise CannotEncrypt(
                f"{len(plaintext)} bytes cannot be encrypted at once: {error}"
            ) from None

    def decrypt(self, ciphertext: bytes | bytearray | memoryview) -> bytes:
        """Return the plaintext; `CannotDecrypt` if any bit has changed."""
        if len(ciphertext) < OVERHEAD_BYTES:
            raise CannotDecrypt(
                f"a ciphertext has at least {OVERHEAD_BYTES} bytes, this one {len(ciphertext)}"
            )
        try:
            return self._aes.decrypt(ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:], None)
        except self._invalid_tag:
            raise CannotDecrypt("the ciphertext is damaged or has another key") from None

    def __repr__(self) -> str:
        return "Cipher(AES-256-GCM)"  # never the key: objects end up in logs


def decoded_key(key_base64: str) -> bytes:
    """Decode a key; `InvalidEncryptionKey` never shows it."""
    try:
        key = base64.b64decode(key_base64, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidEncryptionKey("the encryption key is not base64") from None
    if len(key) != KEY_BYTES:
        raise InvalidEncryptionKey(
            f"the encryption key has {len(key)} bytes, AES-256 needs exactly {KEY_BYTES}"
        )
    return key
