"""Topics: listed, described, created, changed, emptied, deleted."""

from collections.abc import Coroutine
from typing import Any

from borzoi.handlers.call import Call
from borzoi.handlers.totals import partitions_of_topic, with_totals
from borzoi.metadata import queries
from borzoi.metadata.state import PartitionRecord, Topic
from borzoi.metadata.topics import topic_details
from borzoi.model.value import like
from borzoi.partitions.futures import then
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.protocol.commands.partitions import PartitionInfo
from borzoi.protocol.commands.topics import (
    GetTopic,
    GetTopics,
    TopicDetails,
    TopicInfo,
    Topics,
)
from borzoi.shard.partition_table import Totals


def get_topic(request: GetTopic, call: Call) -> TopicDetails | Coroutine[Any, Any, TopicDetails]:
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    records = list(topic.partitions.values())
    described = call.partitions.describe(partitions_of_topic(stream.id, topic))
    return then(
        described, lambda found: topic_details(topic, tuple(map(partition_info, records, found)))
    )


def get_topics(request: GetTopics, call: Call) -> Topics | Coroutine[Any, Any, Topics]:
    stream = queries.stream(call.state, request.stream_id)
    topics = list(stream.topics.in_order())
    return with_totals(
        [partitions_of_topic(stream.id, topic) for topic in topics],
        lambda totals: Topics(tuple(map(topic_info, topics, totals))),
        call,
    )


def topic_info(topic: Topic, totals: Totals) -> TopicInfo:
    return like(
        TopicInfo,
        topic,
        partitions_count=len(topic.partitions),
        size_bytes=totals.size_bytes,
        messages_count=totals.messages_count,
    )


def partition_info(record: PartitionRecord, found: PartitionStatistics) -> PartitionInfo:
    return like(
        PartitionInfo, found, id=record.id, created_at=record.created_at, size_bytes=found.size
    )
