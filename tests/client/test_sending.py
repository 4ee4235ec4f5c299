"""The parts of a send are, joined, what the plain encoder writes and the server accepts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.client.messages import NewMessage, encoded_headers
from borzoi.client.sending import encode, send_parts
from borzoi.model import errors
from borzoi.model.limits import U128_MAX
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.messages import SendMessages
from borzoi.protocol.framing import encode_request
from borzoi.records.batch import receive
from borzoi.records.message import Message as Record
from borzoi.records.message import encode_messages

pytestmark = pytest.mark.usefixtures("both_ways")

KEY = Partitioning.key(b"k")

new_messages = st.builds(
    NewMessage,
    st.binary(max_size=30) | st.text(max_size=20),
    st.none() | st.dictionaries(st.text(min_size=1, max_size=9), st.integers(0, 9), max_size=2),
    st.integers(0, U128_MAX),
)
batches = st.lists(
    st.binary(max_size=30) | st.text(max_size=20) | new_messages, min_size=1, max_size=20
) | st.integers(1, 40).map(lambda count: [b"equal"] * count)


@given(batches)
def test_the_parts_are_the_frame(messages) -> None:
    encoded = encode(messages, now=1234)
    parts = send_parts("s", 7, KEY, encoded)
    records = [as_record(message) for message in messages]
    indexes, bodies = encode_messages(records)
    assert b"".join(parts) == encode_request(
        SendMessages("s", 7, KEY, len(messages), memoryview(indexes), memoryview(bodies))
    )
    assert (encoded.messages_count, encoded.size) == (len(messages), len(bodies))
    whole = memoryview(bytearray(b"".join(encoded.parts)))
    cut = 16 * len(messages)
    assert receive(whole[cut:], whole[:cut], len(messages)).count == len(messages)


def as_record(message) -> Record:
    if not isinstance(message, NewMessage):
        message = NewMessage(message)
    payload = message.payload
    return Record(
        payload.encode() if isinstance(payload, str) else payload,
        message.id,
        encoded_headers(message.headers),
        origin_timestamp=1234,
    )


def test_buffers_of_any_kind_are_payloads() -> None:
    numbers = memoryview(b"abcdefgh").cast("Q")
    encoded = encode([bytearray(b"x"), memoryview(b"y"), numbers], now=0)
    bodies = bytes(encoded.parts[-1])
    assert (bodies[64:65], bodies[129:130], bodies[-8:]) == (b"x", b"y", b"abcdefgh")


@pytest.mark.parametrize("count", [3, 30])
def test_ids_are_given_to_those_without_one(count: int) -> None:
    def new_ids(wanted: int) -> bytes:
        return b"".join((100 + number).to_bytes(16, "little") for number in range(wanted))

    messages: list[Any] = [b"a", NewMessage(b"b", id=99), *[b"c"] * (count - 2)]
    for batch, expected in (
        (messages, [100, 99, *range(102, 100 + count)]),
        ([b"a"] * count, list(range(100, 100 + count))),
    ):
        bodies = bytes(encode(batch, now=0, new_ids=new_ids).parts[-1])
        ids = [
            int.from_bytes(bodies[at + 8 : at + 24], "little") for at in range(0, 65 * count, 65)
        ]
        assert ids == expected


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([], errors.InvalidMessagesCount),
        ([None], errors.InvalidFormat),
        ([b"a", 5], errors.InvalidFormat),
        ([NewMessage(b"a", id=-1)], errors.InvalidNumber),
        ([NewMessage(b"a", id=U128_MAX + 1)], errors.InvalidNumber),
        ([bytes(64_000_001)], errors.PayloadTooBig),
        ([b"", bytes(64_000_001)], errors.PayloadTooBig),
        ([NewMessage(b"", {f"{n}": "v" * 255 for n in range(400)})], errors.UserHeadersTooBig),
        ([bytes(60_000_000)] * 10, errors.InvalidMessagesSize),
    ],
)
def test_what_no_server_takes_is_refused_before_it_is_sent(messages, fault) -> None:
    with pytest.raises(fault):
        encode(messages, now=0)


def test_a_batch_of_many_messages_has_its_indexes() -> None:
    encoded = encode([b"ab"] * 5000, now=0)
    assert len(encoded.parts[0]) == 16 * 5000
    assert int.from_bytes(encoded.parts[0][-12:-8], "little") == 66 * 5000
