"""Requests over WebSockets, with a client library that is not ours."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from tests.support.listening import PATIENCE_SECONDS, FrameClient
from tests.support.wire_client import answer_in_frame
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage

from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request


def connecting(address: tuple[str, int], context: ssl.SSLContext | None) -> connect:
    host, port = address
    scheme = "ws" if context is None else "wss"
    options: dict[str, Any] = {} if context is None else {"ssl": context}
    return connect(
        f"{scheme}://{host}:{port}/",
        compression=None,
        max_size=None,
        proxy=None,
        ping_interval=None,
        **options,
    )


@asynccontextmanager
async def opened(
    address: tuple[str, int], *, login: bool = False, context: ssl.SSLContext | None = None
) -> AsyncIterator[ClientConnection]:
    """A WebSocket to the address."""
    async with connecting(address, context) as socket:
        if login:
            await called(socket, LoginUser("iggy", "iggy"))
        yield socket


async def received(socket: ClientConnection) -> bytes:
    """The next message."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        message = await socket.recv()
    assert isinstance(message, bytes)
    return message


async def called(socket: ClientConnection, request: Request) -> Any:
    """The decoded answer, which is exactly one message; an error status becomes its exception."""
    await socket.send(encode_request(request))
    return answer_in_frame(await received(socket), request)


class WebSocketFrameClient(FrameClient):
    """A `FrameClient` whose bytes travel in WebSocket messages."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._received = b""
        self.patience_seconds = PATIENCE_SECONDS

    @classmethod
    async def open(cls, address: tuple[str, int], *, context: ssl.SSLContext | None = None) -> Self:
        try:
            return cls(await connecting(address, context))
        except InvalidMessage as fault:
            raise ConnectionResetError(str(fault)) from fault

    async def send(self, data: bytes | memoryview) -> None:
        await self._socket.send(bytes(data))

    async def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            try:
                message = await self._socket.recv()
            except ConnectionClosed as fault:
                raise EOFError from fault
            assert isinstance(message, bytes)
            self._received += message
        taken, self._received = self._received[:size], self._received[size:]
        return taken

    async def receive(self) -> tuple[int, bytes]:
        async with asyncio.timeout(self.patience_seconds):
            status, length = RESPONSE_PREFIX.unpack(await self._exactly(RESPONSE_PREFIX.size))
            return status, await self._exactly(length)

    async def rest(self) -> bytes:
        async with asyncio.timeout(self.patience_seconds):
            try:
                while True:
                    message = await self._socket.recv()
                    assert isinstance(message, bytes)
                    self._received += message
            except ConnectionClosed:
                return self._received

    async def close(self) -> None:
        await self._socket.close()
