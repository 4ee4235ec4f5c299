"""AES-256-GCM under one key, for data at rest.

A ciphertext is stored as

    bytes      field
    0..12      nonce, random for every call
    12..n-16   the plaintext's bytes, encrypted
    n-16..n    authentication tag

so it is 28 bytes longer than its plaintext. There is no associated data. A long one can be made and
opened a slice at a time (`encrypting`, `opening`); its bytes are the same.
"""

import base64
import binascii
import os
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from borzoi.model.errors import CannotDecrypt, CannotEncrypt, InvalidEncryptionKey

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
#: How much longer a ciphertext is than its plaintext.
OVERHEAD_BYTES: Final = NONCE_BYTES + TAG_BYTES
#: What `encrypting` does in one step: about half a millisecond.
STEP_BYTES: Final = 512 << 10


class _Encryption(Protocol):
    @property
    def tag(self) -> bytes: ...

    def update_into(self, data: memoryview, buf: memoryview) -> int: ...

    def finalize(self) -> bytes: ...


class _Decryption(Protocol):
    def update(self, data: bytes | memoryview) -> bytes: ...

    def finalize_with_tag(self, tag: bytes) -> bytes: ...


class _Stream(Protocol):
    """What the library works through slices with. It is not loaded before there is a key."""

    def encryptor(self) -> _Encryption: ...

    def decryptor(self) -> _Decryption: ...


class Cipher:
    """Encrypts and decrypts with one key, given as the base64 text of exactly 32 bytes.

    `draw` returns nonces; only tests should pass their own, because reusing a nonce under one key
    reveals both plaintexts.
    """

    __slots__ = ("_aes", "_draw", "_invalid_tag", "_stream")

    def __init__(self, key_base64: str, *, draw: Callable[[int], bytes] = os.urandom) -> None:
        # Imported here: most servers encrypt nothing, and the library costs 6 MB and 50 ms.
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers import Cipher as Stream
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import GCM

        key = decoded_key(key_base64)
        self._aes = AESGCM(key)
        self._stream: Callable[[bytes], _Stream] = lambda nonce: Stream(AES(key), GCM(nonce))
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

    def encrypting(self, plaintext: memoryview, target: memoryview) -> Iterator[None]:
        """Write what `encrypt` would give into `target`, which is exactly as long; a step at a
        time, for plaintexts that take longer than a moment."""
        assert len(target) == len(plaintext) + OVERHEAD_BYTES
        nonce = self._draw(NONCE_BYTES)
        sealing = self._stream(nonce).encryptor()
        target[:NONCE_BYTES] = nonce
        end = NONCE_BYTES
        for start in range(0, len(plaintext), STEP_BYTES):
            end += sealing.update_into(plaintext[start : start + STEP_BYTES], target[end:])
            yield
        sealing.finalize()
        target[end:] = sealing.tag

    def opening(self, nonce: bytes) -> "Opening":
        """The plaintext of a ciphertext that comes piece by piece behind its nonce."""
        return Opening(self._stream(nonce).decryptor(), self._invalid_tag)

    def __repr__(self) -> str:
        return "Cipher(AES-256-GCM)"  # never the key: objects end up in logs


class Opening:
    """A streaming decryption. Do not use the output of `update` before `finish` returns."""

    __slots__ = ("_context", "_invalid_tag")

    def __init__(self, context: _Decryption, invalid_tag: type[Exception]) -> None:
        self._context = context
        self._invalid_tag = invalid_tag

    def update(self, ciphertext: bytes | memoryview) -> bytes:
        return self._context.update(ciphertext)

    def finish(self, tag: bytes) -> None:
        """Raise `CannotDecrypt` when not every bit was as `encrypt` made it."""
        try:
            self._context.finalize_with_tag(tag)
        except self._invalid_tag:
            raise CannotDecrypt("the ciphertext was damaged or made with another key") from None


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
