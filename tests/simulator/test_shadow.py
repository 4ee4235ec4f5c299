"""The shadow predicts exactly what the state machines answer."""

from hypothesis import given
from hypothesis import strategies as st

from borzoi.simulator import operations as ops
from borzoi.simulator.machines import ControlMachine, DataMachine
from borzoi.simulator.operations import control_body, data_body, send_body
from borzoi.simulator.shadow import ControlShadow, DataShadow

NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f", "g"])
TOPICS = st.sampled_from(["x", "y", "z", "w", "v"])
BODIES = st.one_of(
    st.builds(control_body, NAMES),
    st.builds(control_body, NAMES, TOPICS),
    st.builds(control_body, NAMES, TOPICS, st.integers(-1, 9)),
    st.builds(control_body, NAMES, TOPICS, st.sampled_from(["g", "h"])),
    st.sampled_from([b"", b"\xc1", control_body(1), control_body("a", "x", 1, 2)]),
)


@given(st.lists(st.tuples(st.sampled_from([*ops.CONTROL, 250]), BODIES), max_size=60))
def test_control_answers_are_predicted(requests):
    machine, shadow = ControlMachine(), ControlShadow()
    for op, (operation, body) in enumerate(requests, 1):
        assert machine.execute(op, operation, body) == shadow.predict(op, operation, body)


CHANGES = st.tuples(
    st.sampled_from(
        [ops.STORE_OFFSET, ops.DELETE_OFFSET, ops.TRUNCATE_PARTITION, ops.PURGE_PARTITION,
         ops.FORGET_PARTITION, 250]
    ),
    st.builds(data_body, st.just(1), st.integers(1, 2), st.integers(0, 9), st.integers(0, 1)),
)  # fmt: skip
SENDS = st.tuples(st.just(ops.SEND_MESSAGES), st.tuples(st.integers(1, 2), st.integers(1, 3)))


@given(st.lists(st.one_of(CHANGES, SENDS, SENDS), max_size=60))
def test_data_answers_and_contents_are_predicted(requests):
    machine, shadow = DataMachine(), DataShadow()
    for op, (operation, what) in enumerate(requests, 1):
        if isinstance(what, tuple):
            payloads = [f"{op}:{number}".encode() for number in range(what[1])]
            body = ops.stamped(send_body(1, what[0], payloads), machine.next_offset(1, what[0]), 0)
        else:
            body = what
        assert machine.execute(op, operation, body) == shadow.predict(op, operation, body)
    found = {
        key: (one.first_offset, one.messages, one.offsets)
        for key, one in machine.partitions.items()
    }
    assert found == shadow.contents()
    assert shadow.twice == []


def test_a_message_that_appears_twice_is_noticed():
    shadow = DataShadow()
    shadow.predict(1, ops.SEND_MESSAGES, send_body(1, 1, [b"a"]))
    shadow.predict(2, ops.SEND_MESSAGES, send_body(1, 1, [b"a"]))
    assert shadow.twice == [b"a"]
