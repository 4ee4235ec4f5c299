"""How far a consumer or a group has read.

::

    GetConsumerOffset, DeleteConsumerOffset
                         consumer, identifier stream_id, identifier topic_id,
                         optional u32 partition_id
    StoreConsumerOffset  the same, then u64 offset

    ConsumerOffset       u32 partition_id, u64 current_offset, u64 stored_offset
"""

import struct
from typing import Final, Self

from borzoi.model.consuming import Consumer
from borzoi.model.identifiers import Identifier
from borzoi.protocol.buffers import Reader
from borzoi.protocol.contract import Request
from borzoi.protocol.layout import IDENTIFIER, U64, Packed
from borzoi.protocol.values import CONSUMER, OPTIONAL_U32, read_consumer

#: What follows the identifiers of a store: optional partition, offset.
_STORE_END: Final = struct.Struct("<BIQ")


class ConsumerOffset(Packed):
    """`current_offset` is that of the last message of the partition."""

    STRUCT = struct.Struct("<IQQ")
    partition_id: int
    current_offset: int
    stored_offset: int


class _OffsetOfConsumer(Request):
    LAYOUT = (CONSUMER, IDENTIFIER, IDENTIFIER, OPTIONAL_U32)
    consumer: Consumer
    stream_id: Identifier
    topic_id: Identifier
    partition_id: int | None = None


class GetConsumerOffset(_OffsetOfConsumer):
    RESPONSE = ConsumerOffset


class StoreConsumerOffset(Request):
    LAYOUT = (CONSUMER, IDENTIFIER, IDENTIFIER, OPTIONAL_U32, U64)
    consumer: Consumer
    stream_id: Identifier
    topic_id: Identifier
    partition_id: int | None
    offset: int

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        consumer = read_consumer(reader)
        stream_id, topic_id = reader.identifier(), reader.identifier()
        flag, partition_id, offset = reader.unpack(_STORE_END)
        return cls(consumer, stream_id, topic_id, partition_id if flag == 1 else None, offset)


class DeleteConsumerOffset(_OffsetOfConsumer): ...
