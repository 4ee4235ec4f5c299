"""Partitions as committed ops make them; stamping, order between planes, checkpoints."""

import pytest
from tests.support.planted_bugs import plant_bugs

from borzoi.consensus.data_plane import (
    INVALID_COMMAND,
    INVALID_OFFSET,
    OFFSET_NOT_FOUND,
    PARTITION_NOT_FOUND,
    DataPlane,
    group_of,
)
from borzoi.consensus.frames import blank
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.machine import AdmittedRequest, StampedBody
from borzoi.consensus.messages import ZERO, Operation, Prepare
from borzoi.consensus.partition_ops import (
    PartitionCommand,
    decode_batch,
    encode_command,
    propose_batch,
)
from borzoi.records.batch import verify, walk
from borzoi.records.message import Message, decode_messages, encode_messages

PARTITION, INCARNATION = 5, 3


def plane(control: int = 100, segment_bytes: int = 1 << 20, **bugs: bool) -> DataPlane:
    plant_bugs(**bugs)
    return DataPlane(
        control_commit=lambda: control,
        new_ids=lambda count: bytes(range(1, 17)) * count,
        segment_bytes=segment_bytes,
    )


def run_of(*payloads: bytes) -> bytes:
    return encode_messages([Message(payload=payload) for payload in payloads])[1]


def proposal(*payloads: bytes, incarnation: int = INCARNATION) -> AdmittedRequest:
    body = propose_batch(PARTITION, incarnation, len(payloads), run_of(*payloads))
    return AdmittedRequest(ZERO, 0, Operation.SEND_MESSAGES.value, body, 0)


def op_header(operation: Operation) -> Prepare:
    return blank(1)._replace(operation=operation.value)


def send(data: DataPlane, *payloads: bytes, timestamp: int = 1000) -> bytes:
    stamped = data.stamp(proposal(*payloads), timestamp)
    assert isinstance(stamped, StampedBody)
    outcome = data.apply(op_header(Operation.SEND_MESSAGES), stamped.body)
    assert outcome is not None
    assert outcome.status == 0
    return stamped.body


def command(
    data: DataPlane, operation: Operation, argument: int = 0, incarnation: int = INCARNATION
) -> int | None:
    body = encode_command(PartitionCommand(PARTITION, incarnation, argument, 9, 1))
    assert isinstance(
        data.stamp(AdmittedRequest(ZERO, 0, operation.value, body, 0), 1), StampedBody
    )
    outcome = data.apply(op_header(operation), body)
    return None if outcome is None else outcome.status


def log_of(data: DataPlane):
    return data.partitions[PARTITION, INCARNATION]


def payloads(data: DataPlane, offset: int = 0) -> list[bytes]:
    return [decode_messages(m)[0].payload for m in log_of(data).read(offset, 100)]


def base_offset(stamped: StampedBody) -> int:
    decoded = decode_batch(stamped.body)
    assert decoded is not None
    return decoded[0].base_offset


def test_stamping_gives_offset_timestamp_id_and_checksum_once():
    data = plane()
    decoded = decode_batch(send(data, b"a", b"b", timestamp=77))
    assert decoded is not None
    descriptor, run = decoded
    batch = walk(run)
    assert (descriptor.base_offset, descriptor.base_timestamp) == (0, 77)
    assert batch.offsets().tolist() == [0, 1]
    assert batch.timestamps().tolist() == [77, 77]
    assert verify(batch) is None
    assert payloads(data) == [b"a", b"b"]


def test_offsets_continue_what_is_in_the_pipeline_not_only_what_is_applied():
    data = plane()
    first = data.stamp(proposal(b"a", b"b"), 1)
    second = data.stamp(proposal(b"c"), 2)
    assert isinstance(first, StampedBody)
    assert isinstance(second, StampedBody)
    assert base_offset(second) == 2
    data.forget_prepared()
    again = data.stamp(proposal(b"c"), 3)
    assert isinstance(again, StampedBody)
    assert base_offset(again) == 0


def test_what_cannot_be_a_batch_or_a_command_is_refused_before_it_is_an_op():
    data = plane()
    kind = Operation.SEND_MESSAGES.value
    short = AdmittedRequest(ZERO, 0, kind, b"short", 0)
    lying = AdmittedRequest(ZERO, 0, kind, propose_batch(PARTITION, 3, 2, run_of(b"one")), 0)
    noise = AdmittedRequest(ZERO, 0, kind, propose_batch(PARTITION, 3, 1, b"\xff" * 64), 0)
    wrong = AdmittedRequest(ZERO, 0, Operation.PURGE_PARTITION.value, b"short", 0)
    for refused in (short, lying, noise, wrong):
        assert data.stamp(refused, 1) == INVALID_COMMAND
    good = AdmittedRequest(ZERO, 0, Operation.PURGE_PARTITION.value, bytes(32), 0)
    assert data.stamp(good, 1) == StampedBody(bytes(32), 0)


def test_a_batch_that_does_not_continue_the_log_is_a_divergence():
    data = plane()
    body = send(data, b"a")
    with pytest.raises(InvariantError, match="does not continue"):
        data.apply(op_header(Operation.SEND_MESSAGES), body)


def test_a_committed_batch_that_changed_is_a_divergence():
    data = plane()
    stamped = data.stamp(proposal(b"a"), 1)
    assert isinstance(stamped, StampedBody)
    with pytest.raises(InvariantError):
        data.apply(op_header(Operation.SEND_MESSAGES), stamped.body[:-1] + b"\xff")
    with pytest.raises(InvariantError):
        data.apply(op_header(Operation.SEND_MESSAGES), b"short")


