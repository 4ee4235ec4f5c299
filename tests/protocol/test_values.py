"""Compound values: consumers, partitioning, strategies, statuses, permissions."""

import pytest
from hypothesis import given
from tests.support.wire_strategies import (
    consumers,
    optional_partitions,
    optional_permissions,
    partitionings,
    permissions,
    polling_strategies,
)

from borzoi.model.consuming import Consumer, ConsumerKind, PollingKind, PollingStrategy
from borzoi.model.errors import InvalidCommand, InvalidFormat, InvalidKeyLength
from borzoi.model.partitioning import Partitioning
from borzoi.model.topics import Compression
from borzoi.model.users import (
    ALL_PERMISSIONS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.values import (
    answered_compression,
    partitioning_of,
    read_consumer,
    read_optional_u32,
    read_permissions,
    read_sized_permissions,
    read_status,
    strategy_of,
    write_consumer,
    write_optional_u32,
    write_partitioning,
    write_permissions,
    write_sized_permissions,
    write_strategy,
)

# manage_users, read_streams; stream 7: read_stream, poll; its topics 1 and 300.
PERMISSIONS_WIRE = bytes.fromhex(
    "000001000001000000000107000000 000100000100 0101000000 01000000 012c010000 00000001 0000"
)
PERMISSIONS = Permissions(
    GlobalPermissions(manage_users=True, read_streams=True),
    {
        7: StreamPermissions(
            read_stream=True,
            poll_messages=True,
            topics={
                1: TopicPermissions(manage_topic=True),
                300: TopicPermissions(send_messages=True),
            },
        )
    },
)


def written(write, value):
    out = Writer()
    write(out, value)
    return out.getvalue()


@given(consumers)
def test_a_consumer_is_read_as_written(consumer):
    assert read_consumer(Reader(written(write_consumer, consumer))) == consumer


def test_a_consumer_is_a_kind_and_an_identifier():
    wire = bytes.fromhex("02 02 02 6731")
    assert read_consumer(Reader(wire)) == Consumer(ConsumerKind.GROUP, "g1")


@pytest.mark.parametrize("kind", [0, 3, 255])
def test_there_are_two_kinds_of_consumers(kind):
    with pytest.raises(InvalidCommand):
        read_consumer(Reader(bytes([kind]) + b"\x01\x04\x00\x00\x00\x00"))


@given(optional_partitions)
def test_an_optional_number_is_read_as_written_in_five_bytes(value):
    wire = written(write_optional_u32, value)
    assert len(wire) == 5
    assert read_optional_u32(Reader(wire)) == value


def test_a_flag_other_than_one_means_absent():
    assert read_optional_u32(Reader(b"\x02\x07\x00\x00\x00")) is None
    assert read_optional_u32(Reader(b"\x00\x07\x00\x00\x00")) is None
    assert read_optional_u32(Reader(b"\x01\x07\x00\x00\x00")) == 7


@given(partitionings)
def test_a_partitioning_is_read_as_written(partitioning):
    wire = written(write_partitioning, partitioning)
    assert wire[1] == len(wire) - 2
    assert partitioning_of(wire[0], wire[2:]) == partitioning


def test_the_partitionings_have_the_published_bytes():
    assert written(write_partitioning, Partitioning.balanced()) == b"\x01\x00"
    assert written(write_partitioning, Partitioning.partition(9)) == b"\x02\x04\x09\x00\x00\x00"
    assert written(write_partitioning, Partitioning.key(b"key-1")) == b"\x03\x05key-1"


@pytest.mark.parametrize(
    ("kind", "value", "fault"),
    [
        (0, b"", InvalidCommand),
        (4, b"", InvalidCommand),
        (1, b"x", InvalidCommand),
        (2, b"", InvalidCommand),
        (2, b"ab", InvalidCommand),
        (2, bytes(5), InvalidCommand),
        (3, b"", InvalidKeyLength),
    ],
)
def test_a_partitioning_of_a_wrong_size_is_refused(kind, value, fault):
    with pytest.raises(fault):
        partitioning_of(kind, value)


@given(polling_strategies)
def test_a_strategy_is_read_as_written_in_nine_bytes(strategy):
    wire = written(write_strategy, strategy)
    assert len(wire) == 9
    assert strategy_of(wire[0], int.from_bytes(wire[1:], "little")) == strategy


def test_there_are_five_strategies():
    assert [strategy_of(kind, 0).kind for kind in range(1, 6)] == list(PollingKind)
    assert strategy_of(1, 8) == PollingStrategy.offset(8)
    for kind in (0, 6):
        with pytest.raises(InvalidCommand):
            strategy_of(kind, 0)


def test_only_readers_that_know_them_are_told_of_lz4_and_zstd():
    published, own = Writer(), Writer(all_compressions=True)
    assert [answered_compression(published, each) for each in Compression] == [1, 2, 2, 2]
    assert [answered_compression(own, each) for each in Compression] == [1, 2, 3, 4]


def test_there_are_two_user_statuses():
    assert [read_status(Reader(bytes([code]))) for code in (1, 2)] == list(UserStatus)
    for code in (0, 3):
        with pytest.raises(InvalidCommand):
            read_status(Reader(bytes([code])))


@given(permissions)
def test_permissions_are_read_as_written(granted):
    reader = Reader(written(write_permissions, granted))
    assert read_permissions(reader) == granted
    assert reader.remaining() == 0


def test_permissions_have_the_published_bytes():
    assert written(write_permissions, PERMISSIONS) == PERMISSIONS_WIRE
    assert read_permissions(Reader(PERMISSIONS_WIRE)) == PERMISSIONS
    assert written(write_permissions, ALL_PERMISSIONS) == b"\x01" * 10 + b"\x00"
    assert written(write_permissions, Permissions()) == bytes(11)


def test_streams_and_topics_leave_in_the_order_of_their_ids():
    flags = TopicPermissions()
    shuffled = Permissions(
        streams={
            9: StreamPermissions(topics={5: flags, 2: flags}),
            1: StreamPermissions(),
        }
    )
    reread = read_permissions(Reader(written(write_permissions, shuffled)))
    assert list(reread.streams) == [1, 9]
    assert list(reread.streams[9].topics) == [2, 5]


def test_any_byte_but_zero_grants():
    assert read_permissions(Reader(b"\x02" * 10 + b"\x00")) == ALL_PERMISSIONS


def test_permissions_that_are_cut_off_are_refused():
    for size in range(len(PERMISSIONS_WIRE)):
        with pytest.raises(InvalidCommand):
            read_permissions(Reader(PERMISSIONS_WIRE[:size]))


@given(optional_permissions)
def test_sized_permissions_are_read_as_written(granted):
    reader = Reader(written(write_sized_permissions, granted))
    assert read_sized_permissions(reader) == granted
    assert reader.remaining() == 0


@pytest.mark.parametrize("filler", [b"", b"\x01\x00\x00\x00\x00", b"\xff"])
@pytest.mark.parametrize("flag", [b"\x00", b"\x02"])
def test_after_a_flag_other_than_one_nothing_is_read(flag, filler):
    reader = Reader(flag + filler)
    assert read_sized_permissions(reader) is None
    assert reader.remaining() == len(filler)


@pytest.mark.parametrize("claimed", [10, 12])
def test_permissions_of_another_size_than_claimed_are_a_fault_of_format(claimed):
    with pytest.raises(InvalidFormat):
        read_sized_permissions(Reader(b"\x01" + claimed.to_bytes(4, "little") + bytes(11)))


def test_no_permissions_where_some_were_claimed_are_malformed():
    with pytest.raises(InvalidCommand):
        read_sized_permissions(Reader(b"\x01\x00\x00\x00\x00"))
