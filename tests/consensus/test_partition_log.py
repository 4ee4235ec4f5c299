import pytest

from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.partition_log import PartitionLog
from borzoi.consensus.partition_ops import BatchDescriptor
from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.records.message import Message, encode_messages


def append(log: PartitionLog, *payloads: bytes, at: int | None = None) -> None:
    run = encode_messages([Message(payload=payload) for payload in payloads])[1]
    base = log.next_offset if at is None else at
    descriptor = BatchDescriptor(1, 1, base, 9, len(payloads), len(run), 0, 0, log.generation)
    log.append(descriptor, memoryview(run))


def test_a_segment_rolls_by_its_size_before_the_append():
    log = PartitionLog(segment_bytes=100)
    append(log, b"x" * 200)
    append(log, b"y")
    append(log, b"z")
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert [segment.end_offset for segment in log.segments] == [1, 3]


def test_every_message_has_an_index_entry():
    log = PartitionLog(segment_bytes=1 << 20)
    append(log, b"a", b"b", b"c")
    assert len(log.segments[0].index) == 3 * INDEX_ENTRY_BYTES


def test_offsets_are_dense():
    log = PartitionLog(segment_bytes=100)
    with pytest.raises(InvariantError):
        append(log, b"a", at=1)


def test_reading_starts_inside_a_segment_and_stops_at_the_count():
    log = PartitionLog(segment_bytes=100)
    for payload in (b"x" * 200, b"y", b"z"):
        append(log, payload)
    assert len(log.read(1, 1)) == 1
    assert len(log.read(0, 100)) == 3
    assert log.read(3, 100) == []


def test_a_purged_log_takes_no_batch_of_an_earlier_generation():
    log = PartitionLog(segment_bytes=100)
    append(log, b"a")
    assert log.purge(2)
    assert not log.purge(2)
    run = encode_messages([Message(payload=b"late")])[1]
    with pytest.raises(InvariantError, match="generation"):
        log.append(BatchDescriptor(1, 1, 0, 9, 1, len(run), 0), memoryview(run))
    append(log, b"b")
    assert (log.first_offset, log.next_offset, log.generation) == (0, 1, 2)
