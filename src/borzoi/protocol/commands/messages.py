"""Messages: sent, polled, flushed.

::

    PollMessages        consumer, identifier stream_id, identifier topic_id,
                        optional u32 partition_id, strategy, u32 count, bool auto_commit
    SendMessages        u32 metadata_length      size of the next four fields
                        identifier stream_id
                        identifier topic_id
                        partitioning
                        u32 messages_count
                        messages_count × index   16 bytes: u32 0, u32 end of the message, u64 0
                        messages                 back to back to the end of the payload
    FlushUnsavedBuffer  identifier stream_id, identifier topic_id, u32 partition_id, bool fsync

    PolledMessages      u32 partition_id, u64 current_offset, u32 messages_count,
                        messages                 back to back to the end of the payload

The faults of SendMessages, in the order they are checked:

    metadata_length beyond the payload        InvalidCommand
    stream_id, topic_id of any wrong shape    InvalidIdentifier (a name that is not UTF-8 is kept
                                              and simply not found)
    partitioning of a wrong kind or size      InvalidCommand (InvalidKeyLength for an empty key)
    messages_count cut off, or more indexes
    than the payload has room for             InvalidCommand

The indexes and messages themselves are judged by `borzoi.records.batch`.
"""

import struct
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final, NamedTuple, Self

from borzoi.model.consuming import Consumer, PollingStrategy
from borzoi.model.errors import InvalidCommand, InvalidIdentifier
from borzoi.model.identifiers import Identifier
from borzoi.model.limits import INDEX_ENTRY_BYTES, NAME_BYTES_MAX
from borzoi.model.partitioning import Partitioning
from borzoi.model.value import Value
from borzoi.protocol.buffers import NAMED, NUMERIC, Reader, Writer
from borzoi.protocol.contract import Request
from borzoi.protocol.layout import BOOL, IDENTIFIER, U32
from borzoi.protocol.values import (
    partitioning_of,
    read_consumer,
    strategy_of,
    write_consumer,
    write_optional_u32,
    write_partitioning,
)

#: The fixed start of a poll's answer; what follows are stored bytes as they are.
POLLED_PREFIX: Final = struct.Struct("<IQI")
assert POLLED_PREFIX.size == 16

#: What precedes the time a poll may wait, behind all fields of 0.8.
POLL_WAIT: Final = b"WAIT"
_WAIT: Final = struct.Struct("<4sI")

#: What follows the identifiers of a poll: optional partition, strategy, count, auto_commit.
_POLL_END: Final = struct.Struct("<BIBQIB")
#: The end of it that differs from poll to poll of one consumer: strategy, count, auto_commit.
_POLL_MOVING: Final = struct.Struct("<BQIB")
#: A poll without a wait is not longer: its kind, three identifiers, and the rest.
_POLL_BYTES_MAX: Final = 1 + 3 * (2 + NAME_BYTES_MAX) + _POLL_END.size

_U32: Final = struct.Struct("<I")
_unpack_u32 = _U32.unpack_from

#: The metadata of a SendMessages payload fits into this many bytes: the length, two identifiers,
#: the partitioning and the count.
SEND_METADATA_BYTES_MAX: Final = 4 + 3 * (2 + NAME_BYTES_MAX) + 4
#: A declared length beyond this is a mistake.
_METADATA_LENGTH_MAX: Final = SEND_METADATA_BYTES_MAX - 4


class PolledMessages(Value):
    partition_id: int
    current_offset: int
    messages_count: int
    messages: memoryview | bytes

    def encode(self, out: Writer) -> None:
        out.pack(POLLED_PREFIX, self.partition_id, self.current_offset, self.messages_count)
        out.bytes(self.messages)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        partition_id, current_offset, messages_count = reader.unpack(POLLED_PREFIX)
        return cls(partition_id, current_offset, messages_count, reader.rest())


