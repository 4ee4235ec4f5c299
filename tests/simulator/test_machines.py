"""The state machines are functions of their ops; checkpoints bring back all of the state."""

from collections import Counter
from random import Random

import pytest

from borzoi.consensus.frames import root
from borzoi.consensus.machine import AdmittedRequest, StampedBody
from borzoi.consensus.messages import Operation
from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.simulator.draws import Draw
from borzoi.simulator.machines import ControlMachine, DataMachine
from borzoi.simulator.mix import Mix
from borzoi.simulator.operations import (
    INVALID_COMMAND,
    PartitionRow,
    control,
    data_body,
    payloads_of,
    read_rows,
    read_send,
    send_body,
)


def header(op, operation):
    return root(bytes(16), 0)._replace(op=op, operation=operation, timestamp=op)


def execute(machine, op, command):
    operation, body = control(command)
    return machine.apply(header(op, operation), body)


def topic(stream, name, count):
    return CreateTopic(
        stream, name, count, message_expiry=NEVER, max_topic_size=UNLIMITED, replication_factor=1
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_restored_control_plane_goes_on_like_the_original(seed):
    mix = Mix(Draw(), Random(seed), Counter())
    one, other = ControlMachine(), ControlMachine()
    for op in range(1, 400):
        _, operation, body = mix.next_request(1)
        first = one.apply(header(op, operation), body)
        if op == 200:
            other.restore(op, one.checkpoint(op))
        if op > 200:
            assert other.apply(header(op, operation), body) == first
    assert one.checkpoint(400) == other.checkpoint(400)
    assert other.restores == 1


def test_numbers_are_reused_and_incarnations_are_not():
    machine = ControlMachine()
    execute(machine, 1, CreateStream("s"))
    first = read_rows(execute(machine, 2, topic("s", "t", 1)).payload)
    execute(machine, 3, DeleteStream("s"))
    execute(machine, 4, CreateStream("other"))
    second = read_rows(execute(machine, 5, topic("other", "t", 1)).payload)
    assert first == [PartitionRow(0, 2, 0)]
    assert second == [PartitionRow(0, 5, 0)]


def test_every_purge_has_a_generation():
    machine = ControlMachine()
    execute(machine, 1, CreateStream("s"))
    execute(machine, 2, topic("s", "t", 2))
    rows = read_rows(execute(machine, 3, PurgeStream("s")).payload)
    assert rows == [PartitionRow(0, 2, 1), PartitionRow(1, 2, 1)]
    rows = read_rows(execute(machine, 4, PurgeStream("s")).payload)
    assert {row.generation for row in rows} == {2}


def test_what_metadata_refuses_is_answered_with_its_status():
    machine = ControlMachine()
    execute(machine, 1, CreateStream("s"))
    outcome = execute(machine, 2, CreateStream("s"))
    assert outcome.status == 1012
    assert outcome.payload == b""


def proposal(operation, body):
    return AdmittedRequest(bytes(16), 1, operation, body, 0)


@pytest.mark.parametrize(
    ("operation", "body"),
    [(Operation.CREATE_STREAM, b"\xc1"), (Operation.SEND_MESSAGES, b""), (250, b"")],
)
def test_what_is_not_a_command_is_refused_before_it_is_an_op(operation, body):
    assert ControlMachine().stamp(proposal(operation, body), 1) == INVALID_COMMAND


def data_machine(segment_bytes=1 << 20):
    return DataMachine(
        control_commit=lambda: 100, new_ids=lambda n: b"\x01" * 16 * n, segment_bytes=segment_bytes
    )


def test_offsets_continue_what_is_prepared_not_what_is_applied():
    machine = data_machine()
    bodies = []
    for _ in range(3):
        send = proposal(Operation.SEND_MESSAGES, send_body(1, 1, [b"a", b"b"]))
        stamped = machine.stamp(send, 5)
        assert isinstance(stamped, StampedBody)
        bodies.append(stamped.body)
    assert [read_send(body).descriptor.base_offset for body in bodies] == [0, 2, 4]
    assert payloads_of(bodies[2]) == [b"a", b"b"]


def test_a_data_machine_counts_its_rebuilds():
    machine = data_machine()
    machine.apply(header(1, Operation.PURGE_PARTITION), data_body(1, 1, 3))
    other = data_machine()
    other.restore(1, machine.checkpoint(1))
    assert other.restores == 1
    assert other.partitions[1, 1].generation == 3
