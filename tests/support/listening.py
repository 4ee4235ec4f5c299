"""Listeners over an embedded server, and a client that speaks frames without blocking the loop.

Everything runs on the caller's event loop, over real sockets on loopback: a test sees both ends.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from typing import Any, Self

import pytest
from tests.support.embedded import EmbeddedServer
from tests.support.polls import poll_of
from tests.support.sends import send_of
from tests.support.wire_client import answer_in

from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import BinaryProtocol
from borzoi.listeners.interface import ByteStreamArguments, Listener
from borzoi.listeners.sockets import SocketOptions, listening_socket
from borzoi.listeners.tcp import TcpListener
from borzoi.listeners.tls import TlsListener
from borzoi.listeners.websocket.plain import WebSocketListener
from borzoi.listeners.websocket.secure import SecureWebSocketListener
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.framing import REQUEST_PREFIX, RESPONSE_PREFIX, encode_request
from borzoi.protocol.websocket.frames import Limits
from borzoi.records.message import decode_messages

PATIENCE_SECONDS = 60.0
PLENTY = 1000
LOOPBACK = ("127.0.0.1", 0)
EVERYTHING = poll_of(100_000)


def byte_streams(
    server: EmbeddedServer, admission: Admission | None, ended: list[Session] | None
) -> ByteStreamArguments:
    """The arguments of all listeners of byte streams; sessions that end are noted in `ended`."""
    return ByteStreamArguments(
        binary=server.binary,
        pool=server.opened.pool,
        admission=admission or Admission(PLENTY, PLENTY),
        on_connect=server.services.sessions.add,
        on_disconnect=lambda session: _left(server, session, ended),
    )


@asynccontextmanager
async def tcp_listener(
    server: EmbeddedServer,
    *,
    admission: Admission | None = None,
    options: SocketOptions | None = None,
    ended: list[Session] | None = None,
    kind: type[TcpListener] = TcpListener,
) -> AsyncIterator[TcpListener]:
    """A plain listener; sessions that end are noted in `ended`."""
    shared = byte_streams(server, admission, ended)
    options = options or SocketOptions()
    with closing(kind(listening_socket(LOOPBACK), options=options, **shared)) as listener:
        yield listener


@asynccontextmanager
async def tls_listener(
    server: EmbeddedServer,
    context: ssl.SSLContext,
    *,
    admission: Admission | None = None,
    ended: list[Session] | None = None,
) -> AsyncIterator[TlsListener]:
    """The same with TLS."""
    listener = TlsListener(**byte_streams(server, admission, ended))
    await listener.start(listening_socket(LOOPBACK), context)
    async with _closing(listener):
        yield listener


@asynccontextmanager
async def websocket_listener(
    server: EmbeddedServer,
    *,
    admission: Admission | None = None,
    limits: Limits | None = None,
    ended: list[Session] | None = None,
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[WebSocketListener | SecureWebSocketListener]:
    """A listener for WebSockets, over TLS when there is a context."""
    limits = limits or Limits()
    shared = byte_streams(server, admission, ended)
    listener: WebSocketListener | SecureWebSocketListener
    if context is None:
        listener = WebSocketListener(listening_socket(LOOPBACK), limits=limits, **shared)
    else:
        listener = SecureWebSocketListener(limits=limits, **shared)
        await listener.start(listening_socket(LOOPBACK), context)
    async with _closing(listener):
        yield listener


@asynccontextmanager
async def _closing(listener: Listener) -> AsyncIterator[None]:
    """What a close sets off has happened at the end."""
    try:
        yield
    finally:
        listener.close()
        await turns(5)


def _left(server: EmbeddedServer, session: Session, ended: list[Session] | None) -> None:
    server.services.sessions.remove(session)
    if ended is not None:
        ended.append(session)


def count_closely(counter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the requests that are not answered as repeated ones, in `counter.closely`."""
    respond = BinaryProtocol.respond

    def counted(*arguments: Any) -> Any:
        counter.closely += 1
        return respond(*arguments)

    monkeypatch.setattr(BinaryProtocol, "respond", counted)


async def turns(count: int) -> None:
    """Let the loop do what is ready, this many times."""
    for _ in range(count):
        await asyncio.sleep(0)


#: A large frame that has begun.
LARGE_BEGUN = REQUEST_PREFIX.pack(800_004, int(Code.PING)) + bytes(90_000)


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    return [data[begin:end] for begin, end in pairwise([0, *cuts, len(data)])]


class FrameClient:
    """One connection; what it waits for it waits for with patience, and then gives up."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.patience_seconds = PATIENCE_SECONDS

    @classmethod
    async def connect(
        cls,
        address: tuple[str, int],
        *,
        context: ssl.SSLContext | None = None,
        receive_buffer: int | None = None,
    ) -> Self:
        sock = socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, address)
        except OSError:
            sock.close()
            raise
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host = None if context is None else "localhost"
        limit = 64 * 1024 if receive_buffer is None else receive_buffer
        return cls(
            *await asyncio.open_connection(
                sock=sock, ssl=context, server_hostname=host, limit=limit
            )
        )

    async def send(self, data: bytes | memoryview) -> None:
        self.writer.write(data)
        async with asyncio.timeout(self.patience_seconds):
            await self.writer.drain()

    async def ask(self, *requests: Request, cuts: Sequence[int] = ()) -> None:
        """Send requests without waiting for their answers, with pauses at these positions."""
        for piece in pieces(b"".join(map(encode_request, requests)), cuts):
            await self.send(piece)

    async def begin(self) -> None:
        """Send the first part of a large request."""
        await self.send(LARGE_BEGUN)

    async def receive(self) -> tuple[int, bytes]:
        """Status and payload of the next answer."""
        async with asyncio.timeout(self.patience_seconds):
            prefix = await self.reader.readexactly(RESPONSE_PREFIX.size)
            status, length = RESPONSE_PREFIX.unpack(prefix)
            return status, await self.reader.readexactly(length)

    async def exchange(self, frame: bytes) -> tuple[int, bytes]:
        await self.send(frame)
        return await self.receive()

    async def call(self, request: Request) -> Any:
        """The decoded answer, None for an empty one; an error status becomes its exception."""
        await self.ask(request)
        return answer_in(*await self.receive(), request)

    async def login(self) -> None:
        await self.call(LoginUser("iggy", "iggy"))

    async def through(self, *payloads: bytes) -> list[bytes]:
        """Send each to the topic s/t alone; the payloads that are in its first partition then."""
        for payload in payloads:
            await self.call(send_of(payload))
        polled = await self.call(EVERYTHING)
        return [message.payload for message in decode_messages(polled.messages)]

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        async with asyncio.timeout(self.patience_seconds):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            # The server closed first; that is its right.
            return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *fault: object) -> None:
        await self.close()
