"""Requests over QUIC, with the client of the library: a stream for each."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from qh3.asyncio.client import connect
from qh3.asyncio.protocol import QuicConnectionProtocol
from qh3.quic.configuration import QuicConfiguration
from tests.support.embedded import EmbeddedServer
from tests.support.listening import PATIENCE_SECONDS, PLENTY

from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.on_demand import datagram_socket
from borzoi.listeners.quic import QuicListener, QuicOptions
from borzoi.protocol.buffers import Reader
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.errors import error_of
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
        answer = await self.exchange(encode_request(request))
        status, length = RESPONSE_PREFIX.unpack_from(answer)
        assert len(answer) == RESPONSE_PREFIX.size + length
        if status:
            raise error_of(status)
        if request.RESPONSE is None or not length:
            return None
        return request.RESPONSE.decode(Reader(answer[RESPONSE_PREFIX.size :]))


@asynccontextmanager
async def quic_client(
    address: tuple[str, int], *, login: bool = False, alpn: list[str] | None = None
) -> AsyncIterator[QuicClient]:
    configuration = QuicConfiguration(
        is_client=True, verify_mode=ssl.CERT_NONE, alpn_protocols=alpn, server_name="localhost"
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with connect(*address, configuration=configuration) as protocol:
            client = QuicClient(protocol)
            if login:
                await client.call(LoginUser("iggy", "iggy"))
            yield client


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
