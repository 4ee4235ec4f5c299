"""The client: one connection to a server, and a method for everything that a server can do."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar, overload

from borzoi.client._async.consumer import AsyncConsumer
from borzoi.client._async.producer import AsyncProducer, WhenFull
from borzoi.client._async.sharing import AsyncBoth
from borzoi.client.batching import Batching
from borzoi.client.codecs import BYTES, Codec, codec_of
from borzoi.client.connection_string import parse
from borzoi.client.consuming import Begin, Commit, Consuming
from borzoi.client.messages import Message, Payload, ValueMessage
from borzoi.client.naming import TopicName, topic_of
from borzoi.client.options import DEFAULT_SERVER, Options
from borzoi.model.errors import StreamNameTaken, TopicNameTaken
from borzoi.model.identifiers import Identifier
from borzoi.protocol.commands.topics import TopicDetails

T = TypeVar("T")


class AsyncClient(AsyncBoth):
    """A connection to a server.

    >>> async with AsyncClient("borzoi://iggy:iggy@localhost:8090") as client:  # doctest: +SKIP
    ...     await client.send_messages("orders/events", [b"hello"])

    It logs in with the credentials of the connection string and reconnects when the connection
    was lost. Tasks may share it: their requests are pipelined on one connection. The code that
    creates a client closes it, usually with `async with`.

    `timeout` and `connect_timeout` are seconds and override those of the connection string: the
    limit for any call, reconnecting included, and for one attempt to connect.
    """

    def __init__(
        self,
        server: str | Options = DEFAULT_SERVER,
        *,
        timeout: float | None = None,
        connect_timeout: float | None = None,
    ) -> None:
        options = parse(server) if isinstance(server, str) else server
        if timeout is not None:
            options = replace(options, timeout=timeout)
        if connect_timeout is not None:
            options = replace(options, connect_timeout=connect_timeout)
        super().__init__(options)

    @property
    def options(self) -> Options:
        """The options of this client."""
        return self._options

    @property
    def is_connected(self) -> bool:
        """Whether the client is connected; if not, the next call connects."""
        return self._session.is_connected

    async def connect(self, *, timeout: float | None = None) -> None:
        """Connect and log in; `async with` and the first call do so too."""
        await self._session.connect(self._options.timeout if timeout is None else timeout)

    async def close(self) -> None:
        """Close the connection; calls still waiting for an answer raise `ClientClosed`."""
        await self._session.close()

    async def ensure_topic(
        self, topic: TopicName, *, partitions: int = 1, timeout: float | None = None
    ) -> TopicDetails:
        """Return the topic; create it and its stream if they do not exist."""
        found = await self.get_topic(topic, timeout=timeout)
        if found is not None:
            return found
        stream, _ = topic_of(topic)
        try:
            if await self.get_stream(stream, timeout=timeout) is None:
                await self.create_stream(str(stream), timeout=timeout)
        except StreamNameTaken:
            pass
        try:
            return await self.create_topic(topic, partitions=partitions, timeout=timeout)
        except TopicNameTaken:
            found = await self.get_topic(topic, timeout=timeout)
            assert found is not None
            return found

    @overload
    def producer(
        self,
        topic: TopicName,
        *,
        background: bool = False,
        linger: float = ...,
        batch_messages: int = ...,
        batch_bytes: int = ...,
        buffer_bytes: int = ...,
        when_full: WhenFull = "block",
        timeout: float | None = None,
    ) -> AsyncProducer[Payload]: ...

    @overload
    def producer(
        self,
        topic: TopicName,
        *,
        codec: type[T] | Codec[T],
        background: bool = False,
        linger: float = ...,
        batch_messages: int = ...,
        batch_bytes: int = ...,
        buffer_bytes: int = ...,
        when_full: WhenFull = "block",
        timeout: float | None = None,
    ) -> AsyncProducer[T]: ...

    def producer(
        self,
        topic: TopicName,
        *,
        codec: Any = BYTES,
        background: bool = False,
        linger: float = 0.005,
        batch_messages: int = 1000,
        batch_bytes: int = 1 << 20,
        buffer_bytes: int = 32 << 20,
        when_full: WhenFull = "block",
        timeout: float | None = None,
    ) -> AsyncProducer[Any]:
        """Return a producer that sends each message at once or, with `background`, in batches.

        A batch waits `linger` seconds for more messages unless it reaches `batch_messages` or
        `batch_bytes` first. At most `buffer_bytes` are buffered in all; when the buffer is full,
        `send` waits ("block"), raises `BufferFull` ("fail") or discards the message ("drop").
        `codec` is a codec, or a class whose instances are sent.
        """
        return AsyncProducer(
            self,
            topic,
            codec_of(codec),
            background=background,
            batching=Batching(linger, batch_messages, batch_bytes, buffer_bytes),
            when_full=when_full,
            timeout=timeout,
        )

    @overload
    def consumer(
        self,
        topic: TopicName,
        *,
        group: Identifier | None = None,
        name: Identifier | None = None,
        partitions: Sequence[int] | None = None,
        begin: Begin = "earliest",
        commit: Commit = "batch",
        commit_interval: float = ...,
        batch_messages: int = ...,
        poll_interval: float = ...,
        follow: bool = True,
        on_assigned: Callable[[tuple[int, ...]], Any] | None = None,
        on_revoked: Callable[[tuple[int, ...]], Any] | None = None,
    ) -> AsyncConsumer[Message]: ...

    @overload
    def consumer(
        self,
        topic: TopicName,
        *,
        codec: type[T] | Codec[T],
        group: Identifier | None = None,
        name: Identifier | None = None,
        partitions: Sequence[int] | None = None,
        begin: Begin = "earliest",
        commit: Commit = "batch",
        commit_interval: float = ...,
        batch_messages: int = ...,
        poll_interval: float = ...,
        follow: bool = True,
        on_assigned: Callable[[tuple[int, ...]], Any] | None = None,
        on_revoked: Callable[[tuple[int, ...]], Any] | None = None,
    ) -> AsyncConsumer[ValueMessage[T]]: ...

    def consumer(
        self,
        topic: TopicName,
        *,
        codec: Any = None,
        group: Identifier | None = None,
        name: Identifier | None = None,
        partitions: Sequence[int] | None = None,
        begin: Begin = "earliest",
        commit: Commit = "batch",
        commit_interval: float = 1.0,
        batch_messages: int = 1000,
        poll_interval: float = 0.1,
        follow: bool = True,
        on_assigned: Callable[[tuple[int, ...]], Any] | None = None,
        on_revoked: Callable[[tuple[int, ...]], Any] | None = None,
    ) -> AsyncConsumer[Any]:
        """Return a consumer of all or some `partitions` of a topic, or of its share of a `group`.

        The server stores the offsets of a group, and of a consumer with a `name`; any other
        consumer starts over each time. `begin` is the start of a partition without a stored
        offset: "earliest", "latest" (messages sent from now on), an offset or a `datetime`. With
        `codec` messages have a `value`. `follow=False` ends at the last message instead of waiting
        for more. `on_assigned` and `on_revoked` are called with the partitions that a rebalance
        gives or takes; processed offsets are committed after `on_revoked`, before the partitions
        are lost.
        """
        return AsyncConsumer(
            self,
            topic,
            None if codec is None else codec_of(codec),
            Consuming(
                group,
                name,
                None if partitions is None else tuple(partitions),
                begin,
                commit,
                commit_interval,
                batch_messages,
                poll_interval,
                follow,
            ),
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        addresses = ", ".join(map(str, self._options.addresses))
        state = "connected" if self.is_connected else "not connected"
        return f"<{type(self).__name__} {addresses}, {state}>"
