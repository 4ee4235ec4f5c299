# Made by tools/unasync.py from src/borzoi/client/_async/messaging.py: edit that one.
"""The commands about messages and consumer offsets."""

import time
from collections.abc import Sequence

from borzoi.client._sync.asking import Asking
from borzoi.client.messages import Polled
from borzoi.client.naming import Start, TopicName, partitioning_of, strategy_of, topic_of
from borzoi.client.reconnection import is_repeatable
from borzoi.client.sending import EncodedMessages, Sendable, encode, send_parts
from borzoi.model.consuming import Consumer, ConsumerKind
from borzoi.model.errors import InvalidCommand, InvalidVersion, TopicNotFound
from borzoi.model.identifiers import Identifier
from borzoi.protocol.buffers import Buffer, Reader
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PolledMessages, PollMessages
from borzoi.protocol.commands.offsets import (
    ConsumerOffset,
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.topics import GetTopic, TopicDetails
from borzoi.protocol.framing import encode_request

#: How many messages one poll requests by default.
COUNT = 1000


class Messaging(Asking):
    """A method for each command about messages."""

    def send_messages(
        self,
        topic: TopicName,
        messages: Sequence[Sendable],
        *,
        partition: int | None = None,
        key: str | bytes | None = None,
        timeout: float | None = None,
    ) -> None:
        """Send messages as one batch to one partition; return when the server has accepted them.

        A message is `bytes`, a text (sent as UTF-8), or a `NewMessage` with headers or an id. The
        same `key` always maps to the same partition; without `partition` and `key` the server
        balances. If the connection ends before the answer arrives, the messages may or may not be
        stored, and `ConnectionLost` is raised; a producer can resend them safely.
        """
        stream_id, topic_id = topic_of(topic)
        encoded = encode(messages, now=time.time_ns() // 1000)
        parts = send_parts(stream_id, topic_id, partitioning_of(partition, key), encoded)
        self._exchange(parts, timeout, request="SendMessages", repeatable=False)

    def send_raw(
        self,
        topic: TopicName,
        messages_count: int,
        indexes: Buffer,
        messages: Buffer,
        *,
        partition: int | None = None,
        key: str | bytes | None = None,
        timeout: float | None = None,
    ) -> None:
        """Like `send_messages`, for messages that are encoded already.

        `indexes` and `messages` are the sections of a request as `borzoi.records.arrow` makes them
        from columns, without an object per message.
        """
        stream_id, topic_id = topic_of(topic)
        encoded = EncodedMessages(messages_count, len(messages), (indexes, messages))
        parts = send_parts(stream_id, topic_id, partitioning_of(partition, key), encoded)
        self._exchange(parts, timeout, request="SendMessages", repeatable=False)

    def poll_messages(
        self,
        topic: TopicName,
        *,
        partition: int | None = None,
        start: Start = "next",
        count: int = COUNT,
        consumer: Identifier = 0,
        group: Identifier | None = None,
        commit: bool = False,
        timeout: float | None = None,
    ) -> Polled:
        """Return at most `count` messages of one partition; empty when there are none yet.

        `start` is "next" (after the offset that the server stores for the consumer), "first",
        "last" (the last `count` messages), an offset, or a `datetime`. `consumer` says under which
        name or number the offset is kept; with `group` it is the group's, and the server chooses
        the partition unless one is given. `commit` stores the offset of the last message
        returned before it is known to have arrived.
        """
        polled = self.poll_raw(
            topic,
            partition=partition,
            start=start,
            count=count,
            consumer=consumer,
            group=group,
            commit=commit,
            timeout=timeout,
        )
        return Polled.of(polled.partition_id, polled.current_offset, memoryview(polled.messages))

    def poll_raw(
        self,
        topic: TopicName,
        *,
        partition: int | None = None,
        start: Start = "next",
        count: int = COUNT,
        consumer: Identifier = 0,
        group: Identifier | None = None,
        commit: bool = False,
        timeout: float | None = None,
    ) -> PolledMessages:
        """The same as `poll_messages`, without an object per message.

        `messages` of the answer are the bytes as they were received, back to back, each message
        with its 64-byte header: what the vectorised decoder reads. They belong to the caller.
        """
        request = PollMessages(
            _consumer(consumer, group),
            *topic_of(topic),
            partition,
            strategy_of(start),
            count,
            commit,
        )
        payload = self._exchange(
            [encode_request(request)],
            timeout,
            request="PollMessages",
            repeatable=is_repeatable(request),
        )
        try:
            return PolledMessages.decode(Reader(payload))
        except InvalidCommand as fault:
            raise InvalidVersion(f"cannot read the answer to PollMessages: {fault}") from fault

    def _partitions_count(self, topic: TopicName) -> int:
        """How many partitions the topic has; `TopicNotFound` when there is no such topic."""
        details = self._look_up(GetTopic(*topic_of(topic)), TopicDetails, None)
        if details is None:
            raise TopicNotFound(f"there is no topic {topic!r}; create it with ensure_topic")
        return details.partitions_count

    def flush_unsaved_buffer(
        self,
        topic: TopicName,
        partition: int,
        *,
        fsync: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Write buffered messages of a partition to its files and sync them."""
        self._do(FlushUnsavedBuffer(*topic_of(topic), partition, fsync), timeout)

    def get_consumer_offset(
        self,
        topic: TopicName,
        *,
        partition: int | None = None,
        consumer: Identifier = 0,
        group: Identifier | None = None,
        timeout: float | None = None,
    ) -> ConsumerOffset | None:
        """Return the stored offset of a consumer or group in a partition; None if there is none."""
        request = GetConsumerOffset(_consumer(consumer, group), *topic_of(topic), partition)
        return self._look_up(request, ConsumerOffset, timeout)

    def store_consumer_offset(
        self,
        topic: TopicName,
        offset: int,
        *,
        partition: int | None = None,
        consumer: Identifier = 0,
        group: Identifier | None = None,
        timeout: float | None = None,
    ) -> None:
        """Store the offset of the last processed message; "next" starts after it."""
        request = StoreConsumerOffset(
            _consumer(consumer, group), *topic_of(topic), partition, offset
        )
        self._do(request, timeout)

    def delete_consumer_offset(
        self,
        topic: TopicName,
        *,
        partition: int | None = None,
        consumer: Identifier = 0,
        group: Identifier | None = None,
        timeout: float | None = None,
    ) -> None:
        """Delete the stored offset of a consumer or group: "next" starts at the first message."""
        request = DeleteConsumerOffset(_consumer(consumer, group), *topic_of(topic), partition)
        self._do(request, timeout)


def _consumer(consumer: Identifier, group: Identifier | None) -> Consumer:
    if group is None:
        return Consumer(ConsumerKind.CONSUMER, consumer)
    return Consumer(ConsumerKind.GROUP, group)
