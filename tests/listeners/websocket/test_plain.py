"""WebSockets over real sockets, with a third-party client."""

import asyncio
import random
import socket

import pytest
from tests.support.embedded import EmbeddedServer, with_topic
from tests.support.listening import FrameClient, turns, websocket_listener
from tests.support.polls import poll_of
from tests.support.sends import numbered_send
from tests.support.websocket_client import called, opened, received
from tests.support.wire_client import answer_in_frame
from websockets.exceptions import ConnectionClosed, InvalidMessage
from websockets.frames import Frame, Opcode

from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import failed
from borzoi.listeners.websocket import plain
from borzoi.model.consuming import PollingStrategy
from borzoi.model.errors import Unauthenticated
from borzoi.model.system import TransportKind
from borzoi.protocol.commands.streams import GetStreams
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.protocol.framing import encode_request
from borzoi.protocol.websocket.frames import Limits
from borzoi.records.message import decode_messages

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
PING = encode_request(Ping())


def masked(data: bytes, *, final: bool = True, opcode: Opcode = Opcode.BINARY) -> bytes:
    return Frame(opcode, data, final).serialize(mask=True)


async def upgraded(address: tuple[str, int]) -> FrameClient:
    client = await FrameClient.connect(address)
    await client.send(UPGRADE)
    answer = await client.reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 101 ")
    return client


async def test_requests_are_answered_one_message_each(server: EmbeddedServer) -> None:
    async with websocket_listener(server) as listener, opened(listener.address) as client:
        with pytest.raises(Unauthenticated):
            await called(client, GetStreams())
    async with (
        websocket_listener(server) as listener,
        opened(listener.address, login=True) as client,
    ):
        me = await called(client, GetMe())
        assert me.transport is TransportKind.WEBSOCKET
        assert len(server.services.sessions) == 1


@pytest.mark.parametrize(("count", "size"), [(1, 1), (100, 200), (1000, 1000), (3, 900_000)])
async def test_messages_go_in_and_come_out_as_they_were(
    server: EmbeddedServer, count: int, size: int
) -> None:
    await with_topic(server)
    async with (
        websocket_listener(server) as listener,
        opened(listener.address, login=True) as client,
    ):
        await called(client, numbered_send(count, size))
        polled = await called(client, poll_of(count, strategy=PollingStrategy.offset(0)))
        payloads = [message.payload for message in decode_messages(polled.messages)]
        assert payloads == [bytes([n % 256]) * size for n in range(count)]


async def test_any_split_of_the_stream_is_understood(server: EmbeddedServer) -> None:
    await with_topic(server)
    dice = random.Random(1)
    async with (
        websocket_listener(server) as listener,
        opened(listener.address, login=True) as client,
    ):
        for _ in range(20):
            stream = PING + encode_request(numbered_send(50, dice.randrange(1, 5000))) + PING
            cuts = sorted(dice.sample(range(1, len(stream)), dice.randrange(0, 8)))
            for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
                await client.send(stream[start:end])
            for _ in range(3):
                assert await received(client) == bytes(8)


async def test_fragments_of_one_message_are_understood_byte_by_byte(server: EmbeddedServer) -> None:
    async with websocket_listener(server) as listener:
        client = await upgraded(listener.address)
        fragments = masked(PING[:3], final=False) + masked(b"hm", opcode=Opcode.PING)
        fragments += masked(PING[3:], opcode=Opcode.CONT)
        for position in range(len(fragments)):
            await client.send(fragments[position : position + 1])
        assert await client.reader.readexactly(4) == b"\x8a\x02hm"
        assert await client.reader.readexactly(10) == b"\x82\x08" + bytes(8)
        await client.close()


async def test_what_comes_with_the_handshake_is_not_lost(server: EmbeddedServer) -> None:
    async with websocket_listener(server) as listener:
        client = await FrameClient.connect(listener.address)
        await client.send(UPGRADE + masked(PING))
        await client.reader.readuntil(b"\r\n\r\n")
        assert await client.reader.readexactly(10) == b"\x82\x08" + bytes(8)
        await client.close()


async def test_pings_are_answered_and_texts_ignored(server: EmbeddedServer) -> None:
    async with websocket_listener(server) as listener, opened(listener.address) as client:
        async with asyncio.timeout(10):
            await (await client.ping(b"are you there?"))
        await client.send("a text is no request")
        assert await called(client, Ping()) is None


async def test_a_close_is_answered_and_ends_the_session(server: EmbeddedServer) -> None:
    ended: list[Session] = []
    async with websocket_listener(server, ended=ended) as listener:
        async with opened(listener.address) as client:
            await called(client, Ping())
            await client.close(4321, "enough")
            assert (client.close_code, client.protocol.close_rcvd.code) == (4321, 4321)  # type: ignore[union-attr]
        await gone(listener)
        assert len(ended) == 1
        assert len(server.services.sessions) == 0


