"""Received messages: what they show, and how a batch of them is read."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.accelerators import needs_accelerator, without_accelerator

from borzoi.client.messages import Message, Polled, decode_messages, encoded_headers
from borzoi.model.errors import InvalidBatch, InvalidHeaderKey, InvalidHeaderValue
from borzoi.records.message import Message as Record
from borzoi.records.message import decode_messages as decode_records
from borzoi.records.message import encode_messages
from borzoi.records.user_headers import HeaderKind, HeaderValue, user_headers


def received(payload: bytes = b"x", headers: bytes = b"") -> Message:
    return Message(0, (5).to_bytes(16, "little"), 7, 1_000_000, 2_000_000, 3, payload, headers)


def test_a_message_shows_what_it_is() -> None:
    message = received(b"{}", encoded_headers({"k": 1}))
    assert (message.partition, message.offset, message.id) == (3, 7, 5)
    assert message.time == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert message.origin_time == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert (message.text(), message.json(), message.headers) == ("{}", {}, {"k": 1})
    assert repr(message) == "Message(partition=3, offset=7, payload=b'{}', headers={'k': 1})"
    assert repr(received(bytes(100))).endswith("… (100 bytes))")
    assert received().headers == {}


def test_headers_have_the_kind_of_their_value_unless_they_say_so() -> None:
    message = received(
        headers=encoded_headers({"a": 1, "b": HeaderValue.of(1, HeaderKind.INT8), "c": 2**64})
    )
    kinds = {key.value: value.kind for key, value in message.typed_headers.items()}
    assert kinds == {"a": HeaderKind.INT64, "b": HeaderKind.INT8, "c": HeaderKind.INT128}


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        ({"": 1}, InvalidHeaderKey),
        ({"k": ""}, InvalidHeaderValue),
        ({"k": "v" * 256}, InvalidHeaderValue),
        ({"k": None}, InvalidHeaderValue),
        ({"k": 2**128}, InvalidHeaderValue),
    ],
)
def test_headers_that_cannot_be_sent_are_refused(headers, fault) -> None:
    with pytest.raises(fault):
        encoded_headers(headers)


def test_a_poll_is_a_sequence() -> None:
    polled = Polled(1, 9, [received()])
    assert len(polled) == 1
    assert list(polled) == [polled[0]]
    assert repr(polled) == "<Polled partition 1: 1 messages, offsets 7 to 7 of 9>"
    assert not Polled(1, 9, [])
    assert repr(Polled(1, 9, [])) == "<Polled partition 1: 0 messages of 9>"


@pytest.mark.usefixtures("both_ways")
def test_messages_of_one_size_are_made_when_they_are_asked_for() -> None:
    _, encoded = encode_messages([Record(b"abc", number) for number in (1, 2, 3)])
    polled = Polled.of(4, 9, memoryview(encoded))
    assert len(polled) == 3
    assert [(m.partition, m.payload, m.id) for m in polled] == [(4, b"abc", n) for n in (1, 2, 3)]
    assert next(iter(polled)) is not next(iter(polled))
    # Those that are kept are the same ones each time.
    assert polled[1] is polled[1] is polled.messages[1] is list(polled)[1]
    assert not Polled.of(4, 9, memoryview(b""))
    assert repr(Polled.of(4, 9, memoryview(b""))) == "<Polled partition 4: 0 messages of 9>"


payloads = st.lists(st.tuples(st.binary(max_size=40), st.booleans()), max_size=20) | st.integers(
    0, 30
).map(lambda count: [(b"same size", False)] * count)


@given(payloads)
def test_a_batch_is_read_as_the_slow_way_reads_it(given_payloads) -> None:
    records = [
        Record(payload, number + 1, user_headers({"k": number}) if has_headers else b"")
        for number, (payload, has_headers) in enumerate(given_payloads)
    ]
    _, encoded = encode_messages(records)
    messages = decode_messages(memoryview(encoded), 2)
    assert [(m.payload, m.id, m.encoded_headers, m.partition) for m in messages] == [
        (r.payload, r.id, r.user_headers, 2) for r in decode_records(encoded)
    ]
    polled = Polled.of(2, 0, memoryview(encoded))
    assert len(polled) == len(messages)
    assert list(polled) == messages == polled.messages == list(polled)


def said_of(answer: bytes) -> list[Message] | str:
    """The messages of an answer, or why there are none."""
    try:
        messages = decode_messages(memoryview(answer), 2)
        polled = Polled.of(2, 0, memoryview(answer))
    except InvalidBatch as fault:
        return repr(fault)
    assert list(polled) == messages == polled.messages
    assert len(polled) == len(messages)
    return messages


@needs_accelerator
@given(payloads, st.integers(0, 2000), st.integers(0, 2**32 - 1))
def test_an_answer_is_read_alike_with_and_without_the_accelerator(
    given_payloads, place: int, damage: int
) -> None:
    records = [
        Record(payload, number + 1, user_headers({"k": number}) if has_headers else b"")
        for number, (payload, has_headers) in enumerate(given_payloads)
    ]
    _, encoded = encode_messages(records)
    damaged = bytearray(encoded)
    damaged[place : place + 4] = damage.to_bytes(4, "little")
    for answer in (bytes(encoded), bytes(encoded[: -1 - place % 80]), bytes(damaged)):
        accelerated = said_of(answer)
        with without_accelerator():
            assert said_of(answer) == accelerated


@given(st.binary(max_size=300) | st.binary(max_size=80).map(lambda end: bytes(64 * 3) + end))
def test_garbage_is_read_or_refused(garbage: bytes) -> None:
    said = said_of(garbage)
    with without_accelerator():
        assert said_of(garbage) == said


@pytest.mark.usefixtures("both_ways")
def test_messages_outlive_the_memory_they_were_received_in() -> None:
    _, encoded = encode_messages([Record(b"abc"), Record(b"abc")])
    memory = bytearray(encoded)
    polled = Polled.of(0, 1, memoryview(memory))
    first, second = polled.messages
    memory[:] = bytes(len(memory))
    memory.clear()  # nothing looks at it any more
    assert (first.payload, second.payload) == (b"abc", b"abc")


@pytest.mark.usefixtures("both_ways")
def test_a_message_that_is_cut_off_is_refused() -> None:
    _, encoded = encode_messages([Record(b"abc"), Record(b"defg")])
    for cut in (10, 66, len(encoded) - 1):
        with pytest.raises(InvalidBatch):
            decode_messages(memoryview(encoded)[:cut], 0)


@pytest.mark.usefixtures("both_ways")
def test_a_reserved_field_is_of_no_interest() -> None:
    _, encoded = encode_messages([Record(b"abc"), Record(b"def")])
    strange = bytearray(encoded)
    strange[56] = 1
    assert [m.payload for m in decode_messages(memoryview(strange), 0)] == [b"abc", b"def"]
