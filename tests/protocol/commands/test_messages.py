"""The bytes of sends, polls and flushes, and the order in which a send's faults are found."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.wire_client import request_in
from tests.support.wire_strategies import REQUESTS

from borzoi.model.consuming import Consumer, ConsumerKind, PollingKind, PollingStrategy
from borzoi.model.errors import InvalidCommand, InvalidIdentifier, InvalidKeyLength
from borzoi.model.limits import NAME_BYTES_MAX
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import (
    SEND_METADATA_BYTES_MAX,
    FlushUnsavedBuffer,
    PolledMessages,
    PollMessages,
    SendMessages,
    constant_of_send,
    decode_send_metadata,
    split_poll,
    split_send,
)
from borzoi.protocol.contract import encode_payload


@pytest.mark.parametrize(
    ("wire", "request_value"),
    [
        (
            "01 010400000000 02027331 02027431 01 02000000 05 0000000000000000 0a000000 01",
            PollMessages(
                Consumer(ConsumerKind.CONSUMER, 0),
                "s1",
                "t1",
                2,
                PollingStrategy.next(),
                10,
                auto_commit=True,
            ),
        ),
        (
            "02 02026731 02027331 02027431 00 00000000 01 0700000000000000 0a000000 00",
            PollMessages(
                Consumer(ConsumerKind.GROUP, "g1"),
                "s1",
                "t1",
                None,
                PollingStrategy.offset(7),
                10,
            ),
        ),
    ],
)
def test_polls_have_the_published_bytes(wire, request_value):
    payload = bytes.fromhex(wire)
    assert encode_payload(request_value) == payload
    assert request_in(Code.POLL_MESSAGES, payload) == request_value
    for size in range(len(payload)):
        with pytest.raises(InvalidCommand):
            request_in(Code.POLL_MESSAGES, payload[:size])


def test_any_byte_but_zero_commits():
    wire = bytes.fromhex(
        "01 010400000000 02027331 02027431 02 02000000 03 0000000000000000 0a000000 07"
    )
    poll = request_in(Code.POLL_MESSAGES, wire)
    assert poll.auto_commit is True
    assert poll.partition_id is None


@pytest.mark.parametrize("strategy", [0, 6])
def test_an_unknown_strategy_is_malformed(strategy):
    wire = bytes.fromhex(
        f"01 010400000000 02027331 02027431 00 00000000 {strategy:02x} 0000000000000000 0a000000 00"
    )
    with pytest.raises(InvalidCommand):
        request_in(Code.POLL_MESSAGES, wire)


def test_an_answer_to_a_poll_has_at_least_sixteen_bytes():
    wire = bytes.fromhex("01000000 0200000000000000 00000000")
    polled = PolledMessages(partition_id=1, current_offset=2, messages_count=0, messages=b"")
    assert encode_payload(polled) == wire
    assert PolledMessages.decode(Reader(wire)) == polled
    with pytest.raises(InvalidCommand):
        PolledMessages.decode(Reader(wire[:15]))


def test_polled_messages_are_a_view_of_the_answer():
    answer = bytearray(16) + b"messages"
    messages = PolledMessages.decode(Reader(answer)).messages
    assert isinstance(messages, memoryview)
    assert messages.obj is answer


def test_a_flush_names_a_partition():
    wire = bytes.fromhex("02027331 02027431 01000000 01")
    request = FlushUnsavedBuffer("s1", "t1", 1, fsync=True)
    assert encode_payload(request) == wire
    assert request_in(Code.FLUSH_UNSAVED_BUFFER, wire) == request
    assert request_in(Code.FLUSH_UNSAVED_BUFFER, wire[:-1] + b"\x07") == request


INDEX = bytes.fromhex("00000000 45000000 0000000000000000")
MESSAGE = bytes(64) + b"hello"


def send(metadata: str, *, count: int = 1, indexes: bytes = INDEX, body: bytes = MESSAGE) -> bytes:
    """A send with these identifiers and this partitioning."""
    fields = bytes.fromhex(metadata) + count.to_bytes(4, "little")
    return len(fields).to_bytes(4, "little") + fields + indexes + body


GOOD = send("02027331 02027431 020400000000")


def test_a_send_has_the_published_bytes():
    request = SendMessages(
        "s1", "t1", Partitioning.partition(0), 1, memoryview(INDEX), memoryview(MESSAGE)
    )
    assert encode_payload(request) == GOOD
    assert request_in(Code.SEND_MESSAGES, GOOD) == request
    out = Writer()
    request.encode_metadata(out)
    assert out.getvalue() + INDEX + MESSAGE == GOOD


def test_nothing_of_a_send_is_copied():
    payload = bytearray(GOOD)
    request = request_in(Code.SEND_MESSAGES, memoryview(payload))
    assert request.messages.obj is payload
    assert request.indexes.obj is payload
    request.messages[0] = 0xFF
    assert payload[-len(MESSAGE)] == 0xFF


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b"", InvalidCommand),
        (b"\x01\x00\x00", InvalidCommand),
        (b"\x88\x13\x00\x00" + GOOD[4:], InvalidCommand),
        (bytes(4), InvalidIdentifier),
        (b"\x01\x00\x00\x00\x02", InvalidIdentifier),
        (send("030400000000 02027431 0100"), InvalidIdentifier),
        (send("000400000000 02027431 0100"), InvalidIdentifier),
        (send("0103000000 02027431 0100"), InvalidIdentifier),
        (send("0100 02027431 0100"), InvalidIdentifier),
        (send("0200 02027431 0100"), InvalidIdentifier),
        (send("02027331 0200 0100"), InvalidIdentifier),
        (b"\x05\x00\x00\x00\x02\x02s1\x02" + GOOD[9:], InvalidIdentifier),
        (b"\x07\x00\x00\x00" + GOOD[4:], InvalidIdentifier),
        (b"\x08\x00\x00\x00" + GOOD[4:], InvalidCommand),
        (b"\x09\x00\x00\x00" + GOOD[4:], InvalidCommand),
        (b"\x11\x00\x00\x00" + GOOD[4:], InvalidCommand),
        (send("02027331 02027431 0400"), InvalidCommand),
        (send("02027331 02027431 0000"), InvalidCommand),
        (send("02027331 02027431 02020000"), InvalidCommand),
        (send("02027331 02027431 010100"), InvalidCommand),
        (send("02027331 02027431 0300"), InvalidKeyLength),
        (send("02027331 02027431 0100", count=1000), InvalidCommand),
        (send("02027331 02027431 0100", count=2**32 - 1), InvalidCommand),
        (send("030400000000 02027431 0400", count=1000), InvalidIdentifier),
        (send("02027331 0200 0400", count=1000), InvalidIdentifier),
        (send("02027331 02027431 0300", count=1000), InvalidKeyLength),
    ],
)
def test_the_faults_of_a_send_are_found_in_the_recorded_order(payload, fault):
    with pytest.raises(fault) as refused:
        request_in(Code.SEND_MESSAGES, payload)
    assert type(refused.value) is fault


def test_a_name_that_is_not_utf8_is_kept_and_rewritten_exactly():
    payload = send("0202fffe 0203ff6162 0100")
    request = request_in(Code.SEND_MESSAGES, payload)
    assert request.stream_id == "\udcff\udcfe"
    assert encode_payload(request) == payload


def test_no_messages_and_no_indexes_are_for_others_to_judge():
    request = request_in(
        Code.SEND_MESSAGES, send("02027331 02027431 0100", count=0, indexes=b"", body=b"")
    )
    assert (request.messages_count, len(request.indexes), len(request.messages)) == (0, 0, 0)


def test_bytes_after_the_metadata_are_ignored():
    fields = bytes.fromhex("02027331 02027431 0100 01000000 aabbcc")
    payload = len(fields).to_bytes(4, "little") + fields + INDEX + MESSAGE
    request = request_in(Code.SEND_MESSAGES, payload)
    assert request.indexes == INDEX
    assert request.messages == MESSAGE


@given(REQUESTS[SendMessages], st.data())
def test_metadata_can_be_read_before_the_messages_have_arrived(request_value, data):
    payload = encode_payload(request_value)
    needed = min(len(payload), SEND_METADATA_BYTES_MAX)
    arrived = data.draw(st.integers(needed, len(payload)))
    early = decode_send_metadata(memoryview(payload[:arrived]), len(payload))
    assert early == decode_send_metadata(memoryview(payload))
    assert early.stream_id == request_value.stream_id
    assert early.topic_id == request_value.topic_id
    assert early.partitioning == request_value.partitioning
    assert early.messages_count == request_value.messages_count
    assert payload[early.indexes_start : early.messages_start] == request_value.indexes
    assert payload[early.messages_start :] == request_value.messages


def test_the_largest_metadata_fits_the_published_bound():
    largest = SendMessages(
        "s" * 255, "t" * 255, Partitioning.key(b"k" * 255), 0, memoryview(b""), memoryview(b"")
    )
    assert len(encode_payload(largest)) == SEND_METADATA_BYTES_MAX


def test_metadata_longer_than_what_arrived_is_read_up_to_its_fields():
    fields = bytes.fromhex("02027331 02027431 0100 01000000")
    declared = 5000
    early = decode_send_metadata(
        memoryview((4900).to_bytes(4, "little") + fields + bytes(1000)), declared
    )
    assert (early.indexes_start, early.messages_start) == (4904, 4920)


def test_a_poll_may_wait_and_says_so_behind_the_fields_of_0_8() -> None:
    poll = PollMessages(
        Consumer(ConsumerKind.CONSUMER, 1), "s", "t", 0, PollingStrategy.next(), 10, True
    )
    patient = msgspec.structs.replace(poll, wait_ms=5000)
    plain, longer = encode_payload(poll), encode_payload(patient)
    assert longer == plain + b"WAIT" + (5000).to_bytes(4, "little")
    assert PollMessages.decode(Reader(longer)) == patient
    # Whatever else stands there is ignored, as 0.8 does.
    for other in (b"zzz", b"WAIT", b"wait\x88\x13\0\0", b"WAIT\x88\x13\0\0\0"):
        assert PollMessages.decode(Reader(plain + other)) == poll


@given(REQUESTS[SendMessages])
def test_a_send_is_split_where_it_is_decoded(request_value) -> None:
    payload = memoryview(encode_payload(request_value))
    send = decode_send_metadata(payload)
    assert send.is_tight
    constant = bytes(payload[4 : send.count_start])
    starts = (send.messages_count, send.indexes_start, send.messages_start)
    assert split_send(payload) == (constant, *starts)
    assert constant_of_send(payload[:SEND_METADATA_BYTES_MAX]) == constant


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytes(7),
        (3).to_bytes(4, "little") + bytes(20),
        (2**31).to_bytes(4, "little") + bytes(20),
        (30).to_bytes(4, "little") + bytes(20),
        (4).to_bytes(4, "little") + b"\xff\xff\xff\x7f",
    ],
    ids=["empty", "short", "no count", "too long", "cut off", "too many"],
)
def test_what_no_metadata_fits_into_is_not_split(payload: bytes) -> None:
    assert split_send(memoryview(payload)) is None


def test_metadata_with_bytes_behind_its_count_is_not_tight() -> None:
    request_value = SendMessages(1, 2, Partitioning.balanced(), 0, memoryview(b""), memoryview(b""))
    payload = bytearray(encode_payload(request_value))
    payload[:4] = (int.from_bytes(payload[:4], "little") + 3).to_bytes(4, "little")
    assert not decode_send_metadata(memoryview(payload + bytes(3))).is_tight


def test_polls_of_one_consumer_differ_in_their_moving_part_only() -> None:
    consumer = Consumer(ConsumerKind.CONSUMER, 7)
    first = PollMessages(consumer, "s", "t", 0, PollingStrategy.offset(5), 10, False)
    second = PollMessages(consumer, "s", "t", 0, PollingStrategy.next(), 99, True)
    one, other = (memoryview(encode_payload(request)) for request in (first, second))
    constant = bytes(one[:-14])
    assert split_poll(one) == (constant, PollingKind.OFFSET, 5, 10, 0)
    assert split_poll(other) == (constant, PollingKind.NEXT, 0, 99, 1)


def test_a_payload_of_another_size_is_not_split_as_a_poll() -> None:
    name = "n" * NAME_BYTES_MAX
    consumer = Consumer(ConsumerKind.CONSUMER, name)
    longest = encode_payload(PollMessages(consumer, name, name, 0, PollingStrategy.next(), 1))
    assert split_poll(memoryview(longest)) == (longest[:-14], PollingKind.NEXT, 0, 1, 0)
    assert split_poll(memoryview(longest + b"x")) is None
    assert split_poll(memoryview(bytes(14))) == (b"", 0, 0, 0, 0)
    assert split_poll(memoryview(bytes(13))) is None