class PollMessages(Request):
    RESPONSE = PolledMessages
    consumer: Consumer
    stream_id: Identifier
    topic_id: Identifier
    partition_id: int | None
    strategy: PollingStrategy
    count: int
    auto_commit: bool = False
    #: borzoi: an empty poll waits this long for messages. Servers of 0.8 ignore it.
    wait_ms: int = 0

    def encode(self, out: Writer) -> None:
        strategy = self.strategy
        out.bytes(_poll_start(self.consumer, self.stream_id, self.topic_id, self.partition_id))
        out.pack(_POLL_MOVING, strategy.kind, strategy.value, self.count, bool(self.auto_commit))
        if self.wait_ms:
            out.bytes(POLL_WAIT).u32(self.wait_ms)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        consumer = read_consumer(reader)
        stream_id, topic_id = reader.identifier(), reader.identifier()
        flag, partition_id, kind, value, count, auto_commit = reader.unpack(_POLL_END)
        return cls(
            consumer,
            stream_id,
            topic_id,
            partition_id if flag == 1 else None,
            strategy_of(kind, value),
            count,
            auto_commit != 0,
            _read_wait(reader),
        )


@lru_cache(maxsize=256)
def _poll_start(
    consumer: Consumer, stream_id: Identifier, topic_id: Identifier, partition_id: int | None
) -> bytes:
    """The fields that all polls of a consumer share; it polls over and over."""
    out = Writer()
    write_consumer(out, consumer)
    out.identifier(stream_id).identifier(topic_id)
    write_optional_u32(out, partition_id)
    return out.getvalue()


def _read_wait(reader: Reader) -> int:
    """Read the wait after the fields of 0.8; other bytes there are ignored, as 0.8 does."""
    if reader.remaining() != _WAIT.size:
        return 0
    mark, wait_ms = reader.unpack(_WAIT)
    return int(wait_ms) if mark == POLL_WAIT else 0


class SendMetadata(NamedTuple):
    """The fields of a send before its messages; the starts are positions inside the payload."""

    stream_id: Identifier
    topic_id: Identifier
    partitioning: Partitioning
    messages_count: int
    count_start: int
    indexes_start: int
    messages_start: int

    @property
    def is_tight(self) -> bool:
        """Whether the metadata ends with its count, as `split_send` takes for granted."""
        return self.count_start + _U32.size == self.indexes_start


def decode_send_metadata(payload: memoryview, payload_length: int | None = None) -> SendMetadata:
    """The metadata of a send whose messages may not have arrived yet.

    `payload` holds its first `SEND_METADATA_BYTES_MAX` bytes, or all of a shorter one;
    `payload_length` is the length its frame declared, when not all of it is there.
    """
    return SendMetadata(
        *_read_metadata(payload, len(payload) if payload_length is None else payload_length)
    )


# Plain functions over a buffer and a position instead of a Reader: every batch passes here.


def _read_metadata(
    payload: memoryview, payload_length: int
) -> tuple[Identifier, Identifier, Partitioning, int, int, int, int]:
    arrived = len(payload)
    if arrived < 4:
        raise InvalidCommand(f"{arrived} bytes are too few for a send")
    indexes_start = 4 + _unpack_u32(payload)[0]
    if indexes_start > payload_length:
        raise InvalidCommand(f"metadata of {indexes_start} bytes in {payload_length} of payload")
    end = indexes_start if indexes_start < arrived else arrived
    stream_id, position = _identifier_at(payload, 4, end)
    topic_id, position = _identifier_at(payload, position, end)
    value_start = position + 2
    if value_start > end:
        raise InvalidCommand("the metadata of a send ends before its partitioning")
    count_start = value_start + payload[position + 1]
    if count_start + 4 > end:
        raise InvalidCommand("the metadata of a send ends before its count")
    partitioning = partitioning_of(payload[position], bytes(payload[value_start:count_start]))
    messages_count = _unpack_u32(payload, count_start)[0]
    messages_start = indexes_start + messages_count * INDEX_ENTRY_BYTES
    if messages_start > payload_length:
        raise InvalidCommand(f"{payload_length} bytes have no room for {messages_count} indexes")
    return (
        stream_id,
        topic_id,
        partitioning,
        messages_count,
        count_start,
        indexes_start,
        messages_start,
    )


