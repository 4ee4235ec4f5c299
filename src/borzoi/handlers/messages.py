"""Messages: sent, polled, flushed. This is the hot path: only the disk makes a request wait."""

from asyncio import Future
from collections.abc import Awaitable, Coroutine
from typing import Any

import msgspec

from borzoi.handlers.answers import NOTHING_DELIVERED, Delivery
from borzoi.handlers.call import Call
from borzoi.metadata import queries
from borzoi.metadata.groups import CompleteRevocation
from borzoi.metadata.state import Group, Topic
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import InvalidKeyLength, NoPartitions, PartitionNotFound, TopicNotFound
from borzoi.model.identifiers import Identifier, consumer_key
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning, PartitioningKind, partition_for_key
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PollMessages, SendMessages
from borzoi.records.batch import Batch, receive
from borzoi.shard.partition_plane import PartitionPlane


class Append(msgspec.Struct, frozen=True):
    """A send whose batch was validated."""

    stream_id: Identifier
    topic_id: Identifier
    partitioning: Partitioning
    batch: Batch


def batch_received(request: SendMessages) -> Append:
    """The batch of a send; its faults are found before stream and topic are looked up."""
    messages, indexes = memoryview(request.messages), memoryview(request.indexes)
    batch = receive(messages, indexes, request.messages_count)
    return Append(request.stream_id, request.topic_id, request.partitioning, batch)


def send(request: Append, call: Call) -> "Future[None] | None":
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    partition_id = chosen_partition(request.partitioning, stream.id, topic, call.partitions)
    namespace = Namespace(stream.id, topic.id, partition_id)
    return call.partitions.append(namespace, request.batch, now=call.now())


def chosen_partition(
    partitioning: Partitioning, stream_id: int, topic: Topic, partitions: PartitionPlane
) -> int:
    """The partition of a batch: the next in turn, the one named, or the one its key hashes to."""
    count = len(topic.partitions)
    if partitioning.kind is PartitioningKind.PARTITION_ID:
        partition_id = partitioning.partition_id
        if partition_id not in topic.partitions:
            raise PartitionNotFound(f"there is no partition {partition_id} in topic {topic.name!r}")
        return partition_id
    if partitioning.kind is PartitioningKind.BALANCED:
        if not count:
            raise TopicNotFound(f"topic {topic.name!r} has no partitions")
        return partitions.next_balanced(stream_id, topic.id, count)
    if not partitioning.value:
        raise InvalidKeyLength("a messages key has at least one byte")
    if not count:
        raise NoPartitions(f"topic {topic.name!r} has no partitions")
    return partition_for_key(partitioning.value, count)


def poll(request: PollMessages, call: Call) -> Delivery | Coroutine[Any, Any, Delivery]:
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    if request.consumer.kind is ConsumerKind.GROUP:
        group = queries.group_of(topic, request.consumer.id)
        return _poll_as_member(request, stream.id, topic, group, call)
    partition_id = request.partition_id or 0
    queries.partition_of(topic, partition_id)
    return poll_alone(
        call.partitions,
        Namespace(stream.id, topic.id, partition_id),
        consumer_key(request.consumer.id),
        request.strategy,
        request.count,
        request.auto_commit,
    )


def poll_alone(
    partitions: PartitionPlane,
    namespace: Namespace,
    consumer_id: int,
    strategy: PollingStrategy,
    count: int,
    auto_commit: bool,
) -> Delivery | Coroutine[Any, Any, Delivery]:
    """The answer to a consumer that is not a member of a group."""
    polled = partitions.poll(
        namespace,
        strategy,
        count,
        kind=ConsumerKind.CONSUMER,
        consumer_id=consumer_id,
        auto_commit=auto_commit,
    )
    delivery = Delivery(namespace.partition_id, polled.current_offset, polled.reading)
    return delivery if polled.committed is None else _committed(delivery, polled.committed)


def _poll_as_member(
    request: PollMessages, stream_id: int, topic: Topic, group: Group, call: Call
) -> Delivery | Coroutine[Any, Any, Delivery]:
    partition_id = _polled_partition(group, request.partition_id, call)
    if partition_id is None:
        return NOTHING_DELIVERED
    queries.partition_of(topic, partition_id)
    namespace = Namespace(stream_id, topic.id, partition_id)
    polled = call.partitions.poll(
        namespace,
        request.strategy,
        request.count,
        kind=ConsumerKind.GROUP,
        consumer_id=group.id,
        auto_commit=request.auto_commit,
    )
    delivery = Delivery(partition_id, polled.current_offset, polled.reading)
    if polled.reading.count:
        call.partitions.mark_polled(namespace, group.id, polled.reading.last_offset)
        if request.auto_commit and queries.is_pending(group, partition_id):
            return _handed_over(delivery, polled.committed, namespace, group, call)
    return delivery if polled.committed is None else _committed(delivery, polled.committed)


def _polled_partition(group: Group, asked: int | None, call: Call) -> int | None:
    """The partition a member reads. None when it has none, or does not own the requested one."""
    client_id = call.session.client_id
    if asked is None:
        return queries.next_polled_partition(group, client_id)
    return asked if asked in queries.member_partitions(group, client_id) else None


async def _committed(delivery: Delivery, stored: Awaitable[None]) -> Delivery:
    """The commit comes before the delivery: a poll that cannot commit is not answered."""
    await stored
    return delivery


async def _handed_over(
    delivery: Delivery,
    stored: Awaitable[None] | None,
    namespace: Namespace,
    group: Group,
    call: Call,
) -> Delivery:
    """The same for a partition that is about to move to another member."""
    if stored is not None:
        await stored
    await hand_over_settled(namespace, group, call)
    return delivery


async def hand_over_settled(namespace: Namespace, group: Group, call: Call) -> None:
    """A pending partition whose owner has committed all it polled moves to its new owner now."""
    partition_id = namespace.partition_id
    if queries.is_pending(group, partition_id) and call.partitions.is_settled(namespace, group.id):
        await call.submit(
            CompleteRevocation(namespace.stream_id, namespace.topic_id, group.id, partition_id)
        )


async def flush(request: FlushUnsavedBuffer, call: Call) -> None:
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    namespace = Namespace(stream.id, topic.id, request.partition_id)
    await call.partitions.flush(namespace, sync=request.fsync)
