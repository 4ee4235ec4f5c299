"""Requests over QUIC, with the client of the library: a stream for each."""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Self

from qh3.asyncio.client import connect
from qh3.asyncio.protocol import QuicConnectionProtocol
from qh3.quic.configuration import QuicConfiguration
from tests.support.embedded import EmbeddedServer
from tests.support.listening import (
    LARGE_BEGUN,
    PATIENCE_SECONDS,
    PLENTY,
    FrameClient,
    pieces,
)
from tests.support.wire_client import answer_in_frame

from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.on_demand import datagram_socket
from borzoi.listeners.quic import QuicListener, QuicOptions
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request
from borzoi.security.certificates import self_signed


class QuicClient:
    """One connection; any number of requests at once."""

    def __init__(self, protocol: QuicConnectionProtocol) -> None:
        self.protocol = protocol

    async def exchange(self, frame: bytes, *, end: bool = True) -> bytes:
        """All that comes back on a stream of its own."""
        reader, writer = await self.protocol.create_stream()
        writer.write(frame)
        if end:
            writer.write_eof()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await reader.read()
        finally:
            writer.close()

    async def call(self, request: Request) -> Any:
        return answer_in_frame(await self.exchange(encode_request(request)), request)


def connecting(
    address: tuple[str, int], alpn: list[str] | None = None
) -> AbstractAsyncContextManager[QuicConnectionProtocol]:
    configuration = QuicConfiguration(
        is_client=True, verify_mode=ssl.CERT_NONE, alpn_protocols=alpn, server_name="localhost"
    )
    return connect(*address, configuration=configuration)


@asynccontextmanager
async def quic_client(
    address: tuple[str, int], *, login: bool = False, alpn: list[str] | None = None
) -> AsyncIterator[QuicClient]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with connecting(address, alpn) as protocol:
            client = QuicClient(protocol)
            if login:
                await client.call(LoginUser("iggy", "iggy"))
            yield client


class QuicFrameClient(FrameClient):
    """A `FrameClient` whose requests travel on a stream each. Answers are received in the order of
    the requests, whichever comes first."""

    def __init__(self, protocol: QuicConnectionProtocol, connection: AsyncExitStack) -> None:
        self._protocol = protocol
        self._connection = connection
        self._unanswered: deque[asyncio.StreamReader] = deque()
        self.patience_seconds = PATIENCE_SECONDS

    @classmethod
    async def open(cls, address: tuple[str, int]) -> Self:
        async with AsyncExitStack() as connection:
            protocol = await connection.enter_async_context(connecting(address))
            return cls(protocol, connection.pop_all())

    async def ask(self, *requests: Request, cuts: Sequence[int] = ()) -> None:
        for request in requests:
            writer = await self._stream()
            for piece in pieces(encode_request(request), cuts):
                writer.write(piece)
                await asyncio.sleep(0)
            writer.write_eof()

    async def begin(self) -> None:
        (await self._stream()).write(LARGE_BEGUN)

    async def _stream(self) -> asyncio.StreamWriter:
        reader, writer = await self._protocol.create_stream()
        self._unanswered.append(reader)
        self._connection.callback(writer.close)
        return writer

    async def receive(self) -> tuple[int, bytes]:
        async with asyncio.timeout(self.patience_seconds):
            answer = await self._unanswered.popleft().read()
        if len(answer) < RESPONSE_PREFIX.size:
            raise EOFError
        status, length = RESPONSE_PREFIX.unpack_from(answer)
        assert len(answer) == RESPONSE_PREFIX.size + length
        return status, answer[RESPONSE_PREFIX.size :]

    async def rest(self) -> bytes:
        async with asyncio.timeout(self.patience_seconds):
            await self._protocol.wait_closed()
            return b"".join([await reader.read() for reader in self._unanswered])

    async def close(self) -> None:
        await self._connection.aclose()


def made_listener(
    server: EmbeddedServer,
    *,
    admission: Admission | None = None,
    ended: list[Session] | None = None,
    **options: Any,
) -> QuicListener:
    """A listener that is not started yet."""
    pair = self_signed("localhost")

    def left(session: Session) -> None:
        server.services.sessions.remove(session)
        if ended is not None:
            ended.append(session)

    return QuicListener(
        binary=server.binary,
        admission=admission or Admission(PLENTY, PLENTY),
        options=QuicOptions(pair.certificate, pair.key, **options),
        on_connect=server.services.sessions.add,
        on_disconnect=left,
    )


@asynccontextmanager
async def quic_listener(server: EmbeddedServer, **options: Any) -> AsyncIterator[QuicListener]:
    listener = made_listener(server, **options)
    await listener.start(datagram_socket(("127.0.0.1", 0)))
    try:
        yield listener
    finally:
        listener.close()
        await asyncio.sleep(0)
