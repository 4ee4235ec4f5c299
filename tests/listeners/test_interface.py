"""Every transport passes the conformance suite, and the suite finds faults that are put in."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial

import pytest
from tests.support import listener_conformance as conformance
from tests.support.certificates import trusting
from tests.support.embedded import EmbeddedServer
from tests.support.http_calls import HttpFrameClient, http_listener
from tests.support.listener_conformance import (
    BYTE_STREAM,
    CHECKS,
    MOVING_CHECKS,
    Check,
    Subject,
    Traits,
    checked,
    limits,
)
from tests.support.listening import (
    PATIENCE_SECONDS,
    FrameClient,
    tcp_listener,
    tls_listener,
    websocket_listener,
)
from tests.support.quic_client import QuicFrameClient, quic_listener
from tests.support.websocket_client import WebSocketFrameClient

from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import Reply
from borzoi.listeners.interface import Detached, Listener
from borzoi.listeners.tcp import TcpConnection, TcpListener
from borzoi.model.errors import BorzoiError
from borzoi.protocol.commands.system import Ping
from borzoi.security.certificates import self_signed_context

#: Long enough for a right listener on a busy machine to be told from a faulty one.
IMPATIENCE_SECONDS = 1.0

Transporting = Callable[[EmbeddedServer], AbstractAsyncContextManager[Subject]]


def lent(server: EmbeddedServer) -> Callable[[], int]:
    return lambda: server.opened.pool.counters().in_use_bytes


def admitted(server: EmbeddedServer) -> Callable[[], int]:
    """For transports whose library holds what arrives."""
    return lambda: server.binary.unfinished.in_use


@asynccontextmanager
async def plain(
    server: EmbeddedServer,
    kind: type[TcpListener] = TcpListener,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncIterator[Subject]:
    ended: list[Session] = []
    async with AsyncExitStack() as listeners:
        other = await listeners.enter_async_context(
            tcp_listener(server, admission=limits(), ended=ended, kind=kind)
        )
        held = lent(server)
        before = held()
        listener = await listeners.enter_async_context(
            tcp_listener(server, admission=limits(), ended=ended, kind=kind)
        )

        async def connect() -> FrameClient:
            return await FrameClient.connect(listener.address)

        subject = Subject(
            server, listener, connect, ended, patience_seconds, before, held, other=other
        )
        async with checked(subject):
            yield subject


@asynccontextmanager
async def conforming(
    server: EmbeddedServer,
    listening: AbstractAsyncContextManager[Listener],
    connect: Callable[[tuple[str, int]], Awaitable[FrameClient]],
    ended: list[Session],
    held: Callable[[], int],
    traits: Traits = BYTE_STREAM,
) -> AsyncIterator[Subject]:
    before = held()
    async with listening as listener:
        subject = Subject(
            server,
            listener,
            lambda: connect(listener.address),
            ended,
            PATIENCE_SECONDS,
            before,
            held,
            traits,
        )
        async with checked(subject):
            yield subject


def secure(server: EmbeddedServer) -> AbstractAsyncContextManager[Subject]:
    ended: list[Session] = []
    context = self_signed_context("localhost")
    listening = tls_listener(server, context, admission=limits(), ended=ended)
    connect = partial(FrameClient.connect, context=trusting())
    return conforming(server, listening, connect, ended, lent(server))


def websocket(server: EmbeddedServer) -> AbstractAsyncContextManager[Subject]:
    ended: list[Session] = []
    listening = websocket_listener(server, admission=limits(), ended=ended)
    return conforming(server, listening, WebSocketFrameClient.open, ended, lent(server))


def secure_websocket(server: EmbeddedServer) -> AbstractAsyncContextManager[Subject]:
    ended: list[Session] = []
    context = self_signed_context("localhost")
    listening = websocket_listener(server, admission=limits(), ended=ended, context=context)
    connect = partial(WebSocketFrameClient.open, context=trusting())
    return conforming(server, listening, connect, ended, lent(server))


def quic(server: EmbeddedServer) -> AbstractAsyncContextManager[Subject]:
    ended: list[Session] = []
    listening = quic_listener(server, admission=limits(), ended=ended)
    traits = Traits(farewell=b"", is_ordered=False)
    return conforming(server, listening, QuicFrameClient.open, ended, admitted(server), traits)


def http(server: EmbeddedServer) -> AbstractAsyncContextManager[Subject]:
    listening = http_listener(server, admission=limits())
    traits = Traits(farewell=b"", has_sessions=False)
    return conforming(server, listening, HttpFrameClient.connect, [], admitted(server), traits)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("transport", [plain, secure, websocket, secure_websocket, quic, http])
async def test_a_transport_conforms(
    server: EmbeddedServer, transport: Transporting, check: Check
) -> None:
    async with transport(server) as subject:
        await check(subject)


@pytest.mark.parametrize("check", MOVING_CHECKS, ids=lambda check: check.__name__)
async def test_connections_of_a_transport_can_move(server: EmbeddedServer, check: Check) -> None:
    async with plain(server) as subject:
        await check(subject)


@pytest.mark.parametrize("transport", [secure, websocket, secure_websocket, quic, http])
async def test_a_connection_with_state_stays_where_it_is(
    server: EmbeddedServer, transport: Transporting
) -> None:
    async with transport(server) as subject:
        client = await subject.client()
        (connection,) = subject.listener.connections
        assert connection.detach() is None
        assert await client.call(Ping()) is None


async def test_a_connection_beyond_the_limit_is_closed_instead_of_adopted(
    server: EmbeddedServer,
) -> None:
    async with plain(server) as subject:
        client = await subject.client()
        (connection,) = subject.listener.connections
        detached = connection.detach()
        assert detached is not None
        async with tcp_listener(server, admission=Admission(0, 0)) as full:
            assert full.adopt(detached) is None
        assert await client.rest() == b""


# Faults.


class Muddling(TcpListener):
    """Answers from the last to the first."""

    def _begin(self, sock, session):
        connection = super()._begin(sock, session)
        held: list[Reply] = []

        class Reversed:
            def send(self, reply: Reply) -> None:
                held.insert(0, reply)
                if len(held) == 5 or session.user_id is None:
                    for one in held:
                        connection.send(one)
                    held.clear()

            finish = connection.finish
            pause_reading = connection.pause_reading
            resume_reading = connection.resume_reading

        connection.conversation._output = Reversed()
        return connection


class Crowded(TcpListener):
    """Lets in more connections than there is room for."""

    def __init__(self, *args, **kwargs):
        kwargs["admission"] = Admission(1000, 1000)
        super().__init__(*args, **kwargs)


class Forgetful(TcpListener):
    """Does not report that a session has ended."""

    def ended(self, session: Session) -> None: ...


class Hasty(TcpListener):
    """Ends its connections when it should only stop accepting."""

    def stop_accepting(self) -> None:
        super().stop_accepting()
        for connection in list(self.connections):
            connection.give_up("too early")


class Deaf(TcpListener):
    """Does not stop accepting."""

    def stop_accepting(self) -> None: ...

    def close(self) -> None:
        super().stop_accepting()
        super().close()


class Rude(TcpListener):
    """Ends its connections without a farewell."""

    def say_goodbye(self, farewell: bytes) -> None:
        for connection in list(self.connections):
            connection.give_up("no time for manners")


class Patient(TcpListener):
    """Waits forever for the rest of a frame."""

    def give_up_stalled(self, before: float) -> None: ...


class Zealous(TcpListener):
    """Gives up everything."""

    def give_up_stalled(self, before: float) -> None:
        for connection in list(self.connections):
            connection.give_up("it took a breath")


class Hoarding(TcpListener):
    """Keeps its buffers when it closes."""

    def close(self) -> None:
        self.stop_accepting()
        for connection in list(self.connections):
            connection.give_up("the server stops")


class Oblivious(TcpListener):
    """Forgets which user is logged in on a connection that it adopts."""

    def adopt(self, detached: Detached) -> TcpConnection | None:
        connection = super().adopt(detached)
        assert connection is not None
        connection.session.user_id = None
        return connection


class Careless(TcpListener):
    """Loses the bytes that were read before the connection moved."""

    def adopt(self, detached: Detached) -> TcpConnection | None:
        return super().adopt(Detached(detached.sock, detached.record, b""))


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (Muddling, conformance.answers_come_whole_and_in_order),
        (Crowded, conformance.connections_are_limited_and_make_room_when_they_end),
        (Forgetful, conformance.sessions_begin_and_end_with_their_connections),
        (Forgetful, conformance.a_lost_client_leaves_no_buffer_behind),
        (Hasty, conformance.stopping_to_accept_keeps_connections),
        (Deaf, conformance.stopping_to_accept_keeps_connections),
        (Rude, conformance.goodbye_is_the_last_that_a_client_hears),
        (Patient, conformance.half_a_frame_is_given_up_and_an_idle_client_is_not),
        (Zealous, conformance.half_a_frame_is_given_up_and_an_idle_client_is_not),
        (Hoarding, conformance.closing_ends_everything),
        (Oblivious, conformance.a_moved_client_notices_nothing),
        (Careless, conformance.a_frame_that_has_begun_moves_too),
    ],
)
async def test_the_suite_finds_what_is_wrong_with_a_faulty_transport(
    server: EmbeddedServer, faulty: type[TcpListener], check: Check
) -> None:
    async with plain(server, faulty, IMPATIENCE_SECONDS) as subject:
        with pytest.raises((AssertionError, OSError, EOFError, TimeoutError, BorzoiError)):
            await check(subject)
