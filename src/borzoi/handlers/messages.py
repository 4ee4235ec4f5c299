"""Messages: sent, polled, flushed. This is the hot path: only the disk makes a request wait."""

import asyncio
from asyncio import Future
from collections.abc import Coroutine, Iterable
from typing import Any, Final

import msgspec

from borzoi.handlers.answers import NOTHING_DELIVERED, Delivery
from borzoi.handlers.call import Call
from borzoi.metadata import queries
from borzoi.metadata.groups import CompleteRevocation
from borzoi.metadata.state import Group, Topic
from borzoi.model.consuming import ConsumerKind
from borzoi.model.errors import InvalidKeyLength, NoPartitions, PartitionNotFound, TopicNotFound
from borzoi.model.identifiers import Identifier, consumer_key
from borzoi.model.limits import POLL_WAIT_MS_MAX
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning, PartitioningKind, partition_for_key
from borzoi.model.value import Value
from borzoi.partitions import operations
from borzoi.partitions.futures import arrived, then
from borzoi.partitions.operations import AwaitMessages, Flush, IsSettled, Poll
from borzoi.partitions.polling import Polled
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PollMessages, SendMessages
from borzoi.records.batch import Batch, receive
from borzoi.shard.partition_plane import PartitionPlane

#: How often a waiting poll of a group looks up its partitions.
LOOK_AGAIN_SECONDS: Final = 1.0


class ReceivedSend(Value):
    """A send whose batch was validated."""

    stream_id: Identifier
    topic_id: Identifier
    partitioning: Partitioning
    batch: Batch


def batch_received(request: SendMessages) -> ReceivedSend:
    """Validate the batch of a send, before stream and topic are looked up."""
    messages, indexes = memoryview(request.messages), memoryview(request.indexes)
    batch = receive(messages, indexes, request.messages_count)
    return ReceivedSend(request.stream_id, request.topic_id, request.partitioning, batch)


def send(request: ReceivedSend, call: Call) -> "Future[None] | None":
    stream, topic = call.stream, call.topic
    assert stream is not None, "a send is permitted for a topic"
    assert topic is not None, "a send is permitted for a topic"
    partition_id = chosen_partition(request.partitioning, stream.id, topic, call.partitions)
    namespace = Namespace(stream.id, topic.id, partition_id)
    return call.partitions.run(namespace, operations.Append(request.batch), now=call.now())


def chosen_partition(
    partitioning: Partitioning, stream_id: int, topic: Topic, partitions: PartitionPlane
) -> int:
    """Return the partition of a batch: the next in turn, the named one, or by the key's hash."""
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
    if request.wait_ms:
        return _poll_patiently(request, call)
    return _poll_now(request, call)


async def _poll_patiently(request: PollMessages, call: Call) -> Delivery:
    """Poll until there are messages or the timeout expires."""
    patience = min(request.wait_ms, POLL_WAIT_MS_MAX) / 1000
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    # By id from now on: the name may come to mean another topic, without permission for it.
    request = msgspec.structs.replace(request, stream_id=stream.id, topic_id=topic.id, wait_ms=0)
    loop, session, waits = asyncio.get_running_loop(), call.session, call.services.waits
    until = loop.time() + patience
    session.waiting = True
    try:
        while True:
            places = _polled_places(request, call)
            known: dict[int, int] = {}
            for _ in range(max(len(places), 1)):
                answer = _poll_now(request, call)
                at_once = isinstance(answer, Delivery)
                delivery = answer if isinstance(answer, Delivery) else await answer
                if delivery.reading.count:
                    return delivery
                known[delivery.partition_id] = delivery.current_offset
            rest = until - loop.time()
            if rest <= 0 or waits.ended or session.closing or session.input_ended:
                return delivery
            # Members check regularly, because their partitions may have changed. So does a poll
            # whose delayed answer has no offset: messages may have arrived meanwhile.
            is_alone = request.consumer.kind is ConsumerKind.CONSUMER
            is_certain = at_once or delivery.current_offset > 0
            seconds = rest if is_certain and is_alone else min(rest, LOOK_AGAIN_SECONDS)
            answers = [
                call.partitions.run(
                    place,
                    AwaitMessages(int(seconds * 1_000_000) + 1, known.get(place.partition_id, 0)),
                    now=call.now(),
                )
                for place in places
            ]
            await waits.for_any([one for one in answers if isinstance(one, Future)], session)
            call.check_permitted()
    finally:
        session.waiting = False
        session.pinged_at = loop.time()


