"""The shadow predicts exactly what the state machines answer."""

from collections import Counter
from random import Random

import pytest

from borzoi.consensus.frames import root
from borzoi.consensus.machine import AdmittedRequest, StampedBody
from borzoi.consensus.messages import Operation
from borzoi.simulator import operations as ops
from borzoi.simulator.draws import Draw
from borzoi.simulator.machines import ControlMachine, DataMachine
from borzoi.simulator.mix import Mix
from borzoi.simulator.shadow import ControlShadow, DataShadow


def header(op, operation):
    return root(bytes(16), 0)._replace(op=op, operation=operation, timestamp=op, user_id=op % 3)


@pytest.mark.parametrize("seed", range(10))
def test_control_answers_are_predicted(seed):
    mix = Mix(Draw(), Random(seed), Counter())
    machine, shadow = ControlMachine(), ControlShadow()
    answers = set()
    for op in range(1, 600):
        _, operation, body = mix.next_request(1)
        answer = machine.apply(header(op, operation), body)
        assert tuple(answer) == shadow.predict(header(op, operation), body)
        answers.add(answer.status)
    assert len(answers) > 3


PARTITIONS = ((1, 1), (1, 5), (9, 2))


def data_request(random):
    """Operation and body, in small numbers so that they meet."""
    namespace, incarnation = random.choice(PARTITIONS)
    operation = random.choice((*ops.DATA, *[Operation.SEND_MESSAGES] * 6))
    if operation == Operation.SEND_MESSAGES:
        payloads = [random.randbytes(9) for _ in range(random.randint(1, 3))]
        return operation, ops.send_body(namespace, incarnation, payloads)
    if operation == Operation.FORGET_PARTITION and random.random() < 0.8:
        operation = Operation.DELETE_SEGMENTS
    argument, consumer = random.randrange(20), random.randrange(3)
    return operation, ops.data_body(namespace, incarnation, argument, consumer)


@pytest.mark.parametrize("seed", range(10))
def test_data_answers_and_contents_are_predicted(seed):
    random = Random(seed)
    machine = DataMachine(
        control_commit=lambda: 100, new_ids=lambda n: random.randbytes(16 * n), segment_bytes=300
    )
    shadow = DataShadow(300)
    for op in range(1, 300):
        operation, body = data_request(random)
        stamped = machine.stamp(AdmittedRequest(bytes(16), 0, operation, body, 0), op)
        assert isinstance(stamped, StampedBody)
        answer = machine.apply(header(op, operation), stamped.body)
        assert answer is not None
        assert tuple(answer) == shadow.predict(header(op, operation), stamped.body)
        machine.forget_prepared()
    assert shadow.objections == []
    assert sorted(machine.partitions) == sorted(shadow.partitions)
    for key, log in machine.partitions.items():
        contents = shadow.partitions[key]
        assert (log.first_offset, log.next_offset) == (contents.start, contents.end)
        found = log.read(0, 1000)
        assert [bytes(message[64:]) for message in found] == shadow.messages(key)


def stamped(payloads, **changes):
    """A batch as a primary would stamp it, but for the changes."""
    machine = DataMachine(
        control_commit=lambda: 100, new_ids=lambda n: b"\x01" * 16 * n, segment_bytes=1000
    )
    body = ops.send_body(1, 1, payloads)
    made = machine.stamp(AdmittedRequest(bytes(16), 0, Operation.SEND_MESSAGES, body, 0), 1)
    assert isinstance(made, StampedBody)
    return made.body


def test_a_message_that_appears_twice_is_noticed():
    shadow = DataShadow(1000)
    shadow.predict(header(1, Operation.SEND_MESSAGES), stamped([b"a"]))
    assert shadow.objections == []
    shadow.predict(header(2, Operation.SEND_MESSAGES), stamped([b"a"]))
    assert any("twice" in objection for objection in shadow.objections)


def test_a_batch_that_was_never_stamped_is_noticed():
    shadow = DataShadow(1000)
    shadow.predict(header(7, Operation.SEND_MESSAGES), ops.send_body(1, 1, [b"a"]))
    assert any("no id" in objection for objection in shadow.objections)
    assert any("stamped" in objection for objection in shadow.objections)
