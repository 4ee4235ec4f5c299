"""Partitions of a topic.

::

    CreatePartitions, DeletePartitions
                   identifier stream_id, identifier topic_id, u32 partitions_count

    PartitionInfo  u32 id, u64 created_at, u32 segments_count, u64 current_offset, u64 size_bytes,
                   u64 messages_count
"""

import struct

from borzoi.model.identifiers import Identifier
from borzoi.protocol.contract import Request
from borzoi.protocol.layout import IDENTIFIER, U32, Packed


class PartitionInfo(Packed):
    """`current_offset` is that of the last message, 0 when there is none."""

    STRUCT = struct.Struct("<IQIQQQ")
    id: int
    created_at: int
    segments_count: int
    current_offset: int
    size_bytes: int
    messages_count: int


class _PartitionsOfTopic(Request):
    LAYOUT = (IDENTIFIER, IDENTIFIER, U32)
    stream_id: Identifier
    topic_id: Identifier
    partitions_count: int


class CreatePartitions(_PartitionsOfTopic): ...


class DeletePartitions(_PartitionsOfTopic):
    """Removes the partitions with the highest ids."""
