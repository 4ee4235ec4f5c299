"""Connections: what HTTP says about bad ones, and how they end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.support.certificates import trusting
from tests.support.embedded import EmbeddedServer
from tests.support.http_calls import app_of, http_listener, said
from tests.support.listening import LOOPBACK, PLENTY, turns

from borzoi.listeners.admission import Admission
from borzoi.listeners.http import listener as listener_module
from borzoi.listeners.http.listener import HEAD_BYTES_MAX, PARSED_BYTES, HttpListener
from borzoi.listeners.sockets import listening_socket
from borzoi.security.certificates import self_signed_context

PING = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_PING = b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def gone(listener: HttpListener) -> None:
    async with asyncio.timeout(10):
        while listener.connections:
            await asyncio.sleep(0.001)


async def test_a_connection_is_kept_for_the_next_call(server: EmbeddedServer) -> None:
    async with http_listener(server) as listener:
        reader, writer = await asyncio.open_connection(*listener.address)
        for _ in range(3):
            writer.write(PING)
            answer = await reader.readuntil(b"pong")
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
        await gone(listener)


async def test_an_answer_without_a_body_is_sent(server: EmbeddedServer) -> None:
    async with http_listener(server) as listener:
        for call in (PING.replace(b"GET", b"HEAD"), PING.replace(b"/ping", b"/nowhere")):
            last = LAST_PING.replace(b"GET", b"HEAD")
            answer = await said(listener.address, call + last)
            assert answer.count(b"HTTP/1.1 ") == 2
            assert answer.endswith(b"\r\n\r\n")


async def test_calls_that_come_together_are_answered_in_order(server: EmbeddedServer) -> None:
    async with http_listener(server) as listener:
        calls = (
            PING + b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + b"GET /nope HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        answer = await said(listener.address, calls + LAST_PING)
        assert [line for line in answer.split(b"\r\n") if b"HTTP/1.1" in line] == [
            b"HTTP/1.1 200 OK",
            b"pongHTTP/1.1 200 OK",
            b"Iggy APIHTTP/1.1 401 Unauthorized",
            b"HTTP/1.1 200 OK",
        ]
        assert answer.endswith(b"pong")


async def test_calls_that_have_to_wait_are_not_piled_up(server: EmbeddedServer) -> None:
    """A client that asks far ahead is read from when its turn comes; a call that waits takes
    kilobytes, and it may have sent any number of them."""
    count = 20_000
    async with http_listener(server) as listener:
        reader, writer = await asyncio.open_connection(*listener.address)
        connection = await anext(connected(listener))
        waiting: list[int] = []
        app = listener.config.loaded_app

        async def watched(*call: Any) -> None:
            waiting.append(len(connection.pipeline))
            await app(*call)

        connection.app = watched
        writer.write(PING * count)
        async with asyncio.timeout(300):
            for _ in range(count):
                await reader.readuntil(b"pong")
        assert len(waiting) == count
        assert max(waiting) <= PARSED_BYTES // len(PING) + 1
        writer.close()
        await gone(listener)


async def connected(listener: HttpListener) -> AsyncIterator[Any]:
    """The connections, once there are some."""
    while not listener.connections:
        await asyncio.sleep(0.001)
    for connection in listener.connections:
        yield connection


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /ping HTTP/9.9\r\n\r\n", 400),
        (b"GET /ping HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"POST /users/login HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET http://[/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /" + b"x" * HEAD_BYTES_MAX + b" HTTP/1.1\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (HEAD_BYTES_MAX // 6 + 1), 431),
    ],
)
async def test_what_is_no_call_is_refused(server: EmbeddedServer, data: bytes, status: int) -> None:
    async with http_listener(server) as listener:
        answer = await said(listener.address, data)
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
        await gone(listener)


async def test_a_call_cut_short_leaves_nothing_behind(server: EmbeddedServer) -> None:
    async with http_listener(server) as listener:
        for data in (
            b"",
            b"GET /pi",
            b"POST /users/login HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
            b"POST /users/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        ):
            _reader, writer = await asyncio.open_connection(*listener.address)
            writer.write(data)
            await turns(3)
            writer.close()
            await gone(listener)
        async with asyncio.timeout(10):
            while listener.state.tasks:
                await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET /pi",
        b"POST /users/login HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    ],
)
async def test_a_call_that_stops_half_way_is_given_up(server: EmbeddedServer, data: bytes) -> None:
    async with http_listener(server) as listener:
        _reader, writer = await asyncio.open_connection(*listener.address)
        writer.write(data)
        async with asyncio.timeout(10):
            while not listener.connections:
                await asyncio.sleep(0.001)
            (connection,) = listener.connections
            while data and connection._head_bytes == 0:
                await asyncio.sleep(0.001)
        listener.give_up_stalled(before=0)
        await turns(5)
        assert listener.connections
        listener.give_up_stalled(before=asyncio.get_running_loop().time() + 1)
        await gone(listener)
        writer.close()


async def test_a_connection_between_two_calls_is_not_stalled(server: EmbeddedServer) -> None:
    async with http_listener(server) as listener:
        reader, writer = await asyncio.open_connection(*listener.address)
        writer.write(PING)
        await reader.readuntil(b"pong")
        await turns(5)
        listener.give_up_stalled(before=asyncio.get_running_loop().time() + 1)
        await turns(5)
        assert listener.connections
        writer.close()
        await gone(listener)


async def test_a_body_is_asked_for_before_it_is_sent(server: EmbeddedServer) -> None:
    async with http_listener(server) as listener:
        reader, writer = await asyncio.open_connection(*listener.address)
        body = b'{"username":"iggy","password":"iggy"}'
        writer.write(
            b"POST /users/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        writer.close()


async def test_an_upload_that_is_too_large_is_told_not_reset(server: EmbeddedServer) -> None:
    async with http_listener(server) as listener:
        body = b"x" * 3_000_000
        answer = await said(
            listener.address,
            b"POST /users/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body,
        )
        assert answer.startswith(b"HTTP/1.1 413 ")
        await gone(listener)


async def test_connections_count_for_the_one_limit_there_is(server: EmbeddedServer) -> None:
    async with http_listener(server, admission=Admission(1, 1)) as listener:
        reader, writer = await asyncio.open_connection(*listener.address)
        writer.write(PING)
        await reader.readuntil(b"pong")
        assert await said(listener.address, LAST_PING) == b""
        writer.close()
        await gone(listener)
        await turns(3)
        assert (await said(listener.address, LAST_PING)).endswith(b"pong")


async def test_a_stop_lets_running_calls_end(server: EmbeddedServer) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def app(scope, receive, send) -> None:
        begun.set()
        await go_on.wait()
        await app_of(server)(scope, receive, send)

    async with http_listener(server, app=app) as listener:
        idle = await asyncio.open_connection(*listener.address)
        busy = asyncio.create_task(said(listener.address, PING))
        await begun.wait()
        listener.stop_accepting()
        listener.say_goodbye(b"")
        assert await idle[0].read() == b""
        idle[1].close()
        go_on.set()
        assert (await busy).endswith(b"pong")
        with pytest.raises(OSError):
            await asyncio.open_connection(*listener.address)


async def test_calls_over_tls(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    admission = Admission(PLENTY, PLENTY)
    listener = HttpListener(
        listening_socket(LOOPBACK),
        app_of(server),
        admission=admission,
        context=self_signed_context("localhost"),
        stopping=asyncio.Event(),
    )
    host, port = listener.address
    async with httpx.AsyncClient(verify=trusting()) as client:
        assert (await client.get(f"https://{host}:{port}/ping")).text == "pong"
    monkeypatch.setattr(listener_module, "HANDSHAKE_SECONDS_MAX", 0.2)
    assert await said(listener.address, PING) == b""
    await gone(listener)
    assert admission._total == 0
    listener.close()
    await turns(5)