def _polled_places(request: PollMessages, call: Call) -> list[Namespace]:
    """The partitions that a poll may read from."""
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    if request.consumer.kind is not ConsumerKind.GROUP:
        numbers: Iterable[int] = [request.partition_id or 0]
    else:
        group = queries.group_of(topic, request.consumer.id)
        numbers = queries.member_partitions(group, call.session.client_id)
        if request.partition_id is not None:
            numbers = [number for number in numbers if number == request.partition_id]
    return [Namespace(stream.id, topic.id, number) for number in numbers]


def _poll_now(request: PollMessages, call: Call) -> Delivery | Coroutine[Any, Any, Delivery]:
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    if request.consumer.kind is ConsumerKind.GROUP:
        group = queries.group_of(topic, request.consumer.id)
        return _poll_as_member(request, stream.id, topic, group, call)
    partition_id = request.partition_id or 0
    queries.partition_of(topic, partition_id)
    consumer_id = consumer_key(request.consumer.id)
    if request.auto_commit:
        quota = call.services.consumer_quota
        quota.admit(call.session.user_id, stream.id, topic.id, consumer_id)
    namespace = Namespace(stream.id, topic.id, partition_id)
    operation = Poll(
        request.strategy,
        request.count,
        ConsumerKind.CONSUMER,
        consumer_id,
        request.auto_commit,
        call.services.polled_bytes_max,
    )
    return then(
        call.partitions.run(namespace, operation, now=call.now()),
        lambda polled: delivered(namespace, polled),
    )


def delivered(namespace: Namespace, polled: Polled) -> Delivery:
    return Delivery(namespace.partition_id, polled.current_offset, polled.reading)


def _poll_as_member(
    request: PollMessages, stream_id: int, topic: Topic, group: Group, call: Call
) -> Delivery | Coroutine[Any, Any, Delivery]:
    partition_id = _polled_partition(group, request.partition_id, call)
    if partition_id is None:
        return NOTHING_DELIVERED
    queries.partition_of(topic, partition_id)
    namespace = Namespace(stream_id, topic.id, partition_id)
    operation = Poll(
        request.strategy,
        request.count,
        ConsumerKind.GROUP,
        group.id,
        request.auto_commit,
        call.services.polled_bytes_max,
    )
    polled = call.partitions.run(namespace, operation, now=call.now())
    if request.auto_commit and queries.is_pending(group, partition_id):
        return _handed_over(polled, namespace, group, call)
    return then(polled, lambda found: delivered(namespace, found))


def _polled_partition(group: Group, asked: int | None, call: Call) -> int | None:
    """The partition a member reads. None when it has none, or does not own the requested one."""
    client_id = call.session.client_id
    if asked is None:
        return queries.next_polled_partition(group, client_id)
    return asked if asked in queries.member_partitions(group, client_id) else None


async def _handed_over(
    polled: "Polled | Future[Polled]", namespace: Namespace, group: Group, call: Call
) -> Delivery:
    """A committing poll of a partition that is about to move to another member."""
    found = await arrived(polled)
    if found.reading.count:
        await hand_over_settled(namespace, group, call)
    return delivered(namespace, found)


async def hand_over_settled(namespace: Namespace, group: Group, call: Call) -> None:
    """A pending partition whose owner has committed all it polled moves to its new owner now."""
    partition_id = namespace.partition_id
    if not queries.is_pending(group, partition_id):
        return
    if await arrived(call.partitions.run(namespace, IsSettled(group.id), now=call.now())):
        await call.submit(
            CompleteRevocation(namespace.stream_id, namespace.topic_id, group.id, partition_id)
        )


def flush(request: FlushUnsavedBuffer, call: Call) -> "Future[None] | None":
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    namespace = Namespace(stream.id, topic.id, request.partition_id)
    return call.partitions.run(namespace, Flush(sync=request.fsync), now=call.now())
