"""The same over TLS: what differs is where the bytes come from and go to."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest
from tests.support.certificates import trusting
from tests.support.embedded import EmbeddedServer, with_topic
from tests.support.listening import FrameClient, turns, websocket_listener
from tests.support.polls import poll_of
from tests.support.sends import numbered_send
from tests.support.websocket_client import called, opened, received
from websockets.exceptions import ConnectionClosed

from borzoi.listeners.binary import failed
from borzoi.listeners.interface import Listener
from borzoi.listeners.websocket import secure
from borzoi.model.system import TransportKind
from borzoi.protocol.commands.system import GetMe, Ping
from borzoi.records.message import decode_messages
from borzoi.security.certificates import self_signed_context


@pytest.fixture(scope="module")
def context() -> ssl.SSLContext:
    return self_signed_context("localhost")


@pytest.fixture
async def listener(server: EmbeddedServer, context: ssl.SSLContext) -> AsyncIterator[Listener]:
    async with websocket_listener(server, context=context) as made:
        yield made


@pytest.mark.parametrize(("count", "size"), [(1, 1), (1000, 1000)])
async def test_messages_go_in_and_come_out_as_they_were(
    server: EmbeddedServer, listener: Listener, count: int, size: int
) -> None:
    await with_topic(server)
    send = numbered_send(count, size)
    async with opened(listener.address, login=True, context=trusting()) as client:
        assert (await called(client, GetMe())).transport is TransportKind.WEBSOCKET
        await called(client, send)
        polled = await called(client, poll_of(count))
        payloads = [message.payload for message in decode_messages(polled.messages)]
        assert payloads == [bytes([n % 256]) * size for n in range(count)]


async def test_a_stop_is_told_and_then_closed(listener: Listener) -> None:
    async with opened(listener.address, context=trusting()) as client:
        await called(client, Ping())
        listener.say_goodbye(failed(8))
        assert await received(client) == failed(8)
        with pytest.raises(ConnectionClosed):
            await received(client)
        assert client.close_code == 1001


async def test_a_close_ends_the_session(server: EmbeddedServer, listener: Listener) -> None:
    async with opened(listener.address, context=trusting()) as client:
        async with asyncio.timeout(10):
            await (await client.ping())
        assert len(server.services.sessions) == 1
    async with asyncio.timeout(10):
        while len(server.services.sessions):
            await asyncio.sleep(0.001)


async def test_a_handshake_that_is_not_made_is_given_up(
    server: EmbeddedServer, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure, "HANDSHAKE_SECONDS_MAX", 0.05)
    client = await FrameClient.connect(listener.address, context=trusting())
    await client.send(b"GET / HTTP/1.1\r\n")
    assert await client.rest() == b""
    await client.close()
    await turns(5)
    assert not listener.connections
    assert len(server.services.sessions) == 0


async def test_a_frame_that_stops_half_way_is_given_up(listener: Listener) -> None:
    async with opened(listener.address, context=trusting()) as client:
        await called(client, Ping())
        moment = asyncio.get_running_loop().time() + 1
        listener.give_up_stalled(before=moment)
        assert listener.connections  # it is between two frames
        client.transport.write(b"\x82")
        async with asyncio.timeout(10):
            while listener.connections:
                listener.give_up_stalled(before=asyncio.get_running_loop().time() + 1)
                await asyncio.sleep(0.001)
