"""Partitions of a topic.

::

    CreatePartitions, DeletePartitions
                   identifier stream_id, identifier topic_id, u32 partitions_count

    PartitionInfo  u32 id, u64 created_at, u32 segments_count, u64 current_offset, u64 size_bytes,
                   u64 messages_count
"""

import struct
from typing import Final, Self

from borzoi.model.identifiers import Identifier
from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.contract import RequestValue

_PARTITION: Final = struct.Struct("<IQIQQQ")
assert _PARTITION.size == 40


class PartitionInfo(Value):
    """`current_offset` is that of the last message, 0 when there is none."""

    id: int
    created_at: int
    segments_count: int
    current_offset: int
    size_bytes: int
    messages_count: int

    def encode(self, out: Writer) -> None:
        out.pack(
            _PARTITION,
            self.id,
            self.created_at,
            self.segments_count,
            self.current_offset,
            self.size_bytes,
            self.messages_count,
        )

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(*reader.unpack(_PARTITION))


class _PartitionsOfTopic(RequestValue):
    stream_id: Identifier
    topic_id: Identifier
    partitions_count: int

    def encode(self, out: Writer) -> None:
        out.identifier(self.stream_id).identifier(self.topic_id).u32(self.partitions_count)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.identifier(), reader.identifier(), reader.u32())


class CreatePartitions(_PartitionsOfTopic):
    CODE = Code.CREATE_PARTITIONS


class DeletePartitions(_PartitionsOfTopic):
    """Removes the partitions with the highest ids."""

    CODE = Code.DELETE_PARTITIONS
