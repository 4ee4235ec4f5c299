"""QUIC with the client of the library: a stream for each request."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.support.embedded import EmbeddedServer, with_topic
from tests.support.polls import poll_of
from tests.support.quic_client import QuicClient, quic_client, quic_listener
from tests.support.sends import numbered_send
from tests.support.wire_client import answer_in_frame

from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.quic import QuicListener
from borzoi.model.errors import StreamNotFound, Unauthenticated
from borzoi.model.system import TransportKind
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.streams import GetStreams
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.commands.users import CreateUser
from borzoi.protocol.errors import code_of
from borzoi.protocol.framing import REQUEST_PREFIX, RESPONSE_PREFIX, encode_request
from borzoi.records.message import decode_messages

PING = encode_request(Ping())
#: The library allows a client this many at a time.
STREAMS = 100


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def logged_in(server: EmbeddedServer) -> AsyncIterator[tuple[QuicListener, QuicClient]]:
    """A listener and a client of it."""
    async with (
        quic_listener(server) as listener,
        quic_client(listener.address, login=True) as client,
    ):
        yield listener, client


async def test_a_connection_is_a_session(server: EmbeddedServer) -> None:
    ended: list[Session] = []
    async with quic_listener(server, ended=ended) as listener:
        async with quic_client(listener.address) as client:
            with pytest.raises(Unauthenticated):
                await client.call(GetStreams())
        async with quic_client(listener.address, login=True) as client:
            me = await client.call(GetMe())
            assert me.transport is TransportKind.QUIC
        await until(lambda: len(ended) == 2 and not listener.connections)
        assert len(server.services.sessions) == 0


@pytest.mark.parametrize(("count", "size"), [(1, 1), (1000, 1000), (2, 900_000)])
async def test_messages_go_in_and_come_out_as_they_were(
    server: EmbeddedServer, count: int, size: int
) -> None:
    await with_topic(server)
    async with logged_in(server) as (_, client):
        await client.call(numbered_send(count, size))
        polled = await client.call(poll_of(count))
        payloads = [message.payload for message in decode_messages(polled.messages)]
        assert payloads == [bytes([n % 256]) * size for n in range(count)]


def may_open(quic: Any, count: int) -> bool:
    """Whether the client may open this many streams in all, including finished ones."""
    return bool(quic.max_concurrent_bidi_streams >= count)


async def test_many_streams_at_once(server: EmbeddedServer) -> None:
    await with_topic(server)
    async with logged_in(server) as (_, client):
        quic = client.protocol._quic
        for number in range(4):
            # The client's library does not wait until it may open more, so we do.
            await until(partial(may_open, quic, 1 + (number + 1) * STREAMS))
            await asyncio.gather(*(client.call(numbered_send(1, 100)) for _ in range(STREAMS)))
        await until(partial(may_open, quic, 2 + 4 * STREAMS))
        polled = await client.call(poll_of(1000))
        assert polled.messages_count == 4 * STREAMS


async def test_only_the_first_frame_is_answered_and_no_end_is_needed(
    server: EmbeddedServer,
) -> None:
    async with quic_listener(server) as listener, quic_client(listener.address) as client:
        assert await client.exchange(PING + PING, end=False) == bytes(8)
        reader, writer = await client.protocol.create_stream()
        writer.write(PING)
        assert await reader.read() == bytes(8)
        writer.write(PING)
        writer.write_eof()
        assert await client.exchange(PING) == bytes(8)
        (connection,) = listener.connections
        assert connection._receiving.streams == {}
        writer.close()


async def test_the_end_of_a_request_may_come_after_its_answer_has_begun(
    server: EmbeddedServer,
) -> None:
    await with_topic(server)
    async with logged_in(server) as (_, client):
        await client.call(numbered_send(2, 900_000))
        reader, writer = await client.protocol.create_stream()
        writer.write(encode_request(poll_of(2)))
        answer = await reader.readexactly(1000)
        writer.write_eof()
        answer += await reader.read()
        assert answer_in_frame(answer, poll_of(2)).messages_count == 2


@pytest.mark.parametrize(
    ("frame", "status"),
    [
        (REQUEST_PREFIX.pack(3, 1), 3),
        (REQUEST_PREFIX.pack(4 + (11 << 20), int(Code.PING)), 3),
        (REQUEST_PREFIX.pack(4 + (1 << 20), int(Code.SEND_MESSAGES)), 40),
        (REQUEST_PREFIX.pack(4, 99_999), 3),
    ],
)
async def test_what_is_too_large_is_refused_without_being_held(
    server: EmbeddedServer, frame: bytes, status: int
) -> None:
    async with quic_listener(server) as listener, quic_client(listener.address) as client:
        answer = await client.exchange(frame, end=False)
        assert answer == status.to_bytes(4, "little") + bytes(4)
        assert await client.exchange(PING) == bytes(8)


async def test_a_stream_that_ends_too_early_is_reset_and_the_others_go_on(
    server: EmbeddedServer,
) -> None:
    async with quic_listener(server) as listener, quic_client(listener.address) as client:
        with pytest.raises(ConnectionResetError):
            await client.exchange(PING[:5])
        assert await client.exchange(PING) == bytes(8)
        (connection,) = listener.connections
        assert connection._receiving.streams == {}
        assert connection._receiving._unfinished_bytes == 0


async def test_a_large_frame_that_ends_too_early_gives_its_memory_back(
    server: EmbeddedServer,
) -> None:
    async with logged_in(server) as (_, client):
        with pytest.raises(ConnectionResetError):
            await client.exchange(REQUEST_PREFIX.pack(4 + 800_000, int(Code.PING)) + bytes(1000))
        assert server.binary.unfinished.in_use == 0
        assert await client.exchange(PING) == bytes(8)


async def test_a_client_that_does_not_read_its_answer_is_given_up(server: EmbeddedServer) -> None:
    """Nothing of the answer moves any more, long before the idle timeout."""
    await with_topic(server)
    async with logged_in(server) as (listener, client):
        await client.call(numbered_send(2, 900_000))
        (connection,) = listener.connections
        listener.give_up_stalled(asyncio.get_running_loop().time() + 1)
        assert listener.connections
        client.protocol.datagram_received = lambda *datagram: None  # type: ignore[method-assign]
        _, writer = await client.protocol.create_stream()
        writer.write(encode_request(poll_of(2)))
        await until(lambda: not connection._sending.is_done)
        listener.give_up_stalled(before=0)
        assert listener.connections
        await until(lambda: given_up(listener))
        writer.close()


def given_up(listener: QuicListener) -> bool:
    listener.give_up_stalled(asyncio.get_running_loop().time() + 1)
    return not listener.connections


async def test_a_stream_that_is_reset_leaves_nothing_behind(server: EmbeddedServer) -> None:
    async with logged_in(server) as (listener, client):
        _, writer = await client.protocol.create_stream()
        writer.write(PING[:6])
        (connection,) = listener.connections
        await until(lambda: bool(connection._receiving.streams))
        client.protocol._quic.reset_stream(writer.get_extra_info("stream_id"), 7)
        client.protocol.transmit()
        await until(lambda: not connection._receiving.streams)
        assert connection._receiving._unfinished_bytes == 0
        assert await client.exchange(PING) == bytes(8)
        writer.close()


async def test_a_request_that_runs_is_abandoned_with_its_stream(server: EmbeddedServer) -> None:
    await with_topic(server)
    async with logged_in(server) as (_, client):
        waiting = msgspec.structs.replace(poll_of(1), wait_ms=60_000)
        _, writer = await client.protocol.create_stream()
        writer.write(encode_request(waiting))
        client.protocol.transmit()
        await until(lambda: server.dispatcher.pending().polls == 1)
        client.protocol._quic.reset_stream(writer.get_extra_info("stream_id"), 7)
        client.protocol.transmit()
        await until(lambda: server.dispatcher.pending().polls == 0)
        assert await client.exchange(PING) == bytes(8)
        writer.close()


async def test_who_stops_reading_half_way_harms_nobody(server: EmbeddedServer) -> None:
    await with_topic(server)
    async with logged_in(server) as (listener, client):
        await client.call(numbered_send(1000, 2000))
        (connection,) = listener.connections
        quic = client.protocol._quic
        for _ in range(10):
            reader, writer = await client.protocol.create_stream()
            writer.write(encode_request(poll_of(1000)))
            assert await reader.read(1000)  # its answer has begun
            quic.stop_stream(writer.get_extra_info("stream_id"), 7)
            writer.close()
            client.protocol.transmit()
        # Data of a refused stream is not kept.
        await until(lambda: connection._quic.get_send_buffer_size() == 0)
        polled = await client.call(poll_of(1000))
        assert polled.messages_count == 1000


async def test_half_a_frame_is_forgotten_with_its_connection(server: EmbeddedServer) -> None:
    ended: list[Session] = []
    # Its topic is there: a large send to nowhere is refused before all of it has come.
    await with_topic(server)
    frame = encode_request(numbered_send(1000, 100))
    async with quic_listener(server, ended=ended) as listener:
        async with quic_client(listener.address, login=True) as client:
            writers = [(await client.protocol.create_stream())[1] for _ in range(20)]
            for writer in writers:
                writer.write(frame[: len(frame) // 2])
            (connection,) = listener.connections
            await until(lambda: connection._receiving._unfinished_bytes == 20 * (len(frame) // 2))
        await until(lambda: len(ended) == 1)
        assert connection._receiving._unfinished_bytes == 0
        assert not connection._receiving.streams
        for writer in writers:
            writer.close()


async def test_the_rest_of_a_refused_send_is_no_new_request(server: EmbeddedServer) -> None:
    frame = encode_request(numbered_send(1000, 100))
    async with logged_in(server) as (listener, client):
        reader, writer = await client.protocol.create_stream()
        (connection,) = listener.connections
        writer.write(frame[:70_000])
        await until(lambda: len(connection._receiving._unread) == 1)
        writer.write(frame[70_000:])
        writer.write_eof()
        answer = await reader.read()
        assert RESPONSE_PREFIX.unpack(answer) == (code_of(StreamNotFound("")), 0)
        await until(lambda: not connection._receiving._unread)
        assert await client.exchange(PING) == bytes(8)


async def test_a_client_that_offers_a_protocol_is_served_without_one(
    server: EmbeddedServer,
) -> None:
    """The published server refuses it; see the deliberate differences."""
    async with (
        quic_listener(server) as listener,
        quic_client(listener.address, alpn=["h3"]) as client,
    ):
        assert await client.exchange(PING) == bytes(8)


async def refused(address: tuple[str, int]) -> bool:
    try:
        async with quic_client(address) as client, asyncio.timeout(2):
            return await client.exchange(PING) != bytes(8)
    except (ConnectionError, TimeoutError):
        return True


async def test_connections_count_for_the_one_limit_there_is(server: EmbeddedServer) -> None:
    async with quic_listener(server, admission=Admission(1, 1)) as listener:
        async with quic_client(listener.address) as client:
            assert await client.exchange(PING) == bytes(8)
            assert await refused(listener.address)
        await until(lambda: not listener.connections)
        async with quic_client(listener.address) as client:
            assert await client.exchange(PING) == bytes(8)


async def test_a_stop_lets_running_requests_end(server: EmbeddedServer) -> None:
    async with logged_in(server) as (listener, client):
        running = asyncio.create_task(client.call(CreateUser("bob", "secret")))
        await until(lambda: server.dispatcher.waiting == 1)
        listener.stop_accepting()
        listener.say_goodbye(b"")
        assert (await running).username == "bob"
        await until(lambda: not listener.connections)


async def test_a_silent_peer_is_gone_after_the_idle_timeout(server: EmbeddedServer) -> None:
    ended: list[Session] = []
    async with quic_listener(
        server, ended=ended, idle_seconds=0.3, keep_alive_seconds=0
    ) as listener:
        async with quic_client(listener.address) as client:
            assert await client.exchange(PING) == bytes(8)
            await until(lambda: len(ended) == 1)
            assert not listener.connections
