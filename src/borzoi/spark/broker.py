"""The requests that the connector sends to a server.

A `Broker` is one connection. Planning keeps one in the driver; each Python worker keeps one for the
tasks it runs (`broker_of_worker`), because workers are reused and a login costs milliseconds.
"""

import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from borzoi.client import Client, Options, Password, Token
from borzoi.client.connection_string import parse
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import CannotConnect, NotFound, StreamNameTaken, TopicNameTaken
from borzoi.model.identifiers import Identifier, identifier_of
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.messages import PolledMessages, PollMessages, SendMessages
from borzoi.protocol.commands.offsets import (
    ConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.streams import (
    CreateStream,
    GetStream,
    GetStreams,
    StreamDetails,
    Streams,
)
from borzoi.protocol.commands.topics import CreateTopic, GetTopic, TopicDetails
from borzoi.protocol.contract import Request, Response
from borzoi.records import arrow
from borzoi.records.columnar import Run, run_of
from borzoi.spark.offsets import Extent, PartitionKey
from borzoi.spark.options import ConnectionOptions, InvalidOption

#: Polls must name a consumer; no offsets are stored for this one.
READER: Final = Consumer(ConsumerKind.CONSUMER, 0)
DEFAULT_USER: Final = "iggy"


class Broker:
    """One connection to a server, opened on demand."""

    def __init__(self, connection: ConnectionOptions) -> None:
        self._connection = connection
        self._client: Client | None = None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    # ---- what there is --------------------------------------------------------------------------

    def topic(self, name: str) -> TopicDetails | None:
        stream, topic = name_parts(name)
        try:
            found = self.call(GetTopic(stream, topic))
        except NotFound:
            return None
        assert found is None or isinstance(found, TopicDetails)
        return found

    def stream_id(self, name: str) -> int | None:
        try:
            found = self.call(GetStream(name_parts(name)[0]))
        except NotFound:
            return None
        assert found is None or isinstance(found, StreamDetails)
        return None if found is None else found.id

    def matching_topics(self, pattern: str) -> list[str]:
        """Return the names of the topics that fully match the pattern."""
        wanted = re.compile(pattern)
        streams = self.call(GetStreams())
        assert isinstance(streams, Streams | None)
        names = []
        for stream in streams.streams if streams else ():
            details = self.call(GetStream(stream.id))
            assert isinstance(details, StreamDetails)
            names += [f"{stream.name}/{topic.name}" for topic in details.topics]
        return sorted(name for name in names if wanted.fullmatch(name))

    def extents(
        self, topics: Iterable[str], assign: Mapping[str, tuple[int, ...]] | None = None
    ) -> dict[PartitionKey, Extent]:
        """Return the extent of every partition of these topics; none for a missing topic."""
        found = {}
        for name in topics:
            details = self.topic(name)
            if details is None:
                continue
            wanted = None if assign is None else set(assign[name])
            for part in details.partitions:
                if wanted is not None and part.id not in wanted:
                    continue
                is_virgin = part.messages_count == 0 and part.current_offset == 0
                latest = 0 if is_virgin else part.current_offset + 1
                mean = part.size_bytes // part.messages_count if part.messages_count else 0
                # Deleting and recreating a topic changes both creation times.
                created = max(part.created_at, details.created_at)
                earliest = latest - part.messages_count
                found[PartitionKey(name, part.id)] = Extent(earliest, latest, created, mean)
            missing = sorted((wanted or set()) - {part.id for part in details.partitions})
            if missing:
                raise InvalidOption(
                    f"assign names partition {missing[0]} of {name}, which has none"
                )
        return found

    # ---- messages -------------------------------------------------------------------------------

    def poll(self, key: PartitionKey, strategy: PollingStrategy, count: int) -> memoryview | bytes:
        """Return messages as they are stored, back to back."""
        stream, topic = name_parts(key.topic)
        request = PollMessages(READER, stream, topic, key.partition, strategy, count)
        polled = self.call(request)
        assert isinstance(polled, PolledMessages)
        return polled.messages

    def run(self, key: PartitionKey, offset: int, count: int) -> Run:
        return run_of(self.poll(key, PollingStrategy.offset(offset), count))

    def find_time(self, key: PartitionKey, micros: int) -> int | None:
        """Return the offset of the first message at or after the time; None if there is none."""
        run = run_of(self.poll(key, PollingStrategy.timestamp(micros), 1))
        return int(run.headers["offset"][0]) if run.count else None

    def timestamp_at(self, key: PartitionKey, offset: int) -> int | None:
        """Return when the message was appended; None if it does not exist."""
        run = self.run(key, offset, 1)
        if run.count == 0 or int(run.headers["offset"][0]) != offset:
            return None
        return int(run.headers["timestamp"][0])

    def send(self, topic: str, partitioning: Partitioning, request: arrow.SendSections) -> None:
        stream_id, topic_id = name_parts(topic)
        self.call(
            SendMessages(
                stream_id,
                topic_id,
                partitioning,
                request.count,
                memoryview(request.indexes),
                request.messages,
            )
        )

    # ---- changes --------------------------------------------------------------------------------

    def store_offset(self, consumer: str, key: PartitionKey, offset: int) -> None:
        """Store this offset as the last one that a consumer has processed."""
        stream, topic = name_parts(key.topic)
        named = Consumer(ConsumerKind.CONSUMER, consumer)
        self.call(StoreConsumerOffset(named, stream, topic, key.partition, offset))

    def stored_offset(self, consumer: str, key: PartitionKey) -> int | None:
        """Return the stored offset of a consumer; None if there is none."""
        stream, topic = name_parts(key.topic)
        named = Consumer(ConsumerKind.CONSUMER, consumer)
        try:
            found = self.call(GetConsumerOffset(named, stream, topic, key.partition))
        except NotFound:
            return None
        assert isinstance(found, ConsumerOffset | None)
        return None if found is None else found.stored_offset

    def ensure_topic(self, name: str, partitions: int) -> None:
        """Create stream and topic unless they exist."""
        stream, topic = name_parts(name)
        if self.stream_id(name) is None:
            try:
                self.call(CreateStream(str(stream)))
            except StreamNameTaken:
                pass
        if self.topic(name) is None:
            try:
                self.call(CreateTopic(stream, str(topic), partitions))
            except TopicNameTaken:
                pass

    # ---- the connection -------------------------------------------------------------------------

    def call(self, request: Request) -> Response | None:
        """Send a request and return its answer; the client reconnects if necessary.

        A first connection is tried several times: a worker may start while a server restarts.
        """
        attempts = 1 + self._connection.retries
        for attempt in range(attempts):
            try:
                if self._client is None:
                    self._client = Client(client_options(self._connection))
                return self._client.call(request)
            except CannotConnect:
                self.close()
                if attempt + 1 == attempts:
                    raise
                time.sleep(self._connection.retry_interval * 2**attempt / 1_000_000)
        raise AssertionError("the last attempt returns or raises")


def client_options(connection: ConnectionOptions) -> Options:
    """Return the client's options; secrets are read here, where they are used."""
    if connection.connection is not None:
        return replace(parse(connection.connection), heartbeat_interval=0)
    token = _secret(connection.token, connection.token_env, connection.token_file, "tokenEnv")
    password = _secret(
        connection.password, connection.password_env, connection.password_file, "passwordEnv"
    )
    user = Password(connection.username or DEFAULT_USER, password or DEFAULT_USER)
    addresses = parse(f"borzoi://{connection.servers}").addresses
    return Options(
        addresses=addresses,
        credentials=user if token is None else Token(token),
        timeout=connection.timeout / 1_000_000,
        # Tasks are short, and losing the connection between micro-batches is harmless.
        heartbeat_interval=0,
    )


def _secret(value: str | None, variable: str | None, file: str | None, option: str) -> str | None:
    if variable is not None:
        if variable not in os.environ:
            raise InvalidOption(f"option {option} names {variable!r}, which is not set here")
        return os.environ[variable]
    if file is not None:
        return Path(file).read_text().strip()
    return value


def name_parts(name: str) -> tuple[Identifier, Identifier]:
    stream, _, topic = name.partition("/")
    return identifier_of(stream), identifier_of(topic)


#: Connections of this process, by their options.
_OF_WORKER: dict[ConnectionOptions, Broker] = {}


def broker_of_worker(connection: ConnectionOptions) -> Broker:
    """Return this process's connection to the server; it is kept for the next task."""
    if connection not in _OF_WORKER:
        _OF_WORKER[connection] = Broker(connection)
    return _OF_WORKER[connection]


def close_brokers_of_worker() -> None:
    """Close the connections that `broker_of_worker` keeps."""
    while _OF_WORKER:
        _OF_WORKER.popitem()[1].close()
