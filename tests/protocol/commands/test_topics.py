"""The bytes of topics, and what is said about their compression."""

import pytest
from tests.support.wire_client import request_in

from borzoi.model.errors import InvalidCommand, InvalidFormat, TooManyPartitions
from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.model.topics import Compression
from borzoi.protocol.buffers import Reader
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.partitions import PartitionInfo
from borzoi.protocol.commands.streams import StreamDetails
from borzoi.protocol.commands.topics import (
    CreateTopic,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    TopicDetails,
    TopicInfo,
    Topics,
    UpdateTopic,
)
from borzoi.protocol.contract import encode_payload


@pytest.mark.parametrize(
    ("code", "wire", "request_value"),
    [
        (Code.GET_TOPIC, "02027331 02027431", GetTopic("s1", "t1")),
        (Code.GET_TOPICS, "02027331", GetTopics("s1")),
        (
            Code.CREATE_TOPIC,
            "02027331 03000000 01 0000000000000000 0000000000000000 00 027431",
            CreateTopic("s1", "t1", 3),
        ),
        (
            Code.CREATE_TOPIC,
            "010400000000 02000000 02 00a493d600000000 0000008000000000 03 02677a",
            CreateTopic(0, "gz", 2, Compression.GZIP, 3_600_000_000, 2 * 2**30, 3),
        ),
        (
            Code.UPDATE_TOPIC,
            "02027331 02027431 04 ffffffffffffffff ffffffffffffffff 01 027432",
            UpdateTopic("s1", "t1", "t2", Compression.ZSTD, NEVER, UNLIMITED, 1),
        ),
        (Code.DELETE_TOPIC, "010400000000 010401000000", DeleteTopic(0, 1)),
        (Code.PURGE_TOPIC, "010400000000 02027431", PurgeTopic(0, "t1")),
    ],
)
def test_requests_have_the_published_bytes(code, wire, request_value):
    assert encode_payload(request_value).hex() == wire.replace(" ", "")
    assert request_in(code, bytes.fromhex(wire)) == request_value


def create(partitions_count: int, compression: int, name: str = "02 7431") -> bytes:
    return (
        bytes.fromhex("02027331")
        + partitions_count.to_bytes(4, "little")
        + bytes([compression])
        + bytes(17)
        + bytes.fromhex(name)
    )


@pytest.mark.parametrize("compression", [1, 2, 3, 4])
def test_all_four_compressions_are_accepted_from_clients(compression):
    created = request_in(Code.CREATE_TOPIC, create(1, compression))
    assert created.compression == compression


@pytest.mark.parametrize("compression", [0, 5, 255])
def test_an_unknown_compression_is_malformed(compression):
    with pytest.raises(InvalidCommand):
        request_in(Code.CREATE_TOPIC, create(1, compression))
    update = bytes.fromhex("02027431") + create(1, compression).replace(b"\x01\x00\x00\x00", b"", 1)
    with pytest.raises(InvalidCommand):
        request_in(Code.UPDATE_TOPIC, update)


def test_too_many_partitions_are_judged_before_the_compression():
    with pytest.raises(TooManyPartitions):
        request_in(Code.CREATE_TOPIC, create(1001, 0))
    assert request_in(Code.CREATE_TOPIC, create(1001, 1)).partitions_count == 1001


def test_an_empty_name_is_a_fault_of_format():
    with pytest.raises(InvalidFormat):
        request_in(Code.CREATE_TOPIC, create(1, 1, name="00"))


TOPIC_WIRE = bytes.fromhex(
    "01000000 0200000000000000 02000000 0400000000000000 02 0600000000000000 07"
    "0800000000000000 0900000000000000 027431"
)
TOPIC = TopicInfo(
    id=1,
    created_at=2,
    partitions_count=2,
    message_expiry=4,
    compression=Compression.GZIP,
    max_topic_size=6,
    replication_factor=7,
    size_bytes=8,
    messages_count=9,
    name="t1",
)
PARTITION = PartitionInfo(0, 1, 2, 3, 4, 5)
DETAILS = TopicDetails(1, 2, 4, Compression.GZIP, 6, 7, 8, 9, "t1", (PARTITION, PARTITION))


def test_a_topic_has_the_published_layout():
    assert encode_payload(TOPIC) == TOPIC_WIRE
    assert TopicInfo.decode(Reader(TOPIC_WIRE)) == TOPIC
    assert encode_payload(Topics((TOPIC, TOPIC))) == TOPIC_WIRE * 2
    assert Topics.decode(Reader(TOPIC_WIRE * 2)) == Topics((TOPIC, TOPIC))


def test_the_details_of_a_topic_list_its_partitions():
    wire = TOPIC_WIRE + encode_payload(PARTITION) * 2
    assert DETAILS.partitions_count == 2
    assert encode_payload(DETAILS) == wire
    assert TopicDetails.decode(Reader(wire)) == DETAILS


@pytest.mark.parametrize("partitions", [0, 1, 3])
def test_another_number_of_partitions_than_claimed_is_a_fault_of_format(partitions):
    with pytest.raises(InvalidFormat):
        TopicDetails.decode(Reader(TOPIC_WIRE + encode_payload(PARTITION) * partitions))


def test_a_topic_of_an_unknown_compression_is_refused():
    with pytest.raises(InvalidCommand):
        TopicInfo.decode(Reader(TOPIC_WIRE[:24] + b"\x05" + TOPIC_WIRE[25:]))


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
def test_answers_say_gzip_unless_their_reader_knows_better(compression):
    info = TopicInfo(1, 2, 2, 4, compression, 6, 7, 8, 9, "t1")
    details = TopicDetails(1, 2, 4, compression, 6, 7, 8, 9, "t1", ())
    stream = StreamDetails(1, 2, 3, 4, "s", (info,))
    for answer in (info, details, Topics((info,)), stream):
        assert answer != type(answer).decode(Reader(encode_payload(answer)))
        known = encode_payload(answer, all_compressions=True)
        assert type(answer).decode(Reader(known)) == answer
    assert encode_payload(info) == TOPIC_WIRE
