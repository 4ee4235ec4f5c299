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

The faults of SendMessages, in the order they are looked for:

    metadata_length beyond the payload        InvalidCommand
    stream_id, topic_id of any wrong shape    InvalidIdentifier (a name that is not UTF-8 is kept
                                              and simply not found)
    partitioning of a wrong kind or size      InvalidCommand (InvalidKeyLength for an empty key)
    messages_count cut off, or more indexes
    than the payload has room for             InvalidCommand

The indexes and messages themselves are judged by `borzoi.records.batch`.
"""

import struct
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Self

from borzoi.model.consuming import Consumer, PollingStrategy
from borzoi.model.errors import InvalidCommand, InvalidIdentifier
from borzoi.model.identifiers import Identifier
from borzoi.model.limits import INDEX_ENTRY_BYTES, NAME_BYTES_MAX
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.buffers import NAMED, NUMERIC, Reader, Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.contract import Response
from borzoi.protocol.values import (
    read_consumer,
    read_optional_u32,
    read_partitioning,
    read_strategy,
    write_consumer,
    write_optional_u32,
    write_partitioning,
    write_strategy,
)

#: The fixed start of a poll's answer; what follows are stored bytes as they are.
POLLED_PREFIX: Final = struct.Struct("<IQI")
assert POLLED_PREFIX.size == 16

#: So many bytes at the start of a SendMessages payload hold all of its metadata: the length, two
#: identifiers, the partitioning and the count.
SEND_METADATA_BYTES_MAX: Final = 4 + 3 * (2 + NAME_BYTES_MAX) + 4


@dataclass(frozen=True, slots=True)
class PolledMessages:
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


@dataclass(frozen=True, slots=True)
class PollMessages:
    CODE: ClassVar[Code] = Code.POLL_MESSAGES
    RESPONSE: ClassVar[type[Response] | None] = PolledMessages
    consumer: Consumer
    stream_id: Identifier
    topic_id: Identifier
    partition_id: int | None
    strategy: PollingStrategy
    count: int
    auto_commit: bool = False

    def encode(self, out: Writer) -> None:
        write_consumer(out, self.consumer)
        out.identifier(self.stream_id).identifier(self.topic_id)
        write_optional_u32(out, self.partition_id)
        write_strategy(out, self.strategy)
        out.u32(self.count).bool(self.auto_commit)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(
            read_consumer(reader),
            reader.identifier(),
            reader.identifier(),
            read_optional_u32(reader),
            read_strategy(reader),
            reader.u32(),
            reader.bool(),
        )


class SendMetadata(NamedTuple):
    """What a send says before its messages; `indexes_start` and `messages_start` are positions
    inside the payload."""

    stream_id: Identifier
    topic_id: Identifier
    partitioning: Partitioning
    messages_count: int
    indexes_start: int
    messages_start: int


def decode_send_metadata(reader: Reader, payload_length: int | None = None) -> SendMetadata:
    """The metadata of a send whose messages may still be on their way.

    The reader has to hold the first `SEND_METADATA_BYTES_MAX` bytes of the payload, or all of a
    shorter one; `payload_length` is the length its frame declared, when not all of it is there.
    """
    if payload_length is None:
        payload_length = reader.remaining()
    indexes_start = 4 + reader.u32()
    if indexes_start > payload_length:
        raise InvalidCommand(f"metadata of {indexes_start} bytes in {payload_length} of payload")
    metadata = Reader(reader.view(min(indexes_start - 4, reader.remaining())))
    stream_id = _read_identifier(metadata)
    topic_id = _read_identifier(metadata)
    partitioning = read_partitioning(metadata)
    messages_count = metadata.u32()
    messages_start = indexes_start + messages_count * INDEX_ENTRY_BYTES
    if messages_start > payload_length:
        raise InvalidCommand(f"{payload_length} bytes have no room for {messages_count} indexes")
    return SendMetadata(
        stream_id, topic_id, partitioning, messages_count, indexes_start, messages_start
    )


def _read_identifier(reader: Reader) -> Identifier:
    """An identifier inside a send, where every fault is one fault and any bytes are a name."""
    try:
        kind, size = reader.u8(), reader.u8()
        value = reader.view(size)
    except InvalidCommand as fault:
        raise InvalidIdentifier(str(fault)) from None
    if kind == NUMERIC and size == 4:
        return int.from_bytes(value, "little")
    if kind == NAMED and size:
        return str(value, "utf-8", "surrogateescape")
    raise InvalidIdentifier(f"there is no identifier of kind {kind} with {size} bytes")


@dataclass(frozen=True, slots=True)
class SendMessages:
    """`indexes` and `messages` are views of the payload that was decoded."""

    CODE: ClassVar[Code] = Code.SEND_MESSAGES
    RESPONSE: ClassVar[type[Response] | None] = None
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
        metadata = decode_send_metadata(Reader(payload))
        return cls(
            metadata.stream_id,
            metadata.topic_id,
            metadata.partitioning,
            metadata.messages_count,
            payload[metadata.indexes_start : metadata.messages_start],
            payload[metadata.messages_start :],
        )


@dataclass(frozen=True, slots=True)
class FlushUnsavedBuffer:
    CODE: ClassVar[Code] = Code.FLUSH_UNSAVED_BUFFER
    RESPONSE: ClassVar[type[Response] | None] = None
    stream_id: Identifier
    topic_id: Identifier
    partition_id: int
    fsync: bool

    def encode(self, out: Writer) -> None:
        out.identifier(self.stream_id).identifier(self.topic_id)
        out.u32(self.partition_id).bool(self.fsync)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.identifier(), reader.identifier(), reader.u32(), reader.bool())
