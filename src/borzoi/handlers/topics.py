"""Topics: listed, described, created, changed, emptied, deleted."""

from borzoi.handlers.call import Call
from borzoi.metadata import queries
from borzoi.metadata.effects import Created
from borzoi.metadata.state import PartitionRecord, Topic
from borzoi.model.namespace import Namespace
from borzoi.protocol.commands.partitions import PartitionInfo
from borzoi.protocol.commands.topics import (
    CreateTopic,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    TopicDetails,
    TopicInfo,
    Topics,
    UpdateTopic,
)


def get_topic(request: GetTopic, call: Call) -> TopicDetails:
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    partitions = tuple(
        partition_info(stream.id, topic.id, record, call) for record in topic.partitions.values()
    )
    return topic_details(topic, partitions)


def get_topics(request: GetTopics, call: Call) -> Topics:
    stream = queries.stream(call.state, request.stream_id)
    return Topics(tuple(topic_info(stream.id, topic, call) for topic in stream.topics.in_order()))


def topic_info(stream_id: int, topic: Topic, call: Call) -> TopicInfo:
    totals = call.partitions.topic_totals(stream_id, topic)
    return TopicInfo(
        id=topic.id,
        created_at=topic.created_at,
        partitions_count=len(topic.partitions),
        message_expiry=topic.message_expiry,
        compression=topic.compression,
        max_topic_size=topic.max_topic_size,
        replication_factor=topic.replication_factor,
        size_bytes=totals.size_bytes,
        messages_count=totals.messages_count,
        name=topic.name,
    )


def topic_details(topic: Topic, partitions: tuple[PartitionInfo, ...]) -> TopicDetails:
    return TopicDetails(
        id=topic.id,
        created_at=topic.created_at,
        message_expiry=topic.message_expiry,
        compression=topic.compression,
        max_topic_size=topic.max_topic_size,
        replication_factor=topic.replication_factor,
        size_bytes=sum(partition.size_bytes for partition in partitions),
        messages_count=sum(partition.messages_count for partition in partitions),
        name=topic.name,
        partitions=partitions,
    )


def partition_info(
    stream_id: int, topic_id: int, record: PartitionRecord, call: Call
) -> PartitionInfo:
    found = call.partitions.statistics(Namespace(stream_id, topic_id, record.id))
    return PartitionInfo(
        id=record.id,
        created_at=record.created_at,
        segments_count=found.segments_count,
        current_offset=found.current_offset,
        size_bytes=found.size,
        messages_count=found.messages_count,
    )


async def create_topic(request: CreateTopic, call: Call) -> Created:
    return await call.create(request)


async def update_topic(request: UpdateTopic, call: Call) -> None:
    await call.submit(request)


async def delete_topic(request: DeleteTopic, call: Call) -> None:
    await call.submit(request)


async def purge_topic(request: PurgeTopic, call: Call) -> None:
    await call.submit(request)
