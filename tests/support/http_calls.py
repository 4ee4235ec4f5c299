"""HTTP over an embedded server: the application alone, or behind a listener on loopback."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from tests.support.embedded import EmbeddedServer
from tests.support.listening import LOOPBACK, PLENTY, FrameClient, pieces, turns

from borzoi.client.options import Address
from borzoi.client.transports.http import HttpWire
from borzoi.listeners.admission import Admission
from borzoi.listeners.http.app import HttpApp
from borzoi.listeners.http.listener import HttpListener
from borzoi.listeners.http.metrics import Metrics, Sources
from borzoi.listeners.sockets import listening_socket
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.contract import Request
from borzoi.protocol.framing import encode_request
from borzoi.server.config import load
from borzoi.server.token_rules import token_rules
from borzoi.server.web import http_app
from borzoi.telemetry.durations import Durations


def app_of(server: EmbeddedServer, **settings: str) -> HttpApp:
    """The application with these settings of the section `http`, such as ``JWT_ALGORITHM``."""
    environment = {f"BORZOI_HTTP_{name}": value for name, value in settings.items()}
    section = load(environment, server.directory).settings.http
    return http_app(
        section,
        server.dispatcher,
        token_rules(section.jwt),
        server.opened.revoked_tokens,
        metrics=metrics_of(server),
        unfinished=server.binary.unfinished,
    )


def metrics_of(
    server: EmbeddedServer, *, partitions_max: int = 1000, lags_max: int = 1000
) -> Metrics:
    sources = Sources(
        pool=server.opened.pool,
        admission=Admission(PLENTY, PLENTY),
        syncs=server.services.syncs,
        loop_lag=Durations(),
        partitions_max=partitions_max,
        lags_max=lags_max,
    )
    return Metrics(server.dispatcher, sources)


class Caller(httpx.AsyncClient):
    """A client of the application itself; `login` makes the later calls in a user's name."""

    def __init__(self, app: HttpApp) -> None:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
        super().__init__(transport=transport, base_url="http://localhost")

    async def login(self, username: str = "iggy", password: str = "iggy") -> str:
        answer = await self.post("/users/login", json={"username": username, "password": password})
        assert answer.status_code == 200, answer.text
        token: str = answer.json()["access_token"]["token"]
        self.headers["Authorization"] = f"Bearer {token}"
        return token


class HttpFrameClient(FrameClient):
    """A `FrameClient` whose requests travel as calls and whose answers come back as documents."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self._wire = HttpWire(Address("localhost", 3000))
        self._answers: deque[tuple[int, Buffer]] = deque()

    async def ask(self, *requests: Request, cuts: Sequence[int] = ()) -> None:
        calls = [b"".join(self._wire.outgoing([encode_request(one)])) for one in requests]
        for piece in pieces(b"".join(calls), cuts):
            await self.send(piece)

    async def begin(self) -> None:
        await self.send(LARGE_CALL_BEGUN)

    async def receive(self) -> tuple[int, bytes]:
        async with asyncio.timeout(self.patience_seconds):
            while not self._answers:
                space = self._wire.space()
                data = await self.reader.read(len(space))
                if not data:
                    raise EOFError
                space[: len(data)] = data
                self._answers.extend(self._wire.received(len(data)))
        status, payload = self._answers.popleft()
        return status, bytes(payload)


#: A large call that has begun.
LARGE_CALL_BEGUN = (
    b"POST /users/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: 800000\r\n\r\n" + b" " * 90_000
)


@asynccontextmanager
async def http_listener(
    server: EmbeddedServer, *, app: Any = None, admission: Admission | None = None
) -> AsyncIterator[HttpListener]:
    listener = HttpListener(
        listening_socket(LOOPBACK),
        app or app_of(server),
        admission=admission or Admission(PLENTY, PLENTY),
        context=None,
        stopping=asyncio.Event(),
    )
    try:
        yield listener
    finally:
        listener.close()
        await turns(5)


async def said(address: tuple[str, int], data: bytes, *, end: bool = False) -> bytes:
    """Everything the server says to these bytes until it closes."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    if end:
        writer.write_eof()
    async with asyncio.timeout(30):
        try:
            answer = await reader.read()
        except ConnectionResetError:
            answer = b""
    writer.close()
    return answer
