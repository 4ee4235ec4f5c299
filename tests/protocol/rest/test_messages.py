import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.wire_strategies import partitionings

from borzoi.model.errors import InvalidCommand, InvalidKeyLength, InvalidMessagesCount
from borzoi.model.limits import U64_MAX, U128_MAX
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.messages import PolledMessages, SendMessages
from borzoi.protocol.rest.faults import HttpFault
from borzoi.protocol.rest.messages import (
    MessageInput,
    PartitioningInput,
    PolledDocument,
    SendInput,
    message_id,
    partitioning_in,
    polled_document,
    polled_of,
)
from borzoi.records.header import MessageHeader, pack_header, unpack_header
from borzoi.records.message import Message, encode_messages

NOTHING = memoryview(b"")
NOW = 1_700_000_000_000_000
u64 = st.integers(0, U64_MAX)
u128 = st.integers(0, U128_MAX)


@st.composite
def stored_messages(draw: st.DrawFn) -> bytes:
    payload, user_headers = draw(st.binary(max_size=40)), draw(st.binary(max_size=40))
    header = MessageHeader(
        draw(u64), draw(u128), draw(u64), draw(u64), draw(u64), len(user_headers), len(payload)
    )
    return pack_header(header) + payload + user_headers


polls = st.lists(stored_messages(), max_size=4).map(
    lambda messages: PolledMessages(3, 9, len(messages), b"".join(messages))
)


def sent(body: dict[str, Any]) -> dict[str, Any]:
    return msgspec.json.decode(json.dumps(body), type=SendInput).arguments(now=NOW)


def one(**message: Any) -> dict[str, Any]:
    return {"partitioning": {"kind": "balanced", "value": ""}, "messages": [message]}


@given(polls)
def test_a_poll_survives_json_bit_by_bit(polled: PolledMessages) -> None:
    text = msgspec.json.encode(polled_document(polled))
    assert polled_of(msgspec.json.decode(text, type=PolledDocument)) == polled


def test_a_poll_that_contradicts_itself_is_refused() -> None:
    message = pack_header(MessageHeader(0, 1, 0, 0, 0, 0, 1)) + b"x"
    document = polled_document(PolledMessages(0, 0, 1, message))
    document.count = 2
    with pytest.raises(ValueError, match="1 messages where 2 are announced"):
        polled_of(document)
    document.count = 1
    document.messages[0].payload = b"xy"
    with pytest.raises(ValueError, match="the lengths of the message at offset 0 do not fit"):
        polled_of(document)
    document.messages[0].payload = b"x"
    document.messages[0].header.checksum = -1
    with pytest.raises(ValueError, match="the message at offset 0"):
        polled_of(document)


def test_what_is_sent_is_laid_out_as_on_the_wire() -> None:
    arguments = sent(
        {
            "partitioning": {"kind": "partition_id", "value": "AAAAAA=="},
            "messages": [
                {"id": 7, "payload": "aGk="},
                {"payload": "eA==", "user_headers": "3q0=", "extra": 1},
            ],
        }
    )
    assert arguments["partitioning"] == Partitioning.partition(0)
    assert arguments["messages_count"] == 2
    first = unpack_header(arguments["messages"])
    second = unpack_header(arguments["messages"], first.size)
    assert first == MessageHeader(0, 7, 0, 0, NOW, 0, 2)
    assert second == MessageHeader(0, 0, 0, 0, NOW, 2, 1)
    assert bytes(arguments["messages"][first.size + 64 :]) == b"x\xde\xad"
    assert bytes(arguments["indexes"]) == bytes.fromhex(
        "00000000420000000000000000000000" + "00000000850000000000000000000000"
    )


@given(
    partitionings,
    st.lists(
        st.builds(MessageInput, st.binary(min_size=1, max_size=40), u128, st.binary(max_size=9)),
        min_size=1,
        max_size=4,
    ),
)
def test_a_send_survives_json(partitioning: Partitioning, messages: list[MessageInput]) -> None:
    arguments = SendInput(
        SendInput.of(SendMessages(0, 0, partitioning, 0, NOTHING, NOTHING)).partitioning, messages
    ).arguments(now=NOW)
    request = SendMessages("s", "t", **arguments)  # type: ignore[arg-type]
    again = sent(json.loads(msgspec.json.encode(SendInput.of(request))))
    assert SendMessages("s", "t", **again) == request


