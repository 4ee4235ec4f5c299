"""Requests of a load generator, built once: only the changing fields are rewritten.

A send keeps its payloads, which are random text, and gets a new origin timestamp. A poll keeps its
consumer and topic, and gets a new offset. Sizes drawn from a range come from a few batches that are
built ahead and used in turn, so that drawing costs nothing while the clock runs.
"""

import random
import string
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from borzoi.bench.plan import TOPIC, Actor, Plan
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.limits import HEADER_BYTES, INDEX_ENTRY_BYTES
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.buffers import Buffer, Writer
from borzoi.protocol.commands.messages import PollMessages, SendMessages, split_poll
from borzoi.protocol.contract import encode_payload
from borzoi.protocol.framing import CODE_BYTES, REQUEST_PREFIX
from borzoi.protocol.values import write_strategy
from borzoi.records.header import HEADER, ORIGIN_TIMESTAMP_AT
from borzoi.records.validation import INDEX_DTYPE

#: Batches built ahead when sizes or counts are drawn from a range.
VARIED_BATCHES: Final = 16
ALPHABET: Final = (string.ascii_letters + string.digits).encode()
_EMPTY: Final = memoryview(b"")


class SendFrame:
    """A SendMessages frame whose origin timestamps can be rewritten."""

    __slots__ = ("_origins", "messages_count", "parts", "payload_bytes")

    def __init__(self, actor: Actor, sizes: list[int], text: bytes) -> None:
        ends = np.cumsum(np.array(sizes, np.int64) + HEADER_BYTES)
        messages = bytearray(int(ends[-1]))
        position = 0
        for size in sizes:
            HEADER.pack_into(messages, position, 0, bytes(16), 0, 0, 0, 0, size, 0)
            messages[position + HEADER_BYTES : position + HEADER_BYTES + size] = text[:size]
            position += HEADER_BYTES + size
        entries = np.zeros(len(sizes), INDEX_DTYPE)
        entries["position"] = ends
        self.messages_count = len(sizes)
        self.payload_bytes = sum(sizes)
        self._origins = _origins_of(messages, ends)
        self.parts: list[Buffer] = [
            _send_head(actor, len(sizes), len(messages)) + entries.tobytes(),
            memoryview(messages),
        ]

    def stamp(self, now_us: int) -> None:
        """Set the origin timestamp of every message."""
        for view in self._origins:
            view[...] = now_us


def _origins_of(messages: bytearray, ends: NDArray[np.int64]) -> list[NDArray[np.uint64]]:
    """Views of the timestamps: one for messages of one size, else one for each message."""
    sizes = np.diff(ends, prepend=0)
    if (sizes == sizes[0]).all():
        stride = int(sizes[0])
        return [np.ndarray(len(ends), "<u8", messages, ORIGIN_TIMESTAMP_AT, (stride,))]
    return [
        np.ndarray(1, "<u8", messages, int(end - size) + ORIGIN_TIMESTAMP_AT)
        for end, size in zip(ends, sizes, strict=True)
    ]


def _send_head(actor: Actor, count: int, messages_bytes: int) -> bytes:
    partitioning = (
        Partitioning.balanced()
        if actor.partition is None
        else Partitioning.partition(actor.partition)
    )
    head = Writer()
    SendMessages(actor.stream, TOPIC, partitioning, count, _EMPTY, _EMPTY).encode_metadata(head)
    metadata = head.getvalue()
    length = CODE_BYTES + len(metadata) + count * INDEX_ENTRY_BYTES + messages_bytes
    return REQUEST_PREFIX.pack(length, SendMessages.CODE) + metadata


def send_frames(actor: Actor, plan: Plan) -> list[SendFrame]:
    """The frames an actor sends in turn."""
    draw = random.Random(actor.number)
    text = bytes(draw.choices(ALPHABET, k=plan.message_size.most))
    fixed = plan.message_size.is_fixed and plan.messages_per_batch.is_fixed
    frames = []
    for _ in range(1 if fixed else VARIED_BATCHES):
        count = draw.randint(plan.messages_per_batch.least, plan.messages_per_batch.most)
        size = plan.message_size
        frames.append(
            SendFrame(actor, [draw.randint(size.least, size.most) for _ in range(count)], text)
        )
    return frames


class PollFrame:
    """A PollMessages frame, encoded except for its offset."""

    __slots__ = ("_constant", "_count", "_grouped")

    def __init__(self, actor: Actor, count: int) -> None:
        self._grouped = actor.group is not None
        self._count = count
        consumer = Consumer(ConsumerKind.CONSUMER, actor.id)
        if actor.group is not None:
            consumer = Consumer(ConsumerKind.GROUP, actor.group)
        strategy = PollingStrategy.next()
        request = PollMessages(consumer, actor.stream, TOPIC, actor.partition, strategy, count)
        payload = encode_payload(request)
        prefix = REQUEST_PREFIX.pack(CODE_BYTES + len(payload), PollMessages.CODE)
        parts = split_poll(memoryview(payload))
        assert parts is not None, "it was encoded here"
        self._constant = prefix + parts[0]

    def at(self, offset: int) -> list[Buffer]:
        """Return the frame that polls from the offset on; a group reads what is next."""
        strategy = PollingStrategy.next() if self._grouped else PollingStrategy.offset(offset)
        moving = Writer()
        write_strategy(moving, strategy)
        moving.u32(self._count).bool(self._grouped)
        return [self._constant, moving.getvalue()]


class PolledBatch(NamedTuple):
    """The result of one poll."""

    messages_count: int
    #: Stored bytes, headers included.
    total_bytes: int
    #: Microseconds since the epoch; of the first message.
    origin_timestamp: int
