"""The state machines are functions of their ops; snapshots bring back all of the state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.consensus.machine import Proposal, Stamped
from borzoi.simulator import operations as ops
from borzoi.simulator.machines import ControlMachine, DataMachine, Divergence
from borzoi.simulator.operations import Status, control_body, data_body, read_reply, send_body

NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f", "g"])
TOPICS = st.sampled_from(["x", "y", "z"])


def control_ops():
    one = st.builds(control_body, NAMES)
    two = st.builds(control_body, NAMES, TOPICS)
    three = st.builds(control_body, NAMES, TOPICS, st.integers(-1, 9))
    named = st.builds(control_body, NAMES, TOPICS, st.sampled_from(["g", "h"]))
    odd = st.sampled_from([b"", b"\xc1", control_body(1), control_body("a", "x", 1, 2)])
    return st.lists(
        st.one_of(
            st.tuples(st.sampled_from([ops.CREATE_STREAM, ops.CREATE_STREAM]), one),
            st.tuples(st.sampled_from([ops.DELETE_STREAM, ops.PURGE_STREAM]), one),
            st.tuples(st.just(ops.CREATE_TOPIC), three),
            st.tuples(st.sampled_from([ops.DELETE_TOPIC, ops.PURGE_TOPIC]), two),
            st.tuples(st.sampled_from([ops.CREATE_PARTITIONS, ops.DELETE_PARTITIONS]), three),
            st.tuples(st.sampled_from([ops.CREATE_GROUP, ops.DELETE_GROUP]), named),
            st.tuples(st.sampled_from(ops.CONTROL), odd),
        ),
        max_size=40,
    )


@given(control_ops())
def test_a_restored_control_plane_goes_on_like_the_original(requests):
    one, half = ControlMachine(), len(requests) // 2
    for op, (operation, body) in enumerate(requests[:half], 1):
        one.execute(op, operation, body)
    other = ControlMachine()
    other.load(one.snapshot())
    for op, (operation, body) in enumerate(requests[half:], half + 1):
        assert one.execute(op, operation, body) == other.execute(op, operation, body)
    assert one.snapshot() == other.snapshot()


def test_numbers_are_reused_and_incarnations_are_not():
    machine = ControlMachine()
    machine.execute(1, ops.CREATE_STREAM, control_body("s"))
    _, first = read_reply(machine.execute(2, ops.CREATE_TOPIC, control_body("s", "t", 1)))
    machine.execute(3, ops.DELETE_STREAM, control_body("s"))
    machine.execute(4, ops.CREATE_STREAM, control_body("other"))
    _, second = read_reply(machine.execute(5, ops.CREATE_TOPIC, control_body("other", "t", 1)))
    assert first[0][0] == second[0][0]
    assert (first[0][1], second[0][1]) == (2, 5)


def proposal(operation, body):
    return Proposal(bytes(16), 1, operation, body, 0)


def test_offsets_continue_what_is_prepared_not_what_is_applied():
    machine = DataMachine()
    bodies = []
    for _ in range(3):
        stamped = machine.stamp(proposal(ops.SEND_MESSAGES, send_body(1, 1, [b"a", b"b"])), 5)
        assert isinstance(stamped, Stamped)
        bodies.append(stamped.body)
    assert [ops.unpack(body).base_offset for body in bodies] == [0, 2, 4]
    machine.execute(1, ops.SEND_MESSAGES, bodies[0])
    machine.forget_prepared()
    again = machine.stamp(proposal(ops.SEND_MESSAGES, send_body(1, 1, [b"c"])), 6)
    assert isinstance(again, Stamped)
    assert ops.unpack(again.body).base_offset == 2


def test_a_batch_that_does_not_continue_is_a_divergence():
    machine = DataMachine()
    with pytest.raises(Divergence):
        machine.execute(1, ops.SEND_MESSAGES, ops.stamped(send_body(1, 1, [b"a"]), 4, 0))


def test_a_purged_partition_never_mints_an_offset_again():
    machine = DataMachine()
    machine.execute(1, ops.SEND_MESSAGES, send_body(1, 1, [b"a", b"b"]))
    machine.execute(2, ops.PURGE_PARTITION, data_body(1, 1, 1))
    other = DataMachine()
    other.load(machine.snapshot())
    assert other.next_offset(1, 1) == 2
    # The same purge again changes nothing: it is idempotent by generation.
    other.execute(3, ops.SEND_MESSAGES, ops.stamped(send_body(1, 1, [b"c"]), 2, 0))
    other.execute(4, ops.PURGE_PARTITION, data_body(1, 1, 1))
    assert other.partitions[1, 1].messages == [b"c"]


def test_a_forgotten_partition_stays_forgotten():
    machine = DataMachine()
    machine.execute(1, ops.FORGET_PARTITION, data_body(1, 1, 0))
    answer = machine.execute(2, ops.SEND_MESSAGES, send_body(1, 1, [b"a"]))
    assert read_reply(answer)[0] is Status.NO_PARTITION
    assert machine.partitions == {}


def test_short_and_unknown_data_ops_are_refused():
    machine = DataMachine()
    assert machine.stamp(proposal(ops.SEND_MESSAGES, b"short"), 0) == Status.INVALID
    assert read_reply(machine.execute(1, ops.STORE_OFFSET, b""))[0] is Status.INVALID
    assert read_reply(machine.execute(2, 250, data_body(1, 1, 0)))[0] is Status.INVALID