@pytest.mark.parametrize(
    ("given_id", "number"),
    [
        (0, 0),
        (U128_MAX, U128_MAX),
        ("77", 77),
        (str(U128_MAX), U128_MAX),
        ("0191d6d7-2ab7-7000-8000-0123456789ab", 0x0191D6D72AB7700080000123456789AB),
        ("0191d6d72ab7700080000123456789AB", 0x0191D6D72AB7700080000123456789AB),
        ("12345678901234567890123456789012", 12345678901234567890123456789012),
    ],
)
def test_an_id_is_a_number_its_digits_or_a_uuid(given_id: int | str, number: int) -> None:
    assert message_id(given_id) == number


@pytest.mark.parametrize(
    "message",
    [
        {"payload": ""},
        {"payload": "!!"},
        {"id": 1},
        {"payload": "eA==", "user_headers": {"k": "v"}},
    ],
)
def test_a_message_of_the_wrong_shape_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        sent(one(**message))


@pytest.mark.parametrize("given_id", ["zz", -1, U128_MAX + 1, "9" * 40, "٣", ""])
def test_an_id_of_the_wrong_shape_is_refused_and_found(given_id: int | str) -> None:
    messages = [{"payload": "eA=="}, {"payload": "eA==", "id": given_id}]
    # Also before the partitioning is looked at, as everything about the shape is.
    where = {"kind": "partition_id", "value": ""}
    with pytest.raises(HttpFault, match=r"u128 nor a UUID - at `\$\.messages\[1\]\.id`") as caught:
        sent({"partitioning": where, "messages": messages})
    assert caught.value.status == 422


def test_an_unknown_field_beside_the_messages_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="extra"):
        sent(one(payload="eA==") | {"extra": 1})


def test_an_empty_payload_cannot_be_said() -> None:
    indexes, encoded = encode_messages([Message(b"a"), Message(b"")])
    views = memoryview(indexes), memoryview(encoded)
    with pytest.raises(ValueError, match="at least one byte"):
        SendInput.of(SendMessages(0, 0, Partitioning.balanced(), 2, *views))


def test_a_send_without_messages_is_refused() -> None:
    with pytest.raises(InvalidMessagesCount):
        sent(one() | {"messages": []})


@pytest.mark.parametrize(
    ("kind", "value", "fault"),
    [
        ("messages_key", b"", InvalidKeyLength),
        ("messages_key", b"k" * 256, InvalidKeyLength),
        ("partition_id", b"", InvalidKeyLength),
        ("partition_id", b"\0", InvalidCommand),
        ("balanced", b"\0", InvalidCommand),
    ],
)
def test_a_partitioning_of_the_wrong_size_is_refused(
    kind: str, value: bytes, fault: type[Exception]
) -> None:
    with pytest.raises(fault):
        PartitioningInput(kind, value).partitioning()


def test_a_partitioning_of_an_unknown_kind_is_refused() -> None:
    body = one(payload="eA==")
    body["partitioning"] = {"kind": "nope", "value": base64.b64encode(b"x").decode()}
    with pytest.raises(msgspec.ValidationError, match="balanced, partition_id, messages_key"):
        sent(body)


@pytest.mark.parametrize(
    ("query", "kind", "value"),
    [
        ("", "balanced", b""),
        ("partition_id=3", "partition_id", b"\3\0\0\0"),
        ("key=k%C3%A9y", "messages_key", "kéy".encode()),
    ],
)
def test_a_query_may_say_where_lines_go(query: str, kind: str, value: bytes) -> None:
    assert partitioning_in(query) == PartitioningInput(kind, value)


def test_a_query_that_says_nonsense_about_it_is_refused() -> None:
    with pytest.raises(HttpFault, match="Invalid query"):
        partitioning_in("partition_id=-1")
