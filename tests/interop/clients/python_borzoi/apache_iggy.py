"""Our own client behind the interface of the published one, so that both play the same scenarios.

Found before the published package on the path of the scenarios' program; `BORZOI_COLOUR` says which
of our clients is inside: ``async``, or ``sync`` in threads.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from borzoi.client import AsyncClient, Client, Message
from borzoi.model.consuming import PollingStrategy as Strategy
from borzoi.model.errors import BorzoiError, GroupNameTaken
from borzoi.model.topics import Compression

IS_ASYNC = {"async": True, "sync": False}[os.environ["BORZOI_COLOUR"]]


async def in_thread(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a blocking call returns; not in a pool, whose threads an ending loop would wait for."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, fault: BaseException | None) -> None:
        if not answer.done():
            answer.set_result(result) if fault is None else answer.set_exception(fault)

    def run() -> None:
        try:
            result, fault = call(*arguments, **options), None
        except BaseException as raised:
            result, fault = None, raised
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, fault)

    threading.Thread(target=run, daemon=True).start()
    return await answer


async def said(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a method of either client answers; errors in the words of the published one."""
    try:
        if IS_ASYNC:
            return await call(*arguments, **options)
        return await in_thread(call, *arguments, **options)
    except BorzoiError as fault:
        name = "".join(word.capitalize() for word in fault.name.split("_"))
        raise RuntimeError(f"{name}({fault})") from fault


class SendMessage:
    def __init__(self, data: str | bytes) -> None:
        self.data = data


class ReceiveMessage:
    def __init__(self, message: Message) -> None:
        self._message = message

    def payload(self) -> bytes:
        return self._message.payload

    def offset(self) -> int:
        return self._message.offset

    def timestamp(self) -> int:
        return self._message.timestamp

    def id(self) -> int:
        return self._message.id

    def length(self) -> int:
        return len(self._message.payload)

    def partition_id(self) -> int:
        return self._message.partition


class PollingStrategy:
    First = staticmethod(Strategy.first)
    Last = staticmethod(Strategy.last)
    Next = staticmethod(Strategy.next)
    Offset = staticmethod(Strategy.offset)
    Timestamp = staticmethod(Strategy.timestamp)


@dataclass(frozen=True)
class AutoCommit:
    """How often: never, when polled, after each message."""

    how: str

    @classmethod
    def Disabled(cls) -> "AutoCommit":
        return cls("never")

    @classmethod
    def When(cls, when: "AutoCommitWhen") -> "AutoCommit":
        return cls("polled")

    @classmethod
    def After(cls, after: "AutoCommitAfter") -> "AutoCommit":
        return cls("each")


class AutoCommitWhen:
    class PollingMessages: ...


class AutoCommitAfter:
    class ConsumingEachMessage: ...


class IggyConsumer:
    def __init__(self, client: Any, topic: tuple[str, str], group: str, consumer: Any) -> None:
        self._client = client
        self._topic = topic
        self._group = group
        self._consumer = consumer
        self._consumed: dict[int, int] = {}
        self.commits_at_once = False

    async def store_offset(self, offset: int, partition: int) -> None:
        await said(
            self._client.store_consumer_offset,
            self._topic,
            offset,
            partition=partition,
            group=self._group,
        )

    async def delete_offset(self, partition: int) -> None:
        await said(
            self._client.delete_consumer_offset,
            self._topic,
            partition=partition,
            group=self._group,
        )

    def get_last_consumed_offset(self, partition: int) -> int | None:
        return self._consumed.get(partition)

    async def iter_messages(self) -> AsyncIterator[ReceiveMessage]:
        while True:
            if IS_ASYNC:
                message = await anext(self._consumer)
            else:
                message = await in_thread(next, self._consumer)
            if self.commits_at_once:
                await said(self._consumer.commit)
            self._consumed[message.partition] = message.offset
            yield ReceiveMessage(message)

    async def consume_messages(
        self, callback: Callable[[ReceiveMessage], Awaitable[None]], shutdown: asyncio.Event
    ) -> None:
        async for message in self.iter_messages():
            await callback(message)
            if shutdown.is_set():
                await said(self._consumer.commit)
                return


class IggyClient:
    def __init__(self, address: str = "127.0.0.1:8090", *, url: str | None = None) -> None:
        self._client: Any = (AsyncClient if IS_ASYNC else Client)(url or f"iggy://{address}")

    @classmethod
    def from_connection_string(cls, text: str) -> "IggyClient":
        return cls(url=text)

    async def connect(self) -> None:
        await said(self._client.connect)

    async def ping(self) -> None:
        await said(self._client.ping)

    async def login_user(self, username: str, password: str) -> None:
        await said(self._client.login_user, username, password)

    async def create_stream(self, name: str) -> None:
        await said(self._client.create_stream, name)

    async def get_stream(self, stream: str | int) -> Any:
        return await said(self._client.get_stream, stream)

    async def create_topic(
        self,
        stream: str,
        name: str,
        *,
        partitions_count: int,
        compression_algorithm: str = "none",
        replication_factor: int = 0,
        message_expiry: timedelta | int = 0,
        max_topic_size: int = 0,
    ) -> None:
        await said(
            self._client.create_topic,
            (stream, name),
            partitions=partitions_count,
            compression=Compression[compression_algorithm.upper()],
            replication_factor=replication_factor,
            message_expiry=message_expiry,
            max_size=max_topic_size,
        )

    async def get_topic(self, stream: str, topic: str | int) -> Any:
        return await said(self._client.get_topic, (stream, topic))

    async def send_messages(
        self, stream: str, topic: str, partition: int, messages: list[SendMessage]
    ) -> None:
        payloads = [message.data for message in messages]
        await said(self._client.send_messages, (stream, topic), payloads, partition=partition)

    async def poll_messages(
        self, stream: str, topic: str, partition: int, strategy: Strategy, count: int, commit: bool
    ) -> list[ReceiveMessage]:
        polled = await said(
            self._client.poll_messages,
            (stream, topic),
            partition=partition,
            start=strategy,
            count=count,
            commit=commit,
        )
        return [ReceiveMessage(message) for message in polled]

    async def consumer_group(
        self,
        name: str,
        stream: str,
        topic: str,
        *,
        polling_strategy: Strategy,
        batch_length: int,
        auto_commit: AutoCommit,
        poll_interval: timedelta,
    ) -> IggyConsumer:
        where = (stream, topic)
        try:
            await said(self._client.create_consumer_group, where, name)
        except RuntimeError as fault:
            if not isinstance(fault.__cause__, GroupNameTaken):
                raise
        await said(self._client.join_consumer_group, where, name)
        consumer = self._client.consumer(
            where,
            group=name,
            batch_messages=batch_length,
            commit="each" if auto_commit.how == "each" else "manual",
            poll_interval=poll_interval.total_seconds(),
        )
        member = IggyConsumer(self._client, where, name, consumer)
        member.commits_at_once = auto_commit.how == "polled"
        return member
