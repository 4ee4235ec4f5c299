"""Messages one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_strategies import messages

from borzoi.model.errors import (
    BorzoiError,
    InvalidMessagesSize,
    InvalidNumber,
    PayloadTooBig,
    UserHeadersTooBig,
)
from borzoi.model.limits import PAYLOAD_BYTES_MAX, U64_MAX, U128_MAX, USER_HEADERS_BYTES_MAX
from borzoi.records.header import MessageHeader, pack_header
from borzoi.records.message import Message, decode_messages, encode_fields, encode_messages
from borzoi.records.user_headers import HeaderKind, HeaderValue


def as_polled(message: Message) -> Message:
    """Before the server has filled in its fields."""
    return Message(
        message.payload,
        message.id,
        message.encoded_headers,
        origin_timestamp=message.origin_timestamp,
    )


@given(st.lists(messages(), max_size=20))
def test_messages_survive_encoding(sent: list[Message]) -> None:
    indexes, encoded = encode_messages(sent)
    got = decode_messages(encoded)
    assert got == [as_polled(message) for message in sent]
    assert [message.headers for message in got] == [message.headers for message in sent]
    ends = [int.from_bytes(indexes[at : at + 4], "little") for at in range(4, len(indexes), 16)]
    sizes = [64 + len(message.payload) + len(message.encoded_headers) for message in sent]
    assert ends == [sum(sizes[: number + 1]) for number in range(len(sizes))]


@given(st.lists(messages(), max_size=20), st.integers(0, U64_MAX))
def test_fields_are_encoded_as_messages_are(sent: list[Message], now: int) -> None:
    indexes, encoded = encode_fields(
        [message.payload for message in sent],
        [message.id for message in sent],
        [message.encoded_headers for message in sent],
        now,
    )
    alike = [
        Message(one.payload, one.id, one.encoded_headers, origin_timestamp=now) for one in sent
    ]
    assert (indexes, bytes(encoded)) == encode_messages(alike)
    assert isinstance(encoded, bytearray)


def test_one_message_is_encoded_as_a_published_client_does() -> None:
    indexes, encoded = encode_messages([Message(b"hello", 7, origin_timestamp=9)])
    assert indexes == bytes.fromhex("00000000450000000000000000000000")
    assert encoded == pack_header(MessageHeader(0, 7, 0, 0, 9, 0, 5)) + b"hello"


def test_what_the_server_fills_in_is_not_sent() -> None:
    polled = Message(b"x", 1, offset=5, timestamp=6, checksum=7)
    assert encode_messages([polled]) == encode_messages([Message(b"x", 1)])


def test_a_polled_message_has_every_field() -> None:
    header = MessageHeader(1, U128_MAX, 3, 4, 5, 2, 3)
    assert decode_messages(bytearray(pack_header(header) + b"abcHH")) == [
        Message(b"abc", U128_MAX, b"HH", 3, 4, 5, 1)
    ]


def test_headers_can_be_given_as_pairs_or_as_bytes() -> None:
    pairs = {HeaderValue.of("k"): HeaderValue.of(1, HeaderKind.UINT8)}
    from_pairs = Message(b"", user_headers=pairs)
    from_bytes = Message(b"", user_headers=from_pairs.encoded_headers)
    assert from_pairs.headers == from_bytes.headers == pairs
    assert from_pairs.encoded_headers == from_bytes.encoded_headers
    assert from_pairs.headers is not pairs


def test_a_message_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Message(b"x").id = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (Message(bytes(PAYLOAD_BYTES_MAX + 1)), PayloadTooBig),
        (Message(b"", user_headers=bytes(USER_HEADERS_BYTES_MAX + 1)), UserHeadersTooBig),
        (Message(b"", -1), InvalidNumber),
        (Message(b"", U128_MAX + 1), InvalidNumber),
        (Message(b"", origin_timestamp=-1), InvalidNumber),
        (Message(b"", origin_timestamp=U64_MAX + 1), InvalidNumber),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_no_server_would_take_is_refused(message: Message, fault: type[BorzoiError]) -> None:
    with pytest.raises(fault):
        encode_messages([message])


def test_a_request_has_less_than_four_gigabytes() -> None:
    """The same payload over and over: refused before it is copied even once."""
    with pytest.raises(InvalidMessagesSize):
        encode_messages([Message(bytes(PAYLOAD_BYTES_MAX))] * 68)


@given(st.binary(max_size=300))
def test_garbage_raises_ours(garbage: bytes) -> None:
    try:
        decode_messages(garbage)
    except BorzoiError:
        pass