def _identifier_at(payload: memoryview, position: int, end: int) -> tuple[Identifier, int]:
    """An identifier inside a send, where every fault is one fault and any bytes are a name."""
    start = position + 2
    if start > end:
        raise InvalidIdentifier("the metadata of a send ends inside an identifier")
    kind = payload[position]
    size = payload[position + 1]
    stop = start + size
    if stop > end:
        raise InvalidIdentifier("the metadata of a send ends inside an identifier")
    if kind == NUMERIC and size == 4:
        return _unpack_u32(payload, start)[0], stop
    if kind == NAMED and size:
        return str(payload[start:stop], "utf-8", "surrogateescape"), stop
    raise InvalidIdentifier(f"there is no identifier of kind {kind} with {size} bytes")


class SendMessages(Request):
    """`indexes` and `messages` are views of the payload that was decoded."""

    stream_id: Identifier
    topic_id: Identifier
    partitioning: Partitioning
    messages_count: int
    indexes: memoryview
    messages: memoryview

    def encode(self, out: Writer) -> None:
        self.encode_metadata(out)
        out.bytes(self.indexes).bytes(self.messages)

    def encode_metadata(self, out: Writer) -> None:
        """All but the indexes and messages, for a sender that writes those from where they are."""
        metadata = Writer()
        for identifier in (self.stream_id, self.topic_id):
            if isinstance(identifier, str):
                metadata.named(identifier.encode("utf-8", "surrogateescape"))
            else:
                metadata.identifier(identifier)
        write_partitioning(metadata, self.partitioning)
        metadata.u32(self.messages_count)
        out.u32(len(metadata)).bytes(metadata.getvalue())

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        payload = reader.rest()
        stream_id, topic_id, partitioning, messages_count, _, indexes_start, messages_start = (
            _read_metadata(payload, len(payload))
        )
        return cls(
            stream_id,
            topic_id,
            partitioning,
            messages_count,
            payload[indexes_start:messages_start],
            payload[messages_start:],
        )


# What repeated requests have in common, found without decoding it.


def split_send(payload: memoryview) -> tuple[bytes, int, int, int] | None:
    """The constant bytes of a send, its count, and the starts of its indexes and messages.

    True of a payload only if its metadata `is_tight`, which another payload with the same constant
    bytes proves. None for a payload that no such metadata fits into.
    """
    size = len(payload)
    if size < 2 * _U32.size:
        return None
    length = _unpack_u32(payload)[0]
    if not _U32.size <= length <= _METADATA_LENGTH_MAX or length + _U32.size > size:
        return None
    count = _unpack_u32(payload, length)[0]
    indexes_start = _U32.size + length
    messages_start = indexes_start + count * INDEX_ENTRY_BYTES
    if messages_start > size:
        return None
    return bytes(payload[_U32.size : length]), count, indexes_start, messages_start


def constant_of_send(first: memoryview) -> bytes:
    """The constant bytes that `split_send` would give, from the first bytes of a payload."""
    return bytes(first[_U32.size : min(_unpack_u32(first)[0], _METADATA_LENGTH_MAX)])


def split_poll(payload: memoryview) -> tuple[bytes, int, int, int, int] | None:
    """The constant bytes of a poll, then the fields that differ from poll to poll: kind and value
    of the strategy, count, auto_commit.

    True of a payload only if nothing follows those, which another payload with the same constant
    bytes proves. None for a payload that is no poll by its size.
    """
    size = len(payload)
    if not _POLL_MOVING.size <= size <= _POLL_BYTES_MAX:
        return None
    return _unpack_poll(size)(payload)


@cache
def _unpack_poll(size: int) -> Callable[[memoryview], tuple[bytes, int, int, int, int]]:
    """One call takes a poll of this size apart, in a third of the time of one for each part."""
    return struct.Struct(f"<{size - _POLL_MOVING.size}s{_POLL_MOVING.format[1:]}").unpack


class FlushUnsavedBuffer(Request):
    LAYOUT = (IDENTIFIER, IDENTIFIER, U32, BOOL)
    stream_id: Identifier
    topic_id: Identifier
    partition_id: int
    fsync: bool
