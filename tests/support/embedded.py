"""A whole server without a socket: planes, handlers and dispatch on the caller's event loop.

For tests of what commands do; tests of how they travel use `tests.support.server`.
"""

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.support.sends import send_of
from tests.support.server import with_small_segments
from tests.support.wire_client import answer_in

from borzoi.archive.archiver import Archiver
from borzoi.handlers.call import Services
from borzoi.handlers.dispatch import Dispatcher
from borzoi.handlers.scopes import everywhere
from borzoi.handlers.sessions import Session
from borzoi.handlers.table import Row
from borzoi.listeners.binary import BinaryProtocol, RangesReply, Reply
from borzoi.memory.pool import Payload
from borzoi.metadata.groups import ClientGone
from borzoi.metadata.permissions import Rule
from borzoi.metadata.proposals import Proposal
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.limits import NEVER
from borzoi.model.namespace import Namespace
from borzoi.model.system import TransportKind
from borzoi.objectstore.metering import Meters
from borzoi.partitions.operations import PartitionOperation
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.contract import Request, encode_payload
from borzoi.protocol.framing import RESPONSE_PREFIX
from borzoi.server.archiving import archiver_of
from borzoi.server.assembly import Opened, clock, open_data, services_of, store_new_root
from borzoi.server.config import Configuration, load
from borzoi.shard.partition_plane import PartitionPlane
from borzoi.shard.partition_table import Totals
from borzoi.storage.reading import Reading

A = TypeVar("A")


@dataclass(slots=True, eq=False)
class EmbeddedClient:
    """A session of an embedded server."""

    server: "EmbeddedServer"
    session: Session
    hung_up: bool = False

    async def call(self, request: Request) -> Any:
        """The decoded answer, None for an empty one; an error status becomes its exception."""
        return answer_in(*await self.exchange(int(request.CODE), encode_payload(request)), request)

    async def exchange(self, code: int, payload: bytes) -> tuple[int, bytes]:
        """Status and payload of the answer to a frame."""
        answer = whole(await self.reply(code, memoryview(bytearray(payload))))
        status, length = RESPONSE_PREFIX.unpack_from(answer)
        assert len(answer) == RESPONSE_PREFIX.size + length
        return status, answer[RESPONSE_PREFIX.size :]

    async def reply(self, code: int, payload: memoryview | Payload) -> Reply:
        binary = self.server.binary
        if not isinstance(payload, Payload):
            payload = Payload(payload)
        reply = binary.respond(self.session, code, payload)
        if not isinstance(reply, Future):
            return reply
        await asyncio.wait({reply})
        return binary.reply_to(self.session, code, reply)

    async def disconnect(self) -> None:
        self.server.services.sessions.remove(self.session)
        leaving = Proposal(ClientGone(self.session.client_id), ROOT_USER_ID)
        await self.server.services.metadata.submit(leaving)

    def _hang_up(self) -> None:
        self.hung_up = True


def whole(reply: Reply) -> bytes:
    """The bytes of a reply, those in files included."""
    if not isinstance(reply, RangesReply):
        return reply
    messages = Reading(ranges=list(reply.ranges), tail=list(reply.tail))
    found = reply.head + messages.materialise()
    assert len(found) == reply.size
    return found


@dataclass(slots=True)
class EmbeddedServer:
    """The parts of a server that a test may look at."""

    configuration: Configuration
    directory: Path
    opened: Opened
    services: Services
    binary: BinaryProtocol
    #: The one of the settings, whose turns a test runs itself, and what its store is asked.
    archiver: Archiver | None
    meters: Meters
    _ports: int = field(default=50_000)

    def connect(self, *, user_id: int | None = None, host: str = "127.0.0.1") -> EmbeddedClient:
        """A new session, logged in as the user when one is given."""
        self._ports += 1
        session = Session(
            self._ports,
            f"{host}:{self._ports}",
            TransportKind.TCP,
            lambda: None,
            pinged_at=0.0,
            user_id=user_id,
        )
        client = EmbeddedClient(self, session)
        session.hang_up = client._hang_up
        self.services.sessions.add(session)
        return client

    @property
    def dispatcher(self) -> Dispatcher:
        return self.binary.dispatcher

    def root(self) -> EmbeddedClient:
        return self.connect(user_id=ROOT_USER_ID)

    async def close(self) -> None:
        self.services.authentication.close()
        await self.services.partitions.close()
        self.services.metadata.close()


@asynccontextmanager
async def embedded_server(
    directory: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[EmbeddedServer]:
    """A server over the directory, with default credentials; `settings` as for a real one."""
    chosen = with_small_segments(settings or {})
    environment = {f"BORZOI_{name}": value for name, value in chosen.items()}
    environment["BORZOI_SYSTEM_PATH"] = str(directory)
    configuration = load(environment, directory)
    opened = open_data(configuration.settings, directory, environment={}, default_credentials=True)
    try:
        store_new_root(opened)
    except BaseException:
        opened.state_log.close()
        raise
    meters = Meters()
    archiver = archiver_of(configuration.settings, directory, meters, clock=clock)
    services = services_of(
        configuration.settings, directory, opened, follower=False, archiver=archiver
    )
    limit = configuration.settings.tcp.max_unfinished_size
    binary = BinaryProtocol(Dispatcher(services), unfinished_bytes_max=limit)
    server = EmbeddedServer(configuration, directory, opened, services, binary, archiver, meters)
    try:
        yield server
    finally:
        await server.close()


async def with_topic(
    server: EmbeddedServer, *, partitions: int = 2, message_expiry: int = NEVER, messages: int = 0
) -> EmbeddedServer:
    """The server with a topic `t` in a stream `s`, and so many messages in its first partition."""
    await server.root().call(CreateStream("s"))
    await server.root().call(CreateTopic("s", "t", partitions, message_expiry=message_expiry))
    if messages:
        await sent(server, messages)
    return server


async def sent(server: EmbeddedServer, count: int = 1, *, size: int = 1) -> None:
    """Messages of `size` bytes in the first partition of that topic."""
    await server.root().call(send_of(*[b"x" * size] * count))


async def sent_singly(server: EmbeddedServer, count: int) -> None:
    """Messages of 1000 bytes there, in as many requests."""
    for _ in range(count):
        await sent(server, size=1000)


def asked(plane: PartitionPlane, namespace: Namespace, operation: PartitionOperation[A]) -> A:
    """The answer of an operation that need not wait."""
    return here(plane.run(namespace, operation, now=1))


def described(plane: PartitionPlane, namespace: Namespace) -> PartitionStatistics:
    return here(plane.describe([namespace]))[0]


def totals_of(plane: PartitionPlane) -> Totals:
    return here(plane.totals())


def here(answer: "A | Future[A]") -> A:
    """The answer, which must not be a future."""
    assert not isinstance(answer, Future)
    return answer


def _broken(request: object, call: object) -> None:
    raise ZeroDivisionError


async def _broken_later(request: object, call: object) -> None:
    raise ZeroDivisionError


#: Commands whose handlers fail, at once and later.
BROKEN_ROWS = (
    Row(Ping, Rule.ANYONE, everywhere, _broken),
    Row(GetMe, Rule.LOGGED_IN, everywhere, _broken_later),
)
