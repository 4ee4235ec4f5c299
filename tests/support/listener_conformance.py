"""What every transport must do, as checks that take a listener.

A new transport passes all of `CHECKS`; one whose connections can move to another process passes
`MOVING_CHECKS` too. `Traits` says where the interface leaves a transport free. Each check fails
with an exception, at the latest when its patience ends.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from tests.support.embedded import EmbeddedServer, with_topic
from tests.support.listening import FrameClient, turns
from tests.support.polls import poll_of
from tests.support.sends import send_of
from tests.support.wire_client import answer_in

from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import failed
from borzoi.listeners.interface import Adopter, Listener
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.users import CreateUser, GetUser
from borzoi.protocol.contract import Request
from borzoi.protocol.framing import encode_request
from borzoi.records.message import decode_messages

FAREWELL = failed(8)
#: So many connections may be open at once.
ROOM = 3
#: How long a client that must not be served tries.
REFUSAL_SECONDS = 2.0


@dataclass(frozen=True)
class Traits:
    """Where transports differ; the defaults are those of a byte stream with a session."""

    #: HTTP authenticates every call by its token, so a connection begins and ends no session.
    has_sessions: bool = True
    #: What an idle client gets before the connection closes. QUIC has no stream for it, and HTTP no
    #: message that is not an answer: both only close.
    farewell: bytes = FAREWELL
    #: The streams of QUIC are independent: a request does not wait for those before it.
    is_ordered: bool = True


BYTE_STREAM = Traits()


@dataclass
class Subject:
    """A listener over a real server, and a way to connect to it."""

    server: EmbeddedServer
    listener: Listener
    connect: Callable[[], Awaitable[FrameClient]]
    #: Sessions that were reported as disconnected.
    ended: list[Session]
    patience_seconds: float
    #: What `held` was before the listener was made.
    held_before: int
    #: The bytes of requests that arrive: what the pool has lent, or what was admitted.
    held: Callable[[], int]
    traits: Traits = BYTE_STREAM
    #: A second listener, as in another process, that shares nothing with the first but the server.
    other: Listener | None = None
    open_clients: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def client(self, *, logged_in: bool = True) -> FrameClient:
        client = await self.connect()
        client.patience_seconds = self.patience_seconds
        self.open_clients.push_async_callback(client.close)
        if logged_in:
            await client.login()
        return client

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(self.patience_seconds):
            while not condition():
                await asyncio.sleep(0.001)

    async def serves_another(self) -> bool:
        try:
            async with asyncio.timeout(REFUSAL_SECONDS):
                await (await self.client(logged_in=False)).call(Ping())
        except (OSError, EOFError):
            return False
        return True

    def sessions_of(self, connections: int) -> int:
        """How many sessions these connections have."""
        return connections if self.traits.has_sessions else 0

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()


Check: TypeAlias = Callable[[Subject], Awaitable[None]]


@asynccontextmanager
async def checked(subject: Subject) -> AsyncIterator[Subject]:
    async with subject.open_clients:
        yield subject


def limits() -> Admission:
    return Admission(ROOM, ROOM)


POLL = poll_of(1000)


async def answers_come_whole_and_in_order(subject: Subject) -> None:
    """However requests are cut, and whether or not one has to wait."""
    client = await subject.client()
    ahead: list[Request] = [CreateUser("bob", "secret"), GetUser("iggy"), CreateStream("s")]
    ahead += [CreateStream("t"), Ping()]
    await client.ask(*ahead, cuts=(3, 40))
    bob, root, *streams, pong = [answer_in(*await client.receive(), one) for one in ahead]
    assert [bob.username, root.username] == ["bob", "iggy"]
    assert [stream.name for stream in streams] == ["s", "t"]
    assert pong is None


async def large_batches_and_polls_arrive_whole(subject: Subject) -> None:
    await with_topic(subject.server)
    client = await subject.client()
    sent = [bytes([65 + number]) * (150_000 * number + 1) for number in range(6)]
    for payload in sent:
        await client.call(send_of(payload))
    polled = await client.call(POLL)
    assert [bytes(one.payload) for one in decode_messages(polled.messages)] == sent


async def sessions_begin_and_end_with_their_connections(subject: Subject) -> None:
    sessions = subject.server.services.sessions
    before = len(sessions)
    client = await subject.client()
    await subject.client()
    assert len(sessions) == before + subject.sessions_of(2)
    assert len(subject.listener.connections) == 2
    await client.close()
    await subject.until(lambda: len(subject.listener.connections) == 1)
    assert len(sessions) == before + subject.sessions_of(1)
    assert len(subject.ended) == subject.sessions_of(1)


async def connections_are_limited_and_make_room_when_they_end(subject: Subject) -> None:
    clients = [await subject.client() for _ in range(ROOM)]
    assert not await subject.serves_another()
    await clients[0].close()
    await subject.until(lambda: len(subject.listener.connections) == ROOM - 1)
    await (await subject.client()).call(Ping())


async def stopping_to_accept_keeps_connections(subject: Subject) -> None:
    client = await subject.client()
    subject.listener.stop_accepting()
    await client.call(Ping())
    assert not await subject.serves_another()


async def goodbye_is_the_last_that_a_client_hears(subject: Subject) -> None:
    """An idle client gets the farewell, and one that waits gets its answer instead."""
    idle, waiting = await subject.client(), await subject.client()
    behind = [Ping()] if subject.traits.is_ordered else []
    await waiting.ask(CreateUser("bob", "secret"), *behind)
    await subject.until(lambda: subject.server.dispatcher.waiting == 1)
    subject.listener.say_goodbye(FAREWELL)
    assert await idle.rest() == subject.traits.farewell
    status, payload = await waiting.receive()
    assert (status, len(payload) > 0) == (0, True)
    assert await waiting.rest() == b""
    await idle.close()
    await waiting.close()
    await subject.until(lambda: not subject.listener.connections)
    assert len(subject.ended) == subject.sessions_of(2)


async def half_a_frame_is_given_up_and_an_idle_client_is_not(subject: Subject) -> None:
    idle, stalled = await subject.client(), await subject.client()
    began = subject.now
    await stalled.begin()

    def is_given_up() -> bool:
        """Try at every moment: before the half frame arrives, neither client is stalled."""
        if len(subject.listener.connections) == 1:
            return True
        subject.listener.give_up_stalled(began)
        assert len(subject.listener.connections) == 2
        subject.listener.give_up_stalled(subject.now + 1)
        return False

    await subject.until(is_given_up)
    assert await stalled.rest() == b""
    await idle.call(Ping())
    await subject.until(lambda: len(subject.listener.connections) == 1)


async def a_lost_client_leaves_no_buffer_behind(subject: Subject) -> None:
    client = await subject.client()
    before = subject.held()
    await client.begin()
    await subject.until(lambda: subject.held() > before)
    await client.close()
    await subject.until(lambda: not subject.listener.connections)
    await turns(3)
    # The listener itself may have taken a second receive buffer.
    assert subject.held() <= before + 512 * 1024
    assert len(subject.ended) == subject.sessions_of(1)


async def closing_ends_everything(subject: Subject) -> None:
    client, other = await subject.client(), await subject.client()
    await other.begin()
    await client.call(Ping())
    subject.listener.close()
    assert await client.rest() == b""
    assert await other.rest() == b""
    await subject.until(lambda: not subject.listener.connections)
    await turns(3)
    assert len(subject.ended) == subject.sessions_of(2)
    assert subject.held() == subject.held_before


CHECKS: tuple[Check, ...] = (
    answers_come_whole_and_in_order,
    large_batches_and_polls_arrive_whole,
    sessions_begin_and_end_with_their_connections,
    connections_are_limited_and_make_room_when_they_end,
    stopping_to_accept_keeps_connections,
    goodbye_is_the_last_that_a_client_hears,
    half_a_frame_is_given_up_and_an_idle_client_is_not,
    a_lost_client_leaves_no_buffer_behind,
    closing_ends_everything,
)


# Connections that move.


def move(subject: Subject) -> bool:
    """Detach the only connection and let the other listener adopt it. Whether that was possible."""
    (connection,) = subject.listener.connections
    detached = connection.detach()
    if detached is None:
        return False
    sessions = subject.server.services.sessions
    session = sessions.get(detached.record.client_id)
    assert session is not None
    sessions.remove(session)
    adopted = cast(Adopter, subject.other).adopt(detached)
    assert adopted is not None
    return True


async def a_moved_client_notices_nothing(subject: Subject) -> None:
    client = await subject.client()
    before = await client.call(GetMe())
    assert move(subject)
    assert not subject.listener.connections
    assert subject.other is not None
    assert len(subject.other.connections) == 1
    assert await client.call(GetMe()) == before
    assert subject.ended == []
    await client.close()
    await subject.until(lambda: subject.other is not None and not subject.other.connections)
    assert len(subject.ended) == 1


async def a_frame_that_has_begun_moves_too(subject: Subject) -> None:
    await with_topic(subject.server)
    client = await subject.client()
    for size in (3, 20, 100_000):
        frame = encode_request(send_of(b"x" * 150_000))
        await client.send(frame[:size])
        # Usually all of it has been read by then; the rest moves with the socket.
        await asyncio.sleep(0.05)
        assert move(subject)
        await client.send(frame[size:])
        assert await client.receive() == (0, b"")
        subject.listener, subject.other = cast(Listener, subject.other), subject.listener
    polled = await client.call(POLL)
    assert polled.messages_count == 3


async def a_client_that_waits_for_an_answer_stays(subject: Subject) -> None:
    client = await subject.client()
    await client.send(encode_request(CreateUser("bob", "secret")))
    await subject.until(lambda: subject.server.dispatcher.waiting == 1)
    assert not move(subject)
    assert (await client.receive())[0] == 0
    await client.call(Ping())


async def what_was_detached_is_not_closed_with_its_old_listener(subject: Subject) -> None:
    client = await subject.client()
    assert move(subject)
    subject.listener.give_up_stalled(subject.now + 1)
    subject.listener.say_goodbye(FAREWELL)
    subject.listener.close()
    await client.call(Ping())
    again = await client.call(GetMe())
    assert again.user_id == 0


MOVING_CHECKS: tuple[Check, ...] = (
    a_moved_client_notices_nothing,
    a_frame_that_has_begun_moves_too,
    a_client_that_waits_for_an_answer_stays,
    what_was_detached_is_not_closed_with_its_old_listener,
)
