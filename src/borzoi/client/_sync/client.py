# Made by tools/unasync.py from src/borzoi/client/_async/client.py: edit that one.
"""The client: one connection to a server, and a method for everything that a server can do."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from borzoi.client._sync.consumer import Consumer
from borzoi.client._sync.producer import Producer, WhenFull
from borzoi.client._sync.sharing import Both
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


class Client(Both):
    """A connection to a server.

    >>> with Client("borzoi://iggy:iggy@localhost:8090") as client:  # doctest: +SKIP
    ...     client.send_messages("orders/events", [b"hello"])

    It logs in with the credentials of the connection string, connects again when the connection
    was lost, and may be used by many at the same time: their requests share the connection
    without waiting for each other's answers. Whoever makes it closes it; `with` does.

    `timeout` and `connect_timeout` are seconds and override those of the connection string: what
    any call may take, connecting again included, and what one attempt to connect may take.
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
        """What the client was told."""
        return self._options

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now; a call makes one when there is not."""
        return self._session.is_connected

    def connect(self, *, timeout: float | None = None) -> None:
        """Connect and log in; `with` does, and so does the first call."""
        self._session.connect(self._options.timeout if timeout is None else timeout)

    def close(self) -> None:
        """End the connection; calls that still wait for an answer get `ClientClosed`."""
        self._session.close()

    def ensure_topic(
        self, topic: TopicName, *, partitions: int = 1, timeout: float | None = None
    ) -> TopicDetails:
        """The topic; it and its stream are created if they are not there."""
        found = self.get_topic(topic, timeout=timeout)
        if found is not None:
            return found
        stream, _ = topic_of(topic)
        try:
            if self.get_stream(stream, timeout=timeout) is None:
                self.create_stream(str(stream), timeout=timeout)
        except StreamNameTaken:
            pass
        try:
            return self.create_topic(topic, partitions=partitions, timeout=timeout)
        except TopicNameTaken:
            found = self.get_topic(topic, timeout=timeout)
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
    ) -> Producer[Payload]: ...

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
    ) -> Producer[T]: ...

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
    ) -> Producer[Any]:
        """Sends messages to a topic, each at once or, in the `background`, gathered into batches.

        A batch waits `linger` seconds for more messages unless it has `batch_messages` or
        `batch_bytes` before. At most `buffer_bytes` wait in all; a message for which there is no
        room waits itself ("block"), raises `BufferFull` ("fail") or is forgotten ("drop").
        `codec` is a class or a codec whose values are sent.
        """
        return Producer(
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
    ) -> Consumer[Message]: ...

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
    ) -> Consumer[ValueMessage[T]]: ...

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
    ) -> Consumer[Any]:
        """Reads the messages of a topic: all of it or some `partitions`, or a share as a member of
        a `group`.

        The server keeps the offsets of a group, and of a consumer with a `name`; any other begins
        anew each time. `begin` says where, in a partition for which no offset is kept: "earliest",
        "latest" (what is sent from now on), an offset or a `datetime`. With `codec` messages have
        a `value`. `follow=False` ends at the last message instead of waiting for more.
        `on_assigned` and `on_revoked` are called with the partitions that the group gives and
        takes; what was dealt with is stored between `on_revoked` and their loss.
        """
        return Consumer(
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

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        addresses = ", ".join(map(str, self._options.addresses))
        state = "connected" if self.is_connected else "not connected"
        return f"<{type(self).__name__} {addresses}, {state}>"
