"""The metadata as of one entry of its log, so that starting does not replay from the beginning.

    bytes        field
    0..8         magic        "BORZOISN"
    8..12        format       u32, 1
    12..16       flags        u32, bit 0: the body is encrypted
    16..24       index        u64, the last entry that is included
    24..32       term         u64, of that entry
    32..40       timestamp    u64, µs, when the snapshot was taken
    40..48       length       u64, of the body as stored
    48..48+n     body         MessagePack, or nonce ‖ ciphertext ‖ tag
    48+n..80+n   checksum     SHA-256 over everything before it

The file is written under a temporary name, synced and renamed, so there is always a complete one.
"""

import hashlib
import struct
from pathlib import Path
from typing import Final

from borzoi.model.errors import CannotDecrypt, StateCorrupted
from borzoi.model.value import Value
from borzoi.security.encryption import Cipher
from borzoi.storage.media import Medium, content_of, replace_file

SNAPSHOT_NAME: Final = "state.snapshot"

HEADER: Final = struct.Struct("<8sIIQQQQ")
assert HEADER.size == 48
MAGIC: Final = b"BORZOISN"
FORMAT: Final = 1
ENCRYPTED: Final = 1
CHECKSUM_BYTES: Final = 32


class StateSnapshot(Value):
    """The state after the entries up to and including `index`."""

    index: int
    term: int
    timestamp: int
    body: bytes


def encode_snapshot(snapshot: StateSnapshot, cipher: Cipher | None = None) -> bytes:
    flags, body = 0, snapshot.body
    if cipher is not None:
        flags, body = ENCRYPTED, cipher.encrypt(body)
    signed = (
        HEADER.pack(
            MAGIC, FORMAT, flags, snapshot.index, snapshot.term, snapshot.timestamp, len(body)
        )
        + body
    )
    return signed + hashlib.sha256(signed).digest()


def decode_snapshot(data: bytes, cipher: Cipher | None = None) -> StateSnapshot:
    """Decode a snapshot; `StateCorrupted` if a single bit has changed."""
    if len(data) < HEADER.size + CHECKSUM_BYTES or data[: len(MAGIC)] != MAGIC:
        raise StateCorrupted(f"{len(data)} bytes are not a metadata snapshot")
    if hashlib.sha256(data[:-CHECKSUM_BYTES]).digest() != data[-CHECKSUM_BYTES:]:
        raise StateCorrupted(
            f"the checksum at byte {len(data) - CHECKSUM_BYTES} of the metadata snapshot does not"
            " fit its content"
        )
    _, version, flags, index, term, timestamp, length = HEADER.unpack_from(data)
    if version != FORMAT or length != len(data) - HEADER.size - CHECKSUM_BYTES:
        raise StateCorrupted(
            f"the metadata snapshot has format {version}, this borzoi knows {FORMAT}"
        )
    body = data[HEADER.size : HEADER.size + length]
    if flags & ENCRYPTED:
        if cipher is None:
            raise CannotDecrypt(
                "the metadata snapshot is encrypted and no encryption key is configured"
            )
        try:
            body = cipher.decrypt(body)
        except CannotDecrypt:
            raise CannotDecrypt("the metadata snapshot was encrypted with another key") from None
    return StateSnapshot(index, term, timestamp, body)


def write_snapshot(
    medium: Medium, directory: Path, snapshot: StateSnapshot, cipher: Cipher | None = None
) -> None:
    """Replaces the snapshot of a data directory; when this returns it survives a power cut."""
    replace_file(medium, directory / SNAPSHOT_NAME, encode_snapshot(snapshot, cipher))
    # The name must be durable as well before the replaced entries are dropped.
    medium.fsync_directory(directory)


def read_snapshot(
    medium: Medium, directory: Path, cipher: Cipher | None = None
) -> StateSnapshot | None:
    """The snapshot of a data directory, or None when none was ever taken."""
    path = directory / SNAPSHOT_NAME
    if not medium.exists(path):
        return None
    return decode_snapshot(content_of(medium, path), cipher)
