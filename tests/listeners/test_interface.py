"""Every transport passes the conformance suite, and the suite finds faults that are put in."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import pytest
from tests.support import listener_conformance as conformance
from tests.support.embedded import EmbeddedServer
from tests.support.listener_conformance import (
    CHECKS,
    MOVING_CHECKS,
    Check,
    Subject,
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
from tests.support.websocket_client import WebSocketFrameClient

from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import Reply
from borzoi.listeners.interface import Detached, Listener
from borzoi.listeners.tcp import TcpConnection, TcpListener
from borzoi.model.errors import BorzoiError
from borzoi.security.certificates import self_signed_context

#: Long enough for a right listener on a busy machine to be told from a faulty one.
IMPATIENCE_SECONDS = 1.0

Transporting = Callable[[EmbeddedServer], AbstractAsyncContextManager[Subject]]


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
        lent_bytes = server.opened.pool.counters().in_use_bytes
        listener = await listeners.enter_async_context(
            tcp_listener(server, admission=limits(), ended=ended, kind=kind)
        )

        async def connect() -> FrameClient:
            return await FrameClient.connect(listener.address)

        subject = Subject(server, listener, connect, ended, patience_seconds, lent_bytes, other)
        async with checked(subject):
            yield subject


@asynccontextmanager
async def secure(server: EmbeddedServer) -> AsyncIterator[Subject]:
    ended: list[Session] = []
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    context = self_signed_context("localhost")
    async with tls_listener(server, context, admission=limits(), ended=ended) as listener:

        async def connect() -> FrameClient:
            return await FrameClient.connect(listener.address, context=trusting)

        subject = Subject(server, listener, connect, ended, PATIENCE_SECONDS, lent_bytes=0)
        async with checked(subject):
            yield subject


@asynccontextmanager
async def websocket(server: EmbeddedServer) -> AsyncIterator[Subject]:
    ended: list[Session] = []
    lent_bytes = server.opened.pool.counters().in_use_bytes
    async with websocket_listener(server, admission=limits(), ended=ended) as listener:

        async def connect() -> FrameClient:
            return await WebSocketFrameClient.open(listener.address)

        subject = Subject(server, listener, connect, ended, PATIENCE_SECONDS, lent_bytes)
        async with checked(subject):
            yield subject


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("transport", [plain, secure, websocket])
async def test_a_transport_conforms(
    server: EmbeddedServer, transport: Transporting, check: Check
) -> None:
    async with transport(server) as subject:
        await check(subject)


@pytest.mark.parametrize("check", MOVING_CHECKS, ids=lambda check: check.__name__)
async def test_connections_of_a_transport_can_move(server: EmbeddedServer, check: Check) -> None:
    async with plain(server) as subject:
        await check(subject)


@pytest.mark.parametrize("transport", [secure, websocket])
async def test_a_connection_with_state_stays_where_it_is(
    server: EmbeddedServer, transport: Transporting
) -> None:
    async with transport(server) as subject:
        client = await subject.client()
        (connection,) = subject.listener.connections
        assert connection.detach() is None
        assert (await client.exchange(b"\4\0\0\0\1\0\0\0"))[0] == 0


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


def listens(listener: Listener) -> Listener:
    return listener


async def test_the_transports_have_the_type_of_the_interface(server: EmbeddedServer) -> None:
    async with plain(server) as first, secure(server) as second:
        assert listens(first.listener) is not listens(second.listener)