async def gone(listener: object) -> None:
    async with asyncio.timeout(10):
        while listener.connections:  # type: ignore[attr-defined]
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (masked(bytes(61)), 1009),
        (masked(bytes(60), final=False) + masked(bytes(50), opcode=Opcode.CONT), 1009),
        (Frame(Opcode.BINARY, b"x").serialize(mask=False), 1002),
        (b"\xff\xff", 1002),
    ],
    ids=["frame", "message", "not masked", "reserved"],
)
async def test_frames_over_the_limits_close_with_their_code(
    server: EmbeddedServer, data: bytes, code: int
) -> None:
    limits = Limits(message_bytes_max=100, frame_bytes_max=60)
    before = server.opened.pool.counters().in_use_bytes
    async with websocket_listener(server, limits=limits) as listener:
        client = await upgraded(listener.address)
        await client.send(data)
        assert (await client.rest()).endswith(b"\x88\x02" + code.to_bytes(2, "big"))
        await client.close()
        await gone(listener)
    assert server.opened.pool.counters().in_use_bytes == before


async def test_a_large_frame_of_a_stranger_is_not_held(server: EmbeddedServer) -> None:
    """An unauthenticated client may not send it; it is answered and discarded."""
    async with websocket_listener(server) as listener, opened(listener.address) as client:
        used = server.opened.pool.counters().in_use_bytes
        await client.send(encode_request(numbered_send(1000, 1000)))
        with pytest.raises(Unauthenticated):
            answer_in_frame(await received(client), Ping())
        assert server.opened.pool.counters().in_use_bytes == used
        assert await called(client, Ping()) is None


async def test_what_asks_for_no_websocket_gets_an_answer_of_http(server: EmbeddedServer) -> None:
    async with websocket_listener(server) as listener:
        client = await FrameClient.connect(listener.address)
        await client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 426 ")
        await client.close()
        await gone(listener)
        assert len(server.services.sessions) == 0


async def test_a_handshake_that_is_not_made_is_given_up(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "HANDSHAKE_SECONDS_MAX", 0.05)
    async with websocket_listener(server) as listener:
        client = await FrameClient.connect(listener.address)
        await client.send(UPGRADE[:30])
        assert await client.rest() == b""
        await client.close()


async def test_a_stop_is_told_and_then_closed(server: EmbeddedServer) -> None:
    async with websocket_listener(server) as listener:
        async with opened(listener.address) as client:
            await called(client, Ping())
            unopened = await FrameClient.connect(listener.address)
            await turns(5)
            listener.stop_accepting()
            listener.say_goodbye(failed(8))
            assert await received(client) == failed(8)
            with pytest.raises(ConnectionClosed):
                await received(client)
            assert client.close_code == 1001
            assert await unopened.rest() == b""
            await unopened.close()


async def test_connections_count_for_the_one_limit_there_is(server: EmbeddedServer) -> None:
    admission = Admission(1, 1)
    async with websocket_listener(server, admission=admission) as listener:
        async with opened(listener.address) as client:
            await called(client, Ping())
            with pytest.raises((OSError, InvalidMessage)):
                async with opened(listener.address):
                    pass
        await gone(listener)
        async with opened(listener.address) as client:
            await called(client, Ping())


async def test_a_frame_that_stops_half_way_is_given_up(server: EmbeddedServer) -> None:
    async with websocket_listener(server) as listener:
        client = await upgraded(listener.address)
        await client.send(masked(PING)[:9])
        listener.give_up_stalled(before=0)
        assert listener.connections
        # Nothing is stalled until the half frame arrives.
        async with asyncio.timeout(10):
            while listener.connections:
                listener.give_up_stalled(before=asyncio.get_running_loop().time() + 1)
                await asyncio.sleep(0.001)
        await client.close()


async def test_a_client_that_takes_nothing_is_not_read_from(server: EmbeddedServer) -> None:
    """Pongs for any number of pings would fill the memory."""
    async with websocket_listener(server) as listener:
        client = await FrameClient.connect(listener.address, receive_buffer=4096)
        await client.send(UPGRADE)
        await client.reader.readuntil(b"\r\n\r\n")
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        pings = masked(bytes(125), opcode=Opcode.PING) * 400
        sock = client.writer.get_extra_info("socket")
        sent = 0
        for _ in range(2000):
            try:
                sent += socket.socket.send(sock._sock, pings)
            except BlockingIOError:
                await asyncio.sleep(0.001)
        assert sent < 64 << 20
        (connection,) = listener.connections
        assert len(connection._outgoing or ()) < 2000
        await client.close()
