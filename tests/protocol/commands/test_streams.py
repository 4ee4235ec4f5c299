"""The bytes of streams."""

import pytest

from borzoi.model.errors import InvalidCommand, InvalidFormat
from borzoi.model.topics import Compression
from borzoi.protocol.buffers import Reader
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    PurgeStream,
    StreamDetails,
    StreamInfo,
    Streams,
    UpdateStream,
)
from borzoi.protocol.commands.topics import TopicInfo
from borzoi.protocol.contract import encode_payload


@pytest.mark.parametrize(
    ("code", "wire", "request_value"),
    [
        (Code.GET_STREAM, "0204 6e6f7065", GetStream("nope")),
        (Code.CREATE_STREAM, "02 7331", CreateStream("s1")),
        (Code.DELETE_STREAM, "0104 02000000", DeleteStream(2)),
        (Code.UPDATE_STREAM, "0104 02000000 02 7332", UpdateStream(2, "s2")),
        (Code.PURGE_STREAM, "0202 7331", PurgeStream("s1")),
    ],
)
def test_requests_have_the_published_bytes(code, wire, request_value):
    assert encode_payload(request_value).hex() == wire.replace(" ", "")
    assert decode_request(code, bytes.fromhex(wire)) == request_value


def stream_wire(topics_count: int) -> bytes:
    return bytes.fromhex(
        f"01000000 0200000000000000 {topics_count:02x}000000"
        "0400000000000000 0500000000000000 02 7331"
    )


def test_a_stream_has_the_published_layout():
    info = StreamInfo(id=1, created_at=2, topics_count=3, size_bytes=4, messages_count=5, name="s1")
    assert encode_payload(info) == stream_wire(3)
    assert StreamInfo.decode(Reader(stream_wire(3))) == info
    assert Streams.decode(Reader(stream_wire(3) * 2)) == Streams((info, info))
    assert encode_payload(Streams((info, info))) == stream_wire(3) * 2


def test_the_details_of_a_stream_list_its_topics():
    topic = TopicInfo(1, 2, 3, 4, Compression.GZIP, 6, 7, 8, 9, "t")
    details = StreamDetails(1, 2, 4, 5, "s1", (topic, topic))
    wire = stream_wire(2) + encode_payload(topic) * 2
    assert details.topics_count == 2
    assert encode_payload(details) == wire
    assert StreamDetails.decode(Reader(wire)) == details


@pytest.mark.parametrize("claimed", [0, 2])
def test_another_number_of_topics_than_claimed_is_a_fault_of_format(claimed):
    topic = TopicInfo(1, 2, 3, 4, Compression.GZIP, 6, 7, 8, 9, "t")
    with pytest.raises(InvalidFormat):
        StreamDetails.decode(Reader(stream_wire(claimed) + encode_payload(topic)))


def test_a_stream_that_is_cut_off_is_refused():
    for size in range(1, len(stream_wire(0))):
        with pytest.raises(InvalidCommand):
            Streams.decode(Reader(stream_wire(0)[:size]))
