import pytest

from borzoi.consensus.frames import blank
from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.messages import ZERO
from borzoi.consensus.pipeline import LOCAL, CommitPipeline, InFlight, Queued

ADA = (1).to_bytes(16, "little")


def queued(request: int, client: bytes = ADA) -> Queued:
    return Queued(client, request, 128, b"", ZERO, 0, 0, LOCAL)


def in_flight(op: int, partition: int = 0, origin: int | None = LOCAL) -> InFlight:
    return InFlight(blank(op), 0, origin, partition, 0)


def test_the_queue_is_bounded_and_in_order():
    pipeline = CommitPipeline(2, 2)
    assert pipeline.enqueue(queued(1))
    assert pipeline.enqueue(queued(2))
    assert not pipeline.enqueue(queued(3))
    assert pipeline.dequeue().request == 1


def test_a_request_on_its_way_is_recognised_until_it_is_answered():
    pipeline = CommitPipeline(8, 8)
    pipeline.enqueue(queued(4))
    pipeline.enqueue(queued(5))
    assert pipeline.holds(ADA, 5)
    assert pipeline.holds(ADA, 4)
    assert not pipeline.holds(ADA, 6)
    pipeline.forget(ADA, 4)
    assert pipeline.holds(ADA, 5)
    pipeline.forget(ADA, 5)
    assert not pipeline.holds(ADA, 5)
    pipeline.forget(ADA, 5)


def test_requests_without_a_session_are_not_remembered():
    pipeline = CommitPipeline(8, 8)
    pipeline.enqueue(queued(1, ZERO))
    assert not pipeline.holds(ZERO, 1)
    pipeline.forget(ZERO, 1)


def test_each_partition_has_its_own_queue_and_commits_in_op_order():
    pipeline = CommitPipeline(4, 4)
    for op, partition in ((1, 7), (2, 8), (3, 7)):
        pipeline.append(in_flight(op, partition))
    assert {key: list(ops) for key, ops in pipeline.partitions.items()} == {7: [1, 3], 8: [2]}
    assert [pipeline.pop().op for _ in range(2)] == [1, 2]
    assert list(pipeline.partitions) == [7]
    assert not pipeline.is_full()
    assert len(pipeline) == 1


def test_depth_and_order_are_enforced():
    pipeline = CommitPipeline(2, 2)
    pipeline.append(in_flight(5))
    with pytest.raises(InvariantError):
        pipeline.append(in_flight(7))
    pipeline.append(in_flight(6))
    with pytest.raises(InvariantError):
        pipeline.append(in_flight(7))


def test_acks_are_cumulative_bits_and_can_be_withdrawn():
    pipeline = CommitPipeline(4, 4)
    for op in (1, 2, 3):
        pipeline.append(in_flight(op))
    pipeline.acknowledge(2, 2)
    pipeline.acknowledge(0, 9)
    assert [entry.acks for entry in pipeline.entries] == [0b101, 0b101, 0b001]
    pipeline.withdraw(2)
    assert [entry.acks for entry in pipeline.entries] == [1, 1, 1]


def test_waiters_are_those_who_asked_not_inherited_ops():
    pipeline = CommitPipeline(4, 4)
    pipeline.append(in_flight(1, origin=None))
    assert not pipeline.has_waiters()
    pipeline.enqueue(queued(1))
    assert pipeline.has_waiters()
    pipeline.clear()
    assert not pipeline.has_waiters()
    assert not pipeline.holds(ADA, 1)
