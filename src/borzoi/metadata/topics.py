"""What the commands about topics do to the state, and what the server's defaults do to them.

A topic may ask for "as the server is configured". That is resolved before the command is logged:
the log then says what the topic got, and a later configuration changes no existing topic.
"""

from typing import TypeVar

import msgspec

from borzoi.metadata import queries
from borzoi.metadata.effects import (
    ApplyResult,
    Change,
    CreatedPartitions,
    DeletedTopic,
    PurgedTopic,
)
from borzoi.metadata.grants import withdraw_topic
from borzoi.metadata.groups import forget_members, handovers_of
from borzoi.metadata.partitions import check_partitions_count, new_partitions
from borzoi.metadata.state import GroupAddress, Metadata, Topic
from borzoi.model.errors import InvalidCommand, InvalidTopicSize, LimitReached, TopicNameTaken
from borzoi.model.identifiers import checked_name
from borzoi.model.limits import NEVER, SERVER_DEFAULT, TOPICS_PER_STREAM_MAX, UNLIMITED
from borzoi.model.value import Value, like
from borzoi.protocol.commands.partitions import PartitionInfo
from borzoi.protocol.commands.topics import (
    CreateTopic,
    DeleteTopic,
    PurgeTopic,
    TopicDetails,
    UpdateTopic,
)

Described = TypeVar("Described", bound=CreateTopic | UpdateTopic)


class TopicDefaults(Value):
    """What a topic gets that leaves the choice to the server, and the least size it may have."""

    segment_size: int
    message_expiry: int = NEVER
    max_topic_size: int = UNLIMITED
    replication_factor: int = 1


def resolved(command: Described, defaults: TopicDefaults) -> Described:
    """The command with every "as the server is configured" replaced by what that is.

    `InvalidTopicSize` when a size is asked for that is less than one segment: such a topic could
    never be cleaned down to its size.
    """
    size = command.max_topic_size
    if size != SERVER_DEFAULT and size < defaults.segment_size:
        raise InvalidTopicSize(
            f"a topic of at most {size} bytes is smaller than a segment of"
            f" {defaults.segment_size} bytes"
        )
    return msgspec.structs.replace(
        command,
        message_expiry=command.message_expiry or defaults.message_expiry,
        max_topic_size=size or defaults.max_topic_size,
        replication_factor=command.replication_factor or defaults.replication_factor,
    )


def create_topic(state: Metadata, command: CreateTopic, at: int) -> Change:
    check_partitions_count(command)
    stream = queries.stream(state, command.stream_id)
    _check_resolved(command)
    name = checked_name(command.name)
    if name in stream.topics.ids:
        raise TopicNameTaken(f"topic {name!r} exists already in stream {stream.name!r}")
    if len(stream.topics) >= TOPICS_PER_STREAM_MAX:
        raise LimitReached(
            f"there are {TOPICS_PER_STREAM_MAX} topics in stream {stream.name!r},"
            " which is as many as can be addressed"
        )

    def change() -> ApplyResult:
        topic = Topic(
            stream.topics.next_id,
            name,
            at,
            command.compression,
            command.message_expiry,
            command.max_topic_size,
            command.replication_factor,
            new_partitions(0, command.partitions_count, at),
            birth=state.next_birth(),
        )
        stream.topics.add(name, topic)
        created = CreatedPartitions(stream.id, topic.id, tuple(topic.partitions))
        return ApplyResult(_created(topic), (created,))

    return change


def update_topic(state: Metadata, command: UpdateTopic) -> Change:
    stream = queries.stream(state, command.stream_id)
    topic = queries.topic_of(stream, command.topic_id)
    _check_resolved(command)
    name = checked_name(command.name)
    if stream.topics.ids.get(name, topic.id) != topic.id:
        raise TopicNameTaken(f"topic {name!r} exists already in stream {stream.name!r}")

    def change() -> ApplyResult:
        stream.topics.rename(topic.name, name)
        topic.name = name
        topic.compression = command.compression
        topic.message_expiry = command.message_expiry
        topic.max_topic_size = command.max_topic_size
        topic.replication_factor = command.replication_factor
        return ApplyResult()

    return change


def delete_topic(state: Metadata, command: DeleteTopic) -> Change:
    stream = queries.stream(state, command.stream_id)
    topic = queries.topic_of(stream, command.topic_id)

    def change() -> ApplyResult:
        for group in topic.groups.values():
            forget_members(state, GroupAddress(stream.id, topic.id, group.id), group)
        stream.topics.remove(topic.name)
        withdraw_topic(state, stream.id, topic.id)
        return ApplyResult(effects=(DeletedTopic(stream.id, topic.id, tuple(topic.partitions)),))

    return change


def purge_topic(state: Metadata, command: PurgeTopic) -> Change:
    stream = queries.stream(state, command.stream_id)
    topic = queries.topic_of(stream, command.topic_id)
    effect = PurgedTopic(stream.id, topic.id, tuple(topic.partitions))
    return lambda: ApplyResult(effects=(effect, *handovers_of(stream.id, topic)))


def _created(topic: Topic) -> TopicDetails:
    # The published servers count no segments yet in this one answer, and clients compare.
    partitions = [
        PartitionInfo(record.id, record.created_at, 0, 0, 0, 0)
        for record in topic.partitions.values()
    ]
    return topic_details(topic, tuple(partitions))


def topic_details(topic: Topic, partitions: tuple[PartitionInfo, ...]) -> TopicDetails:
    return like(
        TopicDetails,
        topic,
        size_bytes=sum(partition.size_bytes for partition in partitions),
        messages_count=sum(partition.messages_count for partition in partitions),
        partitions=partitions,
    )


def _check_resolved(command: CreateTopic | UpdateTopic) -> None:
    if not (command.message_expiry and command.max_topic_size and command.replication_factor):
        raise InvalidCommand("server defaults of a topic are resolved before they are logged")
