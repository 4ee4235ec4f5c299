"""Stored offsets: the last message that a consumer or a group has processed."""

from asyncio import Future
from collections.abc import Coroutine
from typing import Any

from borzoi.handlers.call import Call
from borzoi.handlers.messages import hand_over_settled
from borzoi.metadata import queries
from borzoi.metadata.state import Group
from borzoi.model.consuming import Consumer, ConsumerKind
from borzoi.model.errors import ConsumerNotResolved, ConsumerOffsetNotFound
from borzoi.model.identifiers import consumer_key
from borzoi.model.namespace import Namespace
from borzoi.partitions.futures import arrived, then
from borzoi.partitions.operations import DeleteOffset, LoadOffset, OffsetPair, StoreOffset
from borzoi.protocol.commands.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)


def get_offset(
    request: GetConsumerOffset, call: Call
) -> ConsumerOffset | Coroutine[Any, Any, ConsumerOffset]:
    """Polling permission suffices, also for groups the client is not a member of."""
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    if request.consumer.kind is ConsumerKind.GROUP:
        consumer_id = queries.group_of(topic, request.consumer.id).id
    else:
        consumer_id = consumer_key(request.consumer.id)
    partition_id = request.partition_id or 0
    queries.partition_of(topic, partition_id)
    namespace = Namespace(stream.id, topic.id, partition_id)
    operation = LoadOffset(request.consumer.kind, consumer_id)
    return then(
        call.partitions.run(namespace, operation, now=call.now()),
        lambda found: _consumer_offset(request, partition_id, found),
    )


def _consumer_offset(
    request: GetConsumerOffset, partition_id: int, found: OffsetPair
) -> ConsumerOffset:
    if found.stored is None:
        raise ConsumerOffsetNotFound(f"nothing is stored for consumer {request.consumer.id!r}")
    return ConsumerOffset(partition_id, found.current, found.stored)


async def store_offset(request: StoreConsumerOffset, call: Call) -> None:
    namespace, consumer_id, group = _resolved(request, request.consumer, call)
    if group is None:
        quota = call.services.consumer_quota
        quota.admit(call.user_id, namespace.stream_id, namespace.topic_id, consumer_id)
    operation = StoreOffset(request.consumer.kind, consumer_id, request.offset)
    await arrived(call.partitions.run(namespace, operation, now=call.now()))
    if group is not None:
        await hand_over_settled(namespace, group, call)


def delete_offset(request: DeleteConsumerOffset, call: Call) -> "Future[None] | None":
    namespace, consumer_id, _ = _resolved(request, request.consumer, call)
    quota = call.services.consumer_quota
    quota.release(call.user_id, namespace.stream_id, namespace.topic_id, consumer_id)
    operation = DeleteOffset(request.consumer.kind, consumer_id)
    return call.partitions.run(namespace, operation, now=call.now())


def _resolved(
    request: StoreConsumerOffset | DeleteConsumerOffset, consumer: Consumer, call: Call
) -> tuple[Namespace, int, Group | None]:
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    if consumer.kind is ConsumerKind.CONSUMER:
        partition_id = request.partition_id or 0
        queries.partition_of(topic, partition_id)
        return Namespace(stream.id, topic.id, partition_id), consumer_key(consumer.id), None
    group = queries.group_of(topic, consumer.id)
    owned = queries.member_partitions(group, call.session.client_id)
    asked = request.partition_id
    if asked is None:
        asked = queries.current_partition(group, call.session.client_id)
    if asked is None or asked not in owned:
        raise ConsumerNotResolved(f"the member does not have partition {asked}")
    return Namespace(stream.id, topic.id, asked), group.id, group
