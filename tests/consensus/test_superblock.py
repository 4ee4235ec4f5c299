import msgspec
import pytest

from borzoi.consensus.config import Config
from borzoi.consensus.frames import checksum
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.superblock import (
    SLOT_BYTES,
    Empty,
    Superblock,
    Unreadable,
    decode,
    encode,
    genesis,
    mismatch,
    slot_position,
)

CONFIG = Config(cluster=b"cluster-of-tests", replica_id=1, replica_count=3, group=2)
FIRST = genesis(CONFIG)


def disk(*written: Superblock) -> bytearray:
    slots = bytearray(4 * SLOT_BYTES)
    for superblock in written:
        copy = encode(superblock)
        for slot in (0, SLOT_BYTES):
            start = slot_position(superblock.generation) + slot
            slots[start : start + len(copy)] = copy
    return slots


def at(generation: int, view: int) -> Superblock:
    return msgspec.structs.replace(FIRST, generation=generation, view=view)


def rot(slots: bytearray, slot: int) -> None:
    slots[slot * SLOT_BYTES + 40] ^= 1


def test_what_was_written_is_read():
    superblock = msgspec.structs.replace(FIRST, view=7, log_view=5, commit=3, wiped=True)
    assert decode(bytes(disk(superblock))) == superblock


def test_fields_stand_where_the_table_says():
    raw = encode(msgspec.structs.replace(FIRST, view=7, log_view=5, commit=3))
    assert raw[16:24] == b"BRZSUPER"
    assert raw[:16] == checksum(raw[16 : 152 + 256])
    assert raw[72:76] == b"\7\0\0\0"
    assert raw[76:80] == b"\5\0\0\0"
    assert raw[80:88] == b"\3\0\0\0\0\0\0\0"
    assert raw[112:116] == b"\1\0\0\0"
    assert len(raw) % 4096 == 0


def test_the_newer_generation_wins():
    assert decode(bytes(disk(at(4, 8), at(5, 9)))) == at(5, 9)


def test_one_rotten_copy_never_brings_back_an_older_view():
    for slot in (2, 3):
        slots = disk(at(4, 8), at(5, 9))
        rot(slots, slot)
        assert decode(bytes(slots)) == at(5, 9)


def test_a_torn_pair_falls_back_to_the_generation_before():
    slots = disk(at(4, 8), at(5, 9))
    rot(slots, 2)
    rot(slots, 3)
    assert decode(bytes(slots)) == at(4, 8)


def test_empty_valid_and_unreadable_stay_distinct():
    assert decode(bytes(4 * SLOT_BYTES)) == Empty()
    slots = disk(at(1, 0))
    rot(slots, 2)
    rot(slots, 3)
    assert isinstance(decode(bytes(slots)), Unreadable)
    assert isinstance(decode(b"\1" + bytes(100)), Unreadable)


def sealed(raw: bytes, end: int) -> bytes:
    return checksum(raw[16:end]) + raw[16:]


def test_an_unknown_format_is_refused_even_if_an_older_copy_reads():
    slots = disk(at(4, 8))
    raw = encode(at(5, 9))
    slots[2 * SLOT_BYTES : 2 * SLOT_BYTES + len(raw)] = sealed(
        raw[:24] + b"\2" + raw[25:], 152 + 256
    )
    assert isinstance(decode(bytes(slots)), Unreadable)


def test_a_sealed_record_with_a_damaged_suffix_is_unreadable():
    raw = encode(at(5, 9))
    broken = sealed(raw[:300] + b"\xff" + raw[301:], 152 + 256)
    slots = bytearray(4 * SLOT_BYTES)
    slots[: len(broken)] = broken
    assert isinstance(decode(bytes(slots)), Unreadable)


def test_an_impossible_suffix_length_is_no_record():
    raw = encode(at(5, 9))
    slots = bytearray(4 * SLOT_BYTES)
    slots[: len(raw)] = raw[:112] + b"\xff\0\0\0" + raw[116:]
    assert isinstance(decode(bytes(slots)), Unreadable)


def test_a_superblock_without_suffix_is_never_written():
    with pytest.raises(InvariantError):
        encode(msgspec.structs.replace(FIRST, suffix=()))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replica_id", 0),
        ("replica_count", 5),
        ("pipeline_max", 8),
        ("group", 0),
        ("data_groups", 2),
    ],
)
def test_a_disk_of_another_replica_or_roster_is_recognised(name, value):
    assert mismatch(FIRST, CONFIG) is None
    reason = mismatch(FIRST, msgspec.structs.replace(CONFIG, **{name: value}))
    assert reason is not None
    assert name in reason
