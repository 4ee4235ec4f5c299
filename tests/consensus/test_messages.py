"""Numbers that other programs and disks rely on."""

from borzoi.consensus.messages import Command, Operation


def test_upstream_command_numbers_are_not_reused_for_something_else():
    reserved = {14, 15, 16, 18, 19, 20, 21, 26, 27, 28, 29}
    assert reserved.isdisjoint(int(command) for command in Command)


def test_operation_numbers_are_those_of_the_published_protocol():
    assert (Operation.CREATE_STREAM, Operation.DELETE_SEGMENTS, Operation.SEND_MESSAGES) == (
        128,
        138,
        160,
    )
    assert (Operation.REGISTER, Operation.NOOP, Operation.TRUNCATE_PARTITION) == (1, 4, 68)
    assert len(set(Operation)) == 32
