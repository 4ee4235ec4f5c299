"""Bodies and answers survive their encoding."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.consensus.messages import Operation
from borzoi.consensus.partition_ops import decode_command
from borzoi.model.errors import StateCorrupted
from borzoi.protocol.commands.streams import CreateStream
from borzoi.simulator import operations as ops


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6))
def test_a_send_gives_back_its_payloads(payloads):
    body = ops.send_body(3, 9, payloads)
    assert ops.payloads_of(body) == payloads
    assert ops.read_send(body).descriptor.messages_count == len(payloads)


def test_a_command_names_its_partition():
    command = decode_command(ops.data_body(3, 9, 77, 2))
    assert command is not None
    assert tuple(command) == (3, 9, 77, 2, ops.CONSUMER)


def test_a_control_command_is_numbered_by_its_operation():
    operation, body = ops.control(CreateStream("s"))
    assert operation == Operation.CREATE_STREAM
    assert body


def test_answers_carry_rows():
    rows = [ops.PartitionRow(1, 2, 3)]
    assert ops.read_rows(ops.control_answer(None, rows)) == rows


def test_planes_do_not_share_operations():
    assert not set(ops.CONTROL) & set(ops.DATA)


def test_a_control_command_is_read_as_it_was_written():
    operation, body = ops.control(CreateStream("s"))
    assert ops.read_control(operation, body) == CreateStream("s")
    with pytest.raises(StateCorrupted):
        ops.read_control(operation, b"")
