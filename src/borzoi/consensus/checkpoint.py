"""Checkpoints as values: artifacts, and the manifest that names and checks them (K1).

::

    bytes     field      manifest of a checkpoint at one op
    0..256    prepare    header of the op the checkpoint stands at
    256..260  count      u32 artifacts, then 33 bytes for each:
    +0        kind       u8   1 snapshot, 2 client table, 3 segment log, 4 offsets
    +1..9     frontier   u64  what the kind counts up to: op, next offset
    +9..17    length     u64
    +17..33   checksum   u128 XXH3-128 of the content
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from borzoi.consensus.frames import checksum, pack_header, unpack_header
from borzoi.consensus.messages import HEADER_BYTES, U128, Command, Prepare

_COUNT: Final = Struct("<I")
_ENTRY: Final = Struct("<BQQ16s")
ARTIFACTS_MAX: Final = 65536
# What a named tuple's own constructor ends with.
_new: Final = tuple.__new__


class ArtifactKind(IntEnum):
    SNAPSHOT = 1
    CLIENT_TABLE = 2
    SEGMENT_LOG = 3
    OFFSETS = 4


class Artifact(NamedTuple):
    """One piece of a checkpoint with its bytes."""

    kind: int
    frontier: int
    content: bytes


class ManifestEntry(NamedTuple):
    kind: int
    frontier: int
    length: int
    checksum: U128


class Manifest(NamedTuple):
    """What a checkpoint consists of, without the bytes."""

    header: Prepare
    entries: tuple[ManifestEntry, ...]


class Checkpoint(NamedTuple):
    """A checkpoint as the driver stores it: the manifest and the bytes it speaks of."""

    manifest: Manifest
    artifacts: tuple[Artifact, ...]


def manifest_of(header: Prepare, artifacts: tuple[Artifact, ...]) -> Manifest:
    entries = [
        _new(ManifestEntry, (kind, frontier, len(content), checksum(content)))
        for kind, frontier, content in artifacts
    ]
    return Manifest(header, tuple(entries))


def encode_manifest(manifest: Manifest) -> bytes:
    parts = [pack_header(manifest.header), _COUNT.pack(len(manifest.entries))]
    parts += [_ENTRY.pack(*entry) for entry in manifest.entries]
    return b"".join(parts)


def decode_manifest(data: bytes) -> Manifest | None:
    """None when the bytes are not a manifest; the frame's checksum already vouches for them."""
    start = HEADER_BYTES + _COUNT.size
    if len(data) < start or data[60] != Command.PREPARE:
        return None
    (count,) = _COUNT.unpack_from(data, HEADER_BYTES)
    if count > ARTIFACTS_MAX or len(data) != start + count * _ENTRY.size:
        return None
    raw = data[:HEADER_BYTES]
    header = unpack_header(raw)
    if not isinstance(header, Prepare) or checksum(raw[16:]) != header.checksum:
        return None
    entries = tuple(ManifestEntry(*entry) for entry in _ENTRY.iter_unpack(data[start:]))
    return Manifest(header, entries)


def manifest_checksum(manifest: Manifest) -> U128:
    """The checksum of a checkpoint: equal on every replica for the same op."""
    return checksum(encode_manifest(manifest))
