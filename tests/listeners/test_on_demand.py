"""The listener behind it is made by the first client, of which nothing is lost."""

import asyncio
import socket

import pytest
from tests.support.embedded import EmbeddedServer
from tests.support.http_calls import app_of, said
from tests.support.quic_client import made_listener, quic_client

from borzoi.listeners.admission import Admission
from borzoi.listeners.http.listener import HttpListener
from borzoi.listeners.interface import Listener
from borzoi.listeners.on_demand import OnDemandListener, datagram_socket
from borzoi.listeners.quic import QuicListener
from borzoi.listeners.sockets import listening_socket
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.framing import encode_request

LOOPBACK = ("127.0.0.1", 0)
PING = encode_request(Ping())
LAST_PING = b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def made_http(server: EmbeddedServer, sock: socket.socket) -> HttpListener:
    admission = Admission(1, 1)
    return HttpListener(
        sock, app_of(server), admission=admission, context=None, stopping=asyncio.Event()
    )


async def test_the_first_client_makes_the_listener(server: EmbeddedServer) -> None:
    made: list[QuicListener] = []

    async def make(sock: socket.socket) -> Listener:
        listener = made_listener(server)
        await listener.start(sock)
        made.append(listener)
        return listener

    door = OnDemandListener(datagram_socket(LOOPBACK), make)
    await asyncio.sleep(0)
    assert (made, list(door.connections)) == ([], [])
    async with quic_client(door.address) as client:
        assert await client.exchange(PING) == bytes(8)
        assert len(made) == len(door.connections) == 1
        door.give_up_stalled(0)
        door.say_goodbye(b"")
    door.close()
    await asyncio.sleep(0)


async def test_a_stop_while_the_listener_is_made_lets_nobody_in(server: EmbeddedServer) -> None:
    may_go_on = asyncio.Event()

    async def make(sock: socket.socket) -> Listener:
        await may_go_on.wait()
        return made_http(server, sock)

    door = OnDemandListener(listening_socket(LOOPBACK), make)
    early = asyncio.create_task(said(door.address, LAST_PING))
    async with asyncio.timeout(10):
        while door._making is None:
            await asyncio.sleep(0.001)
        door.stop_accepting()
        may_go_on.set()
        assert await early == b""
        with pytest.raises(OSError):
            await asyncio.open_connection(*door.address)
    door.close()


async def test_the_first_connection_makes_the_listener(server: EmbeddedServer) -> None:
    async def make(sock: socket.socket) -> Listener:
        return made_http(server, sock)

    door = OnDemandListener(listening_socket(LOOPBACK), make)
    for _ in range(2):
        assert (await said(door.address, LAST_PING)).endswith(b"pong")
    door.close()
    await asyncio.sleep(0)


async def test_who_is_never_called_is_never_made() -> None:
    async def make(sock: socket.socket) -> Listener:
        raise AssertionError

    door = OnDemandListener(datagram_socket(LOOPBACK), make)
    door.say_goodbye(b"")
    door.give_up_stalled(0)
    door.close()
    door.close()


async def test_a_listener_that_cannot_be_made_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def make(sock: socket.socket) -> Listener:
        raise OSError("no certificate")

    door = OnDemandListener(datagram_socket(LOOPBACK), make)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"x", door.address)
        async with asyncio.timeout(10):
            while "could not listen" not in caplog.text:
                await asyncio.sleep(0.001)
    door.close()
    await asyncio.sleep(0)
