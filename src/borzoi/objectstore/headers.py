"""The header of every object that belongs to a log: 96 bytes, little-endian.

bytes    field
0..8     magic `BZOBJ001`
8..10    kind            u16: 1 WAL, 2 pack, 3 fence, 4 checkpoint, 5 state batch, 6 offsets
10..12   format version  u16
12..16   flags           u32: bit 0 body compressed, bit 1 footer compressed
16..24   log id          u64: the number of a lane, or 2^63 for the state
24..32   sequence        u64
32..40   writer epoch    u64
40..56   nonce           random, the same for every attempt of one write
56..64   created at      u64, µs
64..72   mark            u64: of a fence, where its writer continues; else the durable watermark
72..80   body length     u64
80..84   run count       u32
84..88   control bytes   u32
88..96   xxh3-64 of bytes 0..88
"""

import struct
from enum import IntEnum
from typing import Final

import xxhash

from borzoi.model.value import Value
from borzoi.objectstore.errors import Corrupt
from borzoi.objectstore.interface import Buffer

MAGIC: Final = b"BZOBJ001"
FORMAT_VERSION: Final = 1
STATE_LOG_ID: Final = 1 << 63

_FIELDS: Final = struct.Struct("<8sHHIQQQ16sQQQII")
_CHECKSUM: Final = struct.Struct("<Q")
HEADER_BYTES: Final = _FIELDS.size + _CHECKSUM.size
assert HEADER_BYTES == 96
CHECKSUM_BYTES: Final = _CHECKSUM.size


class ObjectKind(IntEnum):
    WAL = 1
    PACK = 2
    FENCE = 3
    CHECKPOINT = 4
    STATE = 5
    OFFSETS = 6


class Header(Value, kw_only=True):
    """The header of an object."""

    kind: ObjectKind
    log_id: int
    sequence: int
    epoch: int
    nonce: bytes
    created_at: int = 0
    #: Of a fence, where its writer continues; otherwise how far the log was durable.
    mark: int = 0
    body_bytes: int = 0
    flags: int = 0
    run_count: int = 0
    control_bytes: int = 0


def encode_header(header: Header) -> bytes:
    fields = _FIELDS.pack(
        MAGIC,
        header.kind,
        FORMAT_VERSION,
        header.flags,
        header.log_id,
        header.sequence,
        header.epoch,
        header.nonce,
        header.created_at,
        header.mark,
        header.body_bytes,
        header.run_count,
        header.control_bytes,
    )
    return fields + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(fields))


def decode_header(data: Buffer, *, key: str) -> Header:
    """Decode the header of an object; `Corrupt` names the key and the fault."""
    if len(data) < HEADER_BYTES:
        raise Corrupt(f"{len(data)} bytes are too few for a header", op="decode", key=key)
    fields = bytes(data[: _FIELDS.size])
    (checksum,) = _CHECKSUM.unpack_from(data, _FIELDS.size)
    if checksum != xxhash.xxh3_64_intdigest(fields):
        raise Corrupt("the header does not match its checksum", op="decode", key=key)
    magic, kind, version, flags, *rest = _FIELDS.unpack(fields)
    if magic != MAGIC:
        raise Corrupt(f"it begins with {magic!r}, not {MAGIC!r}", op="decode", key=key)
    if version != FORMAT_VERSION:
        raise Corrupt(f"it has the format {version}, not {FORMAT_VERSION}", op="decode", key=key)
    try:
        known = ObjectKind(kind)
    except ValueError:
        raise Corrupt(f"there is no kind {kind} of object", op="decode", key=key) from None
    log_id, sequence, epoch, nonce, created_at, mark, body_bytes, run_count, control_bytes = rest
    return Header(
        kind=known,
        log_id=log_id,
        sequence=sequence,
        epoch=epoch,
        nonce=nonce,
        created_at=created_at,
        mark=mark,
        body_bytes=body_bytes,
        flags=flags,
        run_count=run_count,
        control_bytes=control_bytes,
    )


def with_checksum(body: Buffer) -> bytes:
    """Return the body followed by its xxh3-64."""
    return bytes(body) + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body))


def without_checksum(data: Buffer, *, key: str) -> bytes:
    """Return the body without its checksum; `Corrupt` when they do not match."""
    body = bytes(data[: max(len(data) - CHECKSUM_BYTES, 0)])
    if len(data) < CHECKSUM_BYTES or _CHECKSUM.unpack_from(data, len(body))[
        0
    ] != xxhash.xxh3_64_intdigest(body):
        raise Corrupt("the body does not match its checksum", op="decode", key=key)
    return body
