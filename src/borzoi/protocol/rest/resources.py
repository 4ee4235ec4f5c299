"""Streams, topics, partitions, groups and offsets as JSON.

Sizes are texts (``"1.103 KB"``); a plain number of bytes is understood too. What is called details
is the same object with the things inside it.
"""

import msgspec

from borzoi.protocol.commands.groups import GroupDetails, GroupInfo, GroupMember
from borzoi.protocol.commands.offsets import ConsumerOffset
from borzoi.protocol.commands.partitions import PartitionInfo
from borzoi.protocol.commands.streams import StreamDetails, StreamInfo
from borzoi.protocol.commands.topics import TopicDetails, TopicInfo
from borzoi.protocol.rest.mirroring import Document, items, mirrors, size, word
from borzoi.protocol.rest.words import COMPRESSIONS


@mirrors(PartitionInfo, size("size", "size_bytes"))
class PartitionDocument(Document):
    id: int
    created_at: int
    segments_count: int
    current_offset: int
    size: str | int
    messages_count: int


@mirrors(
    TopicInfo,
    size("size", "size_bytes"),
    word("compression_algorithm", "compression", COMPRESSIONS),
)
class TopicDocument(Document):
    id: int
    created_at: int
    name: str
    size: str | int
    message_expiry: int
    compression_algorithm: str
    max_topic_size: int
    replication_factor: int
    messages_count: int
    partitions_count: int


@mirrors(TopicDetails, items("partitions", PartitionDocument))
class TopicDetailsDocument(TopicDocument):
    partitions: list[PartitionDocument] = msgspec.field(default_factory=list)


@mirrors(StreamInfo, size("size", "size_bytes"))
class StreamDocument(Document):
    id: int
    created_at: int
    name: str
    size: str | int
    messages_count: int
    topics_count: int


@mirrors(StreamDetails, items("topics", TopicDocument))
class StreamDetailsDocument(StreamDocument):
    topics: list[TopicDocument] = msgspec.field(default_factory=list)


@mirrors(GroupInfo)
class GroupDocument(Document):
    id: int
    name: str
    partitions_count: int
    members_count: int


@mirrors(GroupMember)
class MemberDocument(Document):
    id: int
    partitions_count: int
    partitions: tuple[int, ...]


@mirrors(GroupDetails, items("members", MemberDocument))
class GroupDetailsDocument(GroupDocument):
    members: list[MemberDocument] = msgspec.field(default_factory=list)


@mirrors(ConsumerOffset)
class OffsetDocument(Document):
    partition_id: int
    current_offset: int
    stored_offset: int
