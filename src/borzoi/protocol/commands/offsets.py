"""How far a consumer or a group has read.

::

    GetConsumerOffset, DeleteConsumerOffset
                         consumer, identifier stream_id, identifier topic_id,
                         optional u32 partition_id
    StoreConsumerOffset  the same, then u64 offset

    ConsumerOffset       u32 partition_id, u64 current_offset, u64 stored_offset
"""

import struct
from typing import ClassVar, Final, Self

from borzoi.model.consuming import Consumer
from borzoi.model.identifiers import Identifier
from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.contract import RequestValue, Response
from borzoi.protocol.values import (
    read_consumer,
    read_optional_u32,
    write_consumer,
    write_optional_u32,
)

_OFFSET: Final = struct.Struct("<IQQ")

#: What follows the identifiers of a store: optional partition, offset.
_STORE_END: Final = struct.Struct("<BIQ")


class ConsumerOffset(Value):
    """`current_offset` is that of the last message of the partition."""

    partition_id: int
    current_offset: int
    stored_offset: int

    def encode(self, out: Writer) -> None:
        out.pack(_OFFSET, self.partition_id, self.current_offset, self.stored_offset)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(*reader.unpack(_OFFSET))


class _OffsetOfConsumer(RequestValue):
    consumer: Consumer
    stream_id: Identifier
    topic_id: Identifier
    partition_id: int | None = None

    def encode(self, out: Writer) -> None:
        write_consumer(out, self.consumer)
        out.identifier(self.stream_id).identifier(self.topic_id)
        write_optional_u32(out, self.partition_id)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        consumer = read_consumer(reader)
        return cls(consumer, reader.identifier(), reader.identifier(), read_optional_u32(reader))


class GetConsumerOffset(_OffsetOfConsumer):
    CODE = Code.GET_CONSUMER_OFFSET
    RESPONSE: ClassVar[type[Response] | None] = ConsumerOffset


class StoreConsumerOffset(RequestValue):
    CODE = Code.STORE_CONSUMER_OFFSET
    consumer: Consumer
    stream_id: Identifier
    topic_id: Identifier
    partition_id: int | None
    offset: int

    def encode(self, out: Writer) -> None:
        write_consumer(out, self.consumer)
        out.identifier(self.stream_id).identifier(self.topic_id)
        write_optional_u32(out, self.partition_id)
        out.u64(self.offset)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        consumer = read_consumer(reader)
        stream_id, topic_id = reader.identifier(), reader.identifier()
        flag, partition_id, offset = reader.unpack(_STORE_END)
        return cls(consumer, stream_id, topic_id, partition_id if flag == 1 else None, offset)


class DeleteConsumerOffset(_OffsetOfConsumer):
    CODE = Code.DELETE_CONSUMER_OFFSET
