from borzoi.consensus.partition_ops import (
    COMMAND_BYTES,
    DESCRIPTOR_BYTES,
    BatchDescriptor,
    PartitionCommand,
    decode_batch,
    decode_command,
    encode_batch,
    encode_command,
    propose_batch,
    run_is_whole,
)
from borzoi.records.checksum import checksum


def test_the_descriptor_is_64_bytes_in_the_order_of_its_table():
    descriptor = BatchDescriptor(1, 2, 3, 4, 5, 3, 6, 7, 8)
    raw = encode_batch(descriptor, b"run")
    assert DESCRIPTOR_BYTES == 64
    words = [int.from_bytes(raw[at : at + 8], "little") for at in range(0, 32, 8)]
    assert words == [1, 2, 3, 4]
    assert raw[32:36] == b"\5\0\0\0"
    assert raw[36:40] == b"\3\0\0\0"
    assert raw[40:48] == b"\6" + bytes(7)
    assert raw[48:52] == b"\7\0\0\0"
    assert raw[52:60] == b"\x08" + bytes(7)
    assert raw[60:64] == bytes(4)
    assert raw[64:] == b"run"


def test_a_batch_whose_lengths_do_not_fit_is_refused():
    raw = propose_batch(1, 2, 1, b"run")
    assert decode_batch(raw) is not None
    assert decode_batch(raw[:63]) is None
    assert decode_batch(raw + b"x") is None
    assert decode_batch(propose_batch(1, 2, 0, b"")) is None


def test_a_run_is_checked_against_its_checksum():
    descriptor = BatchDescriptor(1, 2, 3, 4, 1, 3, checksum(b"run"))
    assert run_is_whole(descriptor, memoryview(b"run"))
    assert not run_is_whole(descriptor, memoryview(b"ruN"))


def test_commands_have_a_fixed_size():
    command = PartitionCommand(1, 2, 3, 4, 2)
    raw = encode_command(command)
    assert len(raw) == COMMAND_BYTES == 32
    assert decode_command(raw) == command
    assert decode_command(raw[:-1]) is None
