"""What the connector asks of a server, in the words of the protocol.

A `Broker` is one connection. Planning keeps one in the driver; each Python worker keeps one for the
tasks it runs (`broker_of_worker`), because workers are reused and a login costs milliseconds.
"""

import os
import re
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import (
    ConnectionLost,
    Disconnected,
    NotFound,
    StreamNameTaken,
    TopicNameTaken,
)
from borzoi.model.identifiers import Identifier, identifier_of
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.catalog import Request as WireRequest
from borzoi.protocol.catalog import Response
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
from borzoi.protocol.commands.tokens import LoginWithPersonalAccessToken
from borzoi.protocol.commands.topics import CreateTopic, GetTopic, TopicDetails
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.errors import error_of
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request
from borzoi.records.arrow import Request
from borzoi.records.columnar import Run, run_of
from borzoi.spark.offsets import Extent, Key
from borzoi.spark.options import Connection, InvalidOption

#: Polls name a consumer, and nothing is stored for this one.
READER: Final = Consumer(ConsumerKind.CONSUMER, 0)
DEFAULT_USER: Final = "iggy"


class Broker:
    """One connection to a server, made when it is first needed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._link: Link | None = None

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    # ---- what there is --------------------------------------------------------------------------

    def topic(self, name: str) -> TopicDetails | None:
        stream, topic = name_parts(name)
        try:
            found = self._call(GetTopic(stream, topic))
        except NotFound:
            return None
        assert found is None or isinstance(found, TopicDetails)
        return found

    def stream_id(self, name: str) -> int | None:
        try:
            found = self._call(GetStream(name_parts(name)[0]))
        except NotFound:
            return None
        assert found is None or isinstance(found, StreamDetails)
        return None if found is None else found.id

    def matching_topics(self, pattern: str) -> list[str]:
        """Names of the topics that the whole pattern matches."""
        wanted = re.compile(pattern)
        streams = self._call(GetStreams())
        assert isinstance(streams, Streams | None)
        names = []
        for stream in streams.streams if streams else ():
            details = self._call(GetStream(stream.id))
            assert isinstance(details, StreamDetails)
            names += [f"{stream.name}/{topic.name}" for topic in details.topics]
        return sorted(name for name in names if wanted.fullmatch(name))

    def extents(
        self, topics: Iterable[str], assign: Mapping[str, tuple[int, ...]] | None = None
    ) -> dict[Key, Extent]:
        """What every partition of these topics holds; a missing topic has none."""
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
                # A topic that is deleted and created again has new creation times, both.
                created = max(part.created_at, details.created_at)
                earliest = latest - part.messages_count
                found[Key(name, part.id)] = Extent(earliest, latest, created, mean)
            missing = sorted((wanted or set()) - {part.id for part in details.partitions})
            if missing:
                raise InvalidOption(
                    f"assign names partition {missing[0]} of {name}, which has none"
                )
        return found

    # ---- messages -------------------------------------------------------------------------------

    def poll(self, key: Key, strategy: PollingStrategy, count: int) -> memoryview | bytes:
        """Messages as they are stored, back to back."""
        stream, topic = name_parts(key.topic)
        request = PollMessages(READER, stream, topic, key.partition, strategy, count)
        polled = self._call(request)
        assert isinstance(polled, PolledMessages)
        return polled.messages

    def run(self, key: Key, offset: int, count: int) -> Run:
        return run_of(self.poll(key, PollingStrategy.offset(offset), count))

    def find_time(self, key: Key, micros: int) -> int | None:
        """Offset of the first message at least as new; None when there is none."""
        run = run_of(self.poll(key, PollingStrategy.timestamp(micros), 1))
        return int(run.headers["offset"][0]) if run.count else None

    def timestamp_at(self, key: Key, offset: int) -> int | None:
        """When the message was appended; None when it is not there."""
        run = self.run(key, offset, 1)
        if run.count == 0 or int(run.headers["offset"][0]) != offset:
            return None
        return int(run.headers["timestamp"][0])

    def send(self, topic: str, partitioning: Partitioning, request: Request) -> None:
        stream_id, topic_id = name_parts(topic)
        self._call(
            SendMessages(
                stream_id,
                topic_id,
                partitioning,
                request.count,
                memoryview(request.indexes),
                request.messages,
            ),
            is_repeatable=False,
        )

    # ---- changes --------------------------------------------------------------------------------

    def store_offset(self, consumer: str, key: Key, offset: int) -> None:
        """Say that a consumer has processed everything up to and with this offset."""
        stream, topic = name_parts(key.topic)
        named = Consumer(ConsumerKind.CONSUMER, consumer)
        self._call(StoreConsumerOffset(named, stream, topic, key.partition, offset))

    def stored_offset(self, consumer: str, key: Key) -> int | None:
        """What a consumer has processed; None when it stored nothing."""
        stream, topic = name_parts(key.topic)
        named = Consumer(ConsumerKind.CONSUMER, consumer)
        try:
            found = self._call(GetConsumerOffset(named, stream, topic, key.partition))
        except NotFound:
            return None
        assert isinstance(found, ConsumerOffset | None)
        return None if found is None else found.stored_offset

    def ensure_topic(self, name: str, partitions: int) -> None:
        """Create stream and topic unless they are there."""
        stream, topic = name_parts(name)
        if self.stream_id(name) is None:
            try:
                self._call(CreateStream(str(stream)))
            except StreamNameTaken:
                pass
        if self.topic(name) is None:
            try:
                self._call(CreateTopic(stream, str(topic), partitions))
            except TopicNameTaken:
                pass

    # ---- the connection -------------------------------------------------------------------------

    def _call(self, request: WireRequest, *, is_repeatable: bool = True) -> Response | None:
        """The answer; a lost connection is made again, and the request repeated if that is safe."""
        attempts = 1 + self._connection.retries
        for attempt in range(attempts):
            try:
                if self._link is None:
                    self._link = Link(self._connection)
                return self._link.call(request)
            except (ConnectionLost, OSError) as fault:
                was_sent = self._link is not None
                self.close()
                if attempt + 1 == attempts or (was_sent and not is_repeatable):
                    raise Disconnected(f"{self._connection.servers}: {fault}") from fault
                time.sleep(self._connection.retry_interval * 2**attempt / 1_000_000)
        raise AssertionError("the last attempt returns or raises")


class Link:
    """A socket that is logged in."""

    def __init__(self, connection: Connection) -> None:
        host, _, port = connection.servers.split(",")[0].strip().rpartition(":")
        seconds = connection.timeout / 1_000_000
        self._sock = socket.create_connection((host.strip("[]"), int(port)), seconds)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.call(login_of(connection))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._sock.close()

    def call(self, request: WireRequest) -> Response | None:
        if isinstance(request, SendMessages):
            out = Writer()
            request.encode_metadata(out)
            metadata = out.getvalue()
            length = 4 + len(metadata) + len(request.indexes) + len(request.messages)
            prefix = length.to_bytes(4, "little") + int(request.CODE).to_bytes(4, "little")
            self._sock.sendall(prefix + metadata + bytes(request.indexes))
            self._sock.sendall(request.messages)
        else:
            self._sock.sendall(encode_request(request))
        status, length = RESPONSE_PREFIX.unpack(self._exactly(RESPONSE_PREFIX.size))
        payload = self._exactly(length)
        if status:
            raise error_of(status)
        if request.RESPONSE is None or not payload:
            return None
        decoded: Response = request.RESPONSE.decode(Reader(payload))
        return decoded

    def _exactly(self, size: int) -> bytearray:
        received = bytearray(size)
        view, filled = memoryview(received), 0
        while filled < size:
            count = self._sock.recv_into(view[filled:])
            if not count:
                raise Disconnected("the server closed the connection")
            filled += count
        return received


def login_of(connection: Connection) -> WireRequest:
    """The request that logs in; secrets are read here, where they are used."""
    token = _secret(connection.token, connection.token_env, connection.token_file, "tokenEnv")
    if token is not None:
        return LoginWithPersonalAccessToken(token)
    password = _secret(
        connection.password, connection.password_env, connection.password_file, "passwordEnv"
    )
    return LoginUser(connection.username or DEFAULT_USER, password or DEFAULT_USER)


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


#: Connections of this process, by how they were made.
_OF_WORKER: dict[Connection, Broker] = {}


def broker_of_worker(connection: Connection) -> Broker:
    """The connection of this process to that server, kept for the next task."""
    if connection not in _OF_WORKER:
        _OF_WORKER[connection] = Broker(connection)
    return _OF_WORKER[connection]


def close_brokers_of_worker() -> None:
    """End the connections that `broker_of_worker` keeps."""
    while _OF_WORKER:
        _OF_WORKER.popitem()[1].close()
