"""Streams, topics, partitions, groups and offsets as JSON.

Sizes are texts (``"1.103 KB"``); a plain number of bytes is understood too. What is called details
is the same object with the things inside it.
"""

from typing import Self

import msgspec

from borzoi.model.units import format_bytes, parse_bytes
from borzoi.protocol.commands.groups import GroupDetails, GroupInfo, GroupMember
from borzoi.protocol.commands.offsets import ConsumerOffset
from borzoi.protocol.commands.partitions import PartitionInfo
from borzoi.protocol.commands.streams import StreamDetails, StreamInfo
from borzoi.protocol.commands.topics import TopicDetails, TopicInfo
from borzoi.protocol.rest.words import COMPRESSIONS


class PartitionDocument(msgspec.Struct):
    id: int
    created_at: int
    segments_count: int
    current_offset: int
    size: str | int
    messages_count: int

    @classmethod
    def of(cls, partition: PartitionInfo) -> Self:
        return cls(
            partition.id,
            partition.created_at,
            partition.segments_count,
            partition.current_offset,
            format_bytes(partition.size_bytes),
            partition.messages_count,
        )

    def response(self) -> PartitionInfo:
        return PartitionInfo(
            self.id,
            self.created_at,
            self.segments_count,
            self.current_offset,
            parse_bytes(self.size),
            self.messages_count,
        )


class TopicDocument(msgspec.Struct):
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

    @classmethod
    def of(cls, topic: TopicInfo | TopicDetails) -> Self:
        return cls(
            topic.id,
            topic.created_at,
            topic.name,
            format_bytes(topic.size_bytes),
            topic.message_expiry,
            COMPRESSIONS.word(topic.compression),
            topic.max_topic_size,
            topic.replication_factor,
            topic.messages_count,
            topic.partitions_count,
        )

    def response(self) -> TopicInfo:
        return TopicInfo(
            self.id,
            self.created_at,
            self.partitions_count,
            self.message_expiry,
            COMPRESSIONS.member(self.compression_algorithm),
            self.max_topic_size,
            self.replication_factor,
            parse_bytes(self.size),
            self.messages_count,
            self.name,
        )


class TopicDetailsDocument(TopicDocument):
    partitions: list[PartitionDocument] = []

    @classmethod
    def of_details(cls, topic: TopicDetails) -> Self:
        document = cls.of(topic)
        document.partitions = [PartitionDocument.of(partition) for partition in topic.partitions]
        return document

    def details(self) -> TopicDetails:
        partitions = tuple(partition.response() for partition in self.partitions)
        return TopicDetails.of(self.response(), partitions)


class StreamDocument(msgspec.Struct):
    id: int
    created_at: int
    name: str
    size: str | int
    messages_count: int
    topics_count: int

    @classmethod
    def of(cls, stream: StreamInfo | StreamDetails) -> Self:
        return cls(
            stream.id,
            stream.created_at,
            stream.name,
            format_bytes(stream.size_bytes),
            stream.messages_count,
            stream.topics_count,
        )

    def response(self) -> StreamInfo:
        return StreamInfo(
            self.id,
            self.created_at,
            self.topics_count,
            parse_bytes(self.size),
            self.messages_count,
            self.name,
        )


class StreamDetailsDocument(StreamDocument):
    topics: list[TopicDocument] = []

    @classmethod
    def of_details(cls, stream: StreamDetails) -> Self:
        document = cls.of(stream)
        document.topics = [TopicDocument.of(topic) for topic in stream.topics]
        return document

    def details(self) -> StreamDetails:
        return StreamDetails(
            self.id,
            self.created_at,
            parse_bytes(self.size),
            self.messages_count,
            self.name,
            tuple(topic.response() for topic in self.topics),
        )


class GroupDocument(msgspec.Struct):
    id: int
    name: str
    partitions_count: int
    members_count: int

    @classmethod
    def of(cls, group: GroupInfo | GroupDetails) -> Self:
        return cls(group.id, group.name, group.partitions_count, group.members_count)

    def response(self) -> GroupInfo:
        return GroupInfo(self.id, self.partitions_count, self.members_count, self.name)


class MemberDocument(msgspec.Struct):
    id: int
    partitions_count: int
    partitions: list[int]


class GroupDetailsDocument(GroupDocument):
    members: list[MemberDocument] = []

    @classmethod
    def of_details(cls, group: GroupDetails) -> Self:
        document = cls.of(group)
        document.members = [
            MemberDocument(member.id, member.partitions_count, list(member.partitions))
            for member in group.members
        ]
        return document

    def details(self) -> GroupDetails:
        return GroupDetails(
            self.id,
            self.partitions_count,
            self.name,
            tuple(GroupMember(member.id, tuple(member.partitions)) for member in self.members),
        )


class OffsetDocument(msgspec.Struct):
    partition_id: int
    current_offset: int
    stored_offset: int

    @classmethod
    def of(cls, offset: ConsumerOffset) -> Self:
        return cls(offset.partition_id, offset.current_offset, offset.stored_offset)

    def response(self) -> ConsumerOffset:
        return ConsumerOffset(self.partition_id, self.current_offset, self.stored_offset)
