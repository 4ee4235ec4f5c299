"""The superblock: what a replica must remember about views, in four slots of one file (S3).

::

    bytes      field                 one record, little-endian
    0..16      checksum              XXH3-128 of bytes 16..end, end = 152 + 256 * suffix count
    16..24     magic                 b"BRZSUPER"
    24..28     version               u32, 1
    28..32     flags                 u32, 1 = wiped (G2)
    32..40     generation            u64
    40..56     cluster               u128
    56         replica_id            u8
    57         replica_count         u8
    58..60     pipeline_max          u16
    60..64     data_groups           u32
    64..72     group                 u64
    72..76     view                  u32
    76..80     log_view              u32
    80..88     commit                u64, a lower bound of commit_max
    88..96     checkpoint_op         u64
    96..112    checkpoint_checksum   u128
    112..116   suffix count          u32
    116..152   reserved              zero
    152..      suffix                prepare headers, ascending, from commit to op

Generation g goes into slots 2 * (g mod 2) and that + 1, with one write and one fdatasync; the other
pair keeps g - 1. So one rotten copy cannot bring back an older view, and two bad copies of the
newer pair mean an interrupted write, after which nothing was sent.
"""

from struct import Struct
from typing import Final

from borzoi.consensus.checkpoint import Manifest, manifest_checksum
from borzoi.consensus.config import SUFFIX_HEADERS_MAX, Config
from borzoi.consensus.frames import checksum, decode_headers, encode_headers, root
from borzoi.consensus.invariants import invariant
from borzoi.consensus.messages import HEADER_BYTES, U128, Prepare
from borzoi.model.value import Value, like

SLOT_BYTES: Final = 64 * 1024
SLOTS: Final = 4
SECTOR_BYTES: Final = 4096
MAGIC: Final = b"BRZSUPER"
VERSION: Final = 1
FLAG_WIPED: Final = 1
RECORD: Final = Struct("<16s8sIIQ16sBBHIQIIQQ16sI36x")


class Superblock(Value):
    cluster: U128
    replica_id: int
    replica_count: int
    pipeline_max: int
    data_groups: int
    group: int
    generation: int
    view: int
    log_view: int
    commit: int
    checkpoint_op: int
    checkpoint_checksum: U128
    wiped: bool
    suffix: tuple[Prepare, ...]


class Empty(Value):
    """All slots are zero: a new disk, or one that was lost."""


class Unreadable(Value):
    """Something is there and cannot be trusted: refuse to start (G3)."""

    reason: str


def genesis(config: Config) -> Superblock:
    """The first superblock of every replica (G1): view 0, an empty log."""
    first = root(config.cluster, config.group)
    return like(
        Superblock,
        config,
        generation=1,
        view=0,
        log_view=0,
        commit=0,
        checkpoint_op=0,
        checkpoint_checksum=manifest_checksum(Manifest(first, ())),
        wiped=False,
        suffix=(first,),
    )


def slot_position(generation: int) -> int:
    """The position of the first of the two adjacent copies of a generation."""
    return 2 * (generation % 2) * SLOT_BYTES


def encode(superblock: Superblock) -> bytes:
    """One copy, padded to whole sectors."""
    invariant(0 < len(superblock.suffix) <= SUFFIX_HEADERS_MAX, "a suffix has 1 to 128 headers")
    # fmt: off
    fields = RECORD.pack(
        bytes(16), MAGIC, VERSION, FLAG_WIPED if superblock.wiped else 0, superblock.generation,
        superblock.cluster, superblock.replica_id, superblock.replica_count,
        superblock.pipeline_max, superblock.data_groups, superblock.group, superblock.view,
        superblock.log_view, superblock.commit, superblock.checkpoint_op,
        superblock.checkpoint_checksum, len(superblock.suffix),
    )
    # fmt: on
    record = fields[16:] + encode_headers(list(superblock.suffix))
    sealed = checksum(record) + record
    return sealed + bytes(-len(sealed) % SECTOR_BYTES)


def decode(slots: bytes) -> Superblock | Empty | Unreadable:
    """The highest generation with at least one good copy; three outcomes that stay distinct."""
    if not any(slots):
        return Empty()
    newest: Superblock | None = None
    for start in range(0, SLOTS * SLOT_BYTES, SLOT_BYTES):
        found = _decode_slot(slots[start : start + SLOT_BYTES])
        if isinstance(found, Unreadable):
            return found
        if found is not None and (newest is None or found.generation > newest.generation):
            newest = found
    return newest if newest is not None else Unreadable("no copy of the superblock is valid")


def _decode_slot(slot: bytes) -> Superblock | Unreadable | None:
    if len(slot) < RECORD.size or slot[16:24] != MAGIC:
        return None
    fields = RECORD.unpack_from(slot)
    seal, _, version, flags, generation, *numbers, count = fields
    end = RECORD.size + count * HEADER_BYTES
    if count > SUFFIX_HEADERS_MAX or end > len(slot) or checksum(slot[16:end]) != seal:
        return None
    if version != VERSION:
        return Unreadable(f"superblock format {version} is not known")
    cluster, replica_id, replica_count, pipeline_max, data_groups, group = numbers[:6]
    view, log_view, commit, checkpoint_op, checkpoint_checksum = numbers[6:]
    suffix = decode_headers(slot[RECORD.size : end], cluster)
    if not suffix:
        return Unreadable("the suffix of a sealed superblock does not decode")
    return Superblock(
        cluster=cluster,
        replica_id=replica_id,
        replica_count=replica_count,
        pipeline_max=pipeline_max,
        data_groups=data_groups,
        group=group,
        generation=generation,
        view=view,
        log_view=log_view,
        commit=commit,
        checkpoint_op=checkpoint_op,
        checkpoint_checksum=checkpoint_checksum,
        wiped=bool(flags & FLAG_WIPED),
        suffix=tuple(suffix),
    )


def mismatch(superblock: Superblock, config: Config) -> str | None:
    """Why this disk does not belong to this replica, if it does not (G4)."""
    pairs = (
        ("cluster", superblock.cluster, config.cluster),
        ("replica_id", superblock.replica_id, config.replica_id),
        ("replica_count", superblock.replica_count, config.replica_count),
        ("pipeline_max", superblock.pipeline_max, config.pipeline_max),
        ("data_groups", superblock.data_groups, config.data_groups),
        ("group", superblock.group, config.group),
    )
    for name, written, configured in pairs:
        if written != configured:
            return f"the disk says {name} = {written!r}, the configuration {configured!r}"
    return None
