"""The same server behind TLS; both ends on one event loop."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable

import pytest
from tests.support.certificates import trusting
from tests.support.embedded import EmbeddedServer
from tests.support.listening import EVERYTHING, PATIENCE_SECONDS, FrameClient, tls_listener, turns
from tests.support.sends import send_of

from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import failed
from borzoi.listeners.sockets import reason_of
from borzoi.listeners.tls import TlsConnection, TlsListener
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.framing import encode_request
from borzoi.security.certificates import self_signed_context

PING = encode_request(Ping())


async def connected(listener: TlsListener, receive_buffer: int | None = None) -> FrameClient:
    return await FrameClient.connect(
        listener.address, context=trusting(), receive_buffer=receive_buffer
    )


@pytest.fixture(scope="module")
def context() -> ssl.SSLContext:
    return self_signed_context("localhost")


@pytest.fixture
async def listener(server: EmbeddedServer, context: ssl.SSLContext) -> AsyncIterator[TlsListener]:
    async with tls_listener(server, context) as listening:
        yield listening


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


async def gone(listener: TlsListener) -> None:
    await until(lambda: not listener.connections)


def blocked_ones(listener: TlsListener) -> list[TlsConnection]:
    return [
        one
        for one in listener.connections
        if one.conversation is not None and one.conversation.blocked
    ]


async def test_requests_are_answered_in_order_however_they_are_cut(listener: TlsListener) -> None:
    async with await connected(listener) as client:
        await client.login()
        for byte in PING:
            await client.send(bytes([byte]))
            await turns(2)
        assert await client.receive() == (0, b"")
        await client.send(PING * 20 + encode_request(GetMe()) + PING)
        answers = [await client.receive() for _ in range(22)]
        assert [status for status, _ in answers] == [0] * 22
        assert [bool(payload) for _, payload in answers] == [False] * 20 + [True, False]


async def test_a_large_poll_over_several_segments_is_whole(
    listener: TlsListener, topic: None
) -> None:
    sent = [bytes([65 + number]) * 300_000 for number in range(20)]
    async with await connected(listener) as client:
        await client.login()
        assert await client.through(*sent) == sent


async def test_a_slow_reader_costs_little_memory_and_blocks_nobody(
    listener: TlsListener, topic: None
) -> None:
    async with (
        await connected(listener, receive_buffer=8192) as slow,
        await connected(listener) as other,
    ):
        await slow.login()
        await other.login()
        for number in range(20):
            await other.call(send_of(bytes([65 + number]) * 300_000))
        slow.writer.write(encode_request(EVERYTHING) * 3)
        for _ in range(30):
            await other.call(Ping())
        # Answering others does not tell how far it came with the slow one.
        await until(lambda: bool(blocked_ones(listener)))
        (blocked,) = blocked_ones(listener)
        assert blocked._transport is not None
        assert blocked._transport.get_write_buffer_size() < 2_000_000
        for _ in range(3):
            status, payload = await slow.receive()
            assert (status, len(payload) > 6_000_000) == (0, True)


async def test_half_a_frame_is_given_up_after_a_while_and_not_before(listener: TlsListener) -> None:
    async with await connected(listener) as client:
        assert await client.exchange(PING) == (0, b"")
        listener.give_up_stalled(listener.loop.time() + 1000)
        begun = listener.loop.time()
        await client.send(PING[:5])
        (connection,) = listener.connections
        await until(
            lambda: connection.conversation is not None and connection.conversation.inside_frame
        )
        listener.give_up_stalled(begun)
        assert listener.connections
        listener.give_up_stalled(listener.loop.time() + 1)
        assert await client.rest() == b""
    await gone(listener)


async def test_connections_are_limited(server: EmbeddedServer, context: ssl.SSLContext) -> None:
    async with tls_listener(server, context, admission=Admission(1, 1)) as listener:
        async with await connected(listener) as only:
            assert await only.exchange(PING) == (0, b"")
            answered = True
            try:
                async with await connected(listener) as another:
                    await another.exchange(PING)
            except (ConnectionError, asyncio.IncompleteReadError):
                answered = False
            assert not answered
            assert len(listener.connections) == 1


async def test_a_session_ends_with_its_connection_and_by_hanging_up(
    server: EmbeddedServer, listener: TlsListener
) -> None:
    async with await connected(listener) as client:
        assert await client.exchange(PING) == (0, b"")
        (session,) = server.services.sessions
        session.hang_up()
        assert await client.rest() == b""
    await gone(listener)
    assert len(server.services.sessions) == 0


async def test_a_farewell_is_the_last_that_everyone_hears(listener: TlsListener) -> None:
    async with await connected(listener) as client:
        assert await client.exchange(PING) == (0, b"")
        listener.stop_accepting()
        listener.say_goodbye(failed(8))
        assert await client.rest() == failed(8)


async def test_who_does_not_speak_tls_is_not_answered(listener: TlsListener) -> None:
    async with await FrameClient.connect(listener.address) as client:
        await client.send(PING * 10)
        answer = await client.rest()
        assert answer[:8] != bytes(8)
    await gone(listener)


async def test_a_handshake_counts_as_a_connection(
    server: EmbeddedServer, context: ssl.SSLContext
) -> None:
    async with tls_listener(server, context, admission=Admission(2, 2)) as listener:
        silent = [await FrameClient.connect(listener.address) for _ in range(2)]
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await connected(listener)
        for one in silent:
            await one.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    async with await connected(listener) as client:
                        assert await client.exchange(PING) == (0, b"")
                        return
                except (ConnectionError, asyncio.IncompleteReadError):
                    await turns(1)


async def test_an_answer_that_was_not_taken_is_not_kept(listener: TlsListener, topic: None) -> None:
    client = await connected(listener, receive_buffer=8192)
    await client.login()
    for number in range(20):
        await client.call(send_of(bytes([65 + number]) * 300_000))
    client.writer.write(encode_request(EVERYTHING) * 3)
    await until(lambda: bool(blocked_ones(listener)))
    (blocked,) = blocked_ones(listener)
    assert blocked._outgoing
    client.writer.transport.abort()
    await gone(listener)
    assert not blocked._outgoing
    assert blocked._transport is None
    await client.close()


def test_the_reason_of_a_failed_handshake_is_never_empty() -> None:
    assert reason_of(ConnectionResetError()) == "ConnectionResetError"
    assert reason_of(OSError("wrong version number")) == "wrong version number"


async def test_a_port_probe_is_not_worth_a_line(
    listener: TlsListener, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "borzoi")
    async with await FrameClient.connect(listener.address):
        pass
    await until(lambda: not listener._handshakes)
    assert "handshake" not in caplog.text