def test_an_op_for_a_partition_the_control_plane_has_not_created_here_waits():
    data = plane(control=INCARNATION - 1)
    stamped = data.stamp(proposal(b"a"), 1)
    assert isinstance(stamped, StampedBody)
    assert data.apply(op_header(Operation.SEND_MESSAGES), stamped.body) is None
    assert command(data, Operation.PURGE_PARTITION, 1) is None
    assert data.partitions == {}


def test_a_deleted_partition_is_gone_and_its_successor_starts_fresh():
    """Seen elsewhere: numbers are reused, incarnations never."""
    data = plane()
    send(data, b"old")
    assert command(data, Operation.FORGET_PARTITION) == 0
    stamped = data.stamp(proposal(b"late"), 1)
    assert isinstance(stamped, StampedBody)
    late = data.apply(op_header(Operation.SEND_MESSAGES), stamped.body)
    assert late is not None
    assert late.status == PARTITION_NOT_FOUND
    assert command(data, Operation.PURGE_PARTITION, 1) == PARTITION_NOT_FOUND
    fresh = data.stamp(proposal(b"new", incarnation=9), 1)
    assert isinstance(fresh, StampedBody)
    assert data.apply(op_header(Operation.SEND_MESSAGES), fresh.body) is not None
    assert command(data, Operation.FORGET_PARTITION) == 0
    assert list(data.partitions) == [(PARTITION, 9)]


def test_purge_happens_once_per_generation_and_begins_again_at_zero():
    data = plane()
    send(data, b"a", b"b")
    command(data, Operation.STORE_CONSUMER_OFFSET, 1)
    command(data, Operation.PURGE_PARTITION, 1)
    send(data, b"c")
    command(data, Operation.PURGE_PARTITION, 1)
    log = log_of(data)
    assert (log.first_offset, log.next_offset, payloads(data)) == (0, 1, [b"c"])
    assert (log.generation, log.offsets) == (1, {})


def test_offsets_begin_again_behind_a_purge_that_is_in_the_pipeline():
    data = plane()
    send(data, b"a", b"b")
    purge = encode_command(PartitionCommand(PARTITION, INCARNATION, 1))
    ops = []
    for operation, payload in (
        (Operation.SEND_MESSAGES, propose_batch(PARTITION, INCARNATION, 1, run_of(b"c"))),
        (Operation.PURGE_PARTITION, purge),
        (Operation.SEND_MESSAGES, propose_batch(PARTITION, INCARNATION, 1, run_of(b"d"))),
        (Operation.PURGE_PARTITION, purge),
        (Operation.SEND_MESSAGES, propose_batch(PARTITION, INCARNATION, 1, run_of(b"e"))),
    ):
        stamped = data.stamp(AdmittedRequest(ZERO, 0, operation.value, payload, 0), 1)
        assert isinstance(stamped, StampedBody)
        ops.append((operation, stamped.body))
    for operation, body in ops:
        outcome = data.apply(op_header(operation), body)
        assert outcome is not None
        assert outcome.status == 0
    assert payloads(data) == [b"d", b"e"]
    assert (log_of(data).generation, log_of(data).next_offset) == (1, 2)


def test_truncation_removes_whole_sealed_segments_only():
    data = plane(segment_bytes=1)
    for payload in (b"a", b"b", b"c"):
        send(data, payload)
    assert [s.base_offset for s in log_of(data).segments] == [0, 1, 2]
    command(data, Operation.TRUNCATE_PARTITION, 1)
    assert (log_of(data).first_offset, payloads(data)) == (1, [b"b", b"c"])
    command(data, Operation.TRUNCATE_PARTITION, 99)
    assert payloads(data, 2) == [b"c"]
    assert log_of(data).truncate(0) == 0


def test_consumer_offsets_are_stored_deleted_and_bounded():
    data = plane()
    send(data, b"a")
    assert command(data, Operation.STORE_CONSUMER_OFFSET, 0) == 0
    assert command(data, Operation.STORE_CONSUMER_OFFSET, 1) == INVALID_OFFSET
    assert command(data, Operation.DELETE_CONSUMER_OFFSET) == 0
    assert command(data, Operation.DELETE_CONSUMER_OFFSET) == OFFSET_NOT_FOUND
    assert command(data, Operation.CREATE_STREAM) == INVALID_COMMAND
    with pytest.raises(InvariantError, match="a committed command decodes"):
        data.apply(op_header(Operation.PURGE_PARTITION), b"short")


def test_a_checkpoint_brings_everything_back_byte_for_byte():
    data = plane(segment_bytes=100)
    for number in range(5):
        send(data, b"payload %d" % number)
    command(data, Operation.STORE_CONSUMER_OFFSET, 3)
    command(data, Operation.FORGET_PARTITION, incarnation=2)
    other = plane(segment_bytes=100)
    other.restore(7, data.checkpoint(7))
    assert other.checkpoint(7) == data.checkpoint(7)
    assert payloads(other) == payloads(data)
    send(other, b"next")
    assert log_of(other).next_offset == 6
    other.restore(0, ())
    assert other.partitions == {}


def test_a_checkpoint_keeps_the_generation():
    data = plane()
    send(data, b"a", b"b")
    command(data, Operation.PURGE_PARTITION, 4)
    send(data, b"c")
    for bug, expected in ((False, 4), (True, 0)):
        other = plane(generation_not_in_checkpoint=bug)
        other.restore(7, data.checkpoint(7))
        assert log_of(other).generation == expected
        assert other.next_offset(PARTITION, INCARNATION) == 1


def test_partitions_are_spread_over_groups_by_hash_alone():
    assert {group_of(namespace, 4) for namespace in range(200)} == {1, 2, 3, 4}
    assert group_of(12345, 1) == 1
