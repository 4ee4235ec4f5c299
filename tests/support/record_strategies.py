"""Hypothesis strategies for messages: values, user headers, batches as a client sends them.

`sent_batches` draws from what a server accepts, in the shapes that are handled differently: a few
messages, many of one size, many of one size with differing headers, many of any size. `stored`
makes of one what a segment holds.
"""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from borzoi.model.limits import U64_MAX, U128_MAX, USER_HEADER_BYTES_MAX
from borzoi.records.batch import Batch, receive, stamp
from borzoi.records.fresh_ids import FreshIds
from borzoi.records.message import Message, encode_messages
from borzoi.records.user_headers import SIGNED, UNSIGNED, HeaderKind, HeaderValue, PlainValue

message_ids: SearchStrategy[int] = st.one_of(st.just(0), st.integers(0, U128_MAX))
timestamps: SearchStrategy[int] = st.integers(0, U64_MAX)


def plain_values(kind: HeaderKind) -> SearchStrategy[Any]:
    """Python values that fit a kind of user header exactly."""
    if kind is HeaderKind.RAW:
        return st.binary(min_size=1, max_size=USER_HEADER_BYTES_MAX)
    if kind is HeaderKind.STRING:
        return st.text(min_size=1, max_size=60).filter(lambda text: len(text.encode()) <= 255)
    if kind is HeaderKind.BOOL:
        return st.booleans()
    if kind is HeaderKind.FLOAT32:
        return st.floats(width=32, allow_nan=False)
    if kind is HeaderKind.FLOAT64:
        return st.floats(allow_nan=False)
    if kind in SIGNED:
        bits = SIGNED[kind] * 8 - 1
        return st.integers(-(2**bits), 2**bits - 1)
    return st.integers(0, 2 ** (UNSIGNED[kind] * 8) - 1)


@st.composite
def typed_values(draw: DrawFn) -> tuple[HeaderKind, PlainValue]:
    """A kind of user header and a value that fits it."""
    kind = draw(st.sampled_from(HeaderKind))
    return kind, draw(plain_values(kind))


header_values: SearchStrategy[HeaderValue] = typed_values().map(
    lambda pair: HeaderValue.of(pair[1], pair[0])
)
user_headers: SearchStrategy[dict[HeaderValue, HeaderValue]] = st.dictionaries(
    header_values, header_values, max_size=4
)


@st.composite
def messages(draw: DrawFn, payload_bytes_max: int = 200) -> Message:
    """Messages as a producer makes them."""
    return Message(
        draw(st.binary(max_size=payload_bytes_max)),
        draw(message_ids),
        draw(st.one_of(st.just(b""), user_headers)),
        origin_timestamp=draw(timestamps),
    )


class Sent(NamedTuple):
    """What a SendMessages request holds."""

    indexes: bytes
    messages: bytes
    messages_count: int

    def received(self) -> Batch:
        """A batch of its own bytes, at an odd address as in a request."""
        buffer = memoryview(bytearray(b"?" + self.messages))[1:]
        return receive(buffer, memoryview(self.indexes), self.messages_count)


def sent(drawn: Sequence[Message]) -> Sent:
    return Sent(*encode_messages(drawn), len(drawn))


@st.composite
def sent_batches(draw: DrawFn, count_max: int = 40) -> Sent:
    """Requests that a server accepts.

    A batch repeats a few drawn messages: every draw costs, and what is repeated differs by its
    place in the batch anyway once it is stored.
    """
    count = draw(st.integers(1, count_max))
    drawn = draw(st.lists(messages(), min_size=1, max_size=3))
    shape = draw(st.sampled_from(["any", "one size", "one size, headers differ"]))
    if shape == "any":
        chosen = draw(st.binary(min_size=count, max_size=count))
        return sent([drawn[choice % len(drawn)] for choice in chosen])
    size = draw(st.one_of(st.integers(0, 300), st.sampled_from([447, 448, 449, 2000])))
    batch = []
    for number in range(count):
        message = drawn[number % len(drawn)]
        header_bytes = number % (size + 1) if shape == "one size, headers differ" else 0
        batch.append(
            Message(
                bytes([number]) * (size - header_bytes),
                message.id,
                bytes(header_bytes),
                origin_timestamp=message.origin_timestamp,
            )
        )
    return sent(batch)


def stored(request: Sent, *, base_offset: int = 0, timestamp: int = 1_700_000_000_000_000) -> Batch:
    """The batch as it lies in a segment; the ids given to messages without one are reproducible."""
    batch = request.received()
    new_ids = FreshIds(random.Random(1).randbytes)
    stamp(batch, base_offset=base_offset, timestamp=timestamp, new_ids=new_ids)
    return batch
