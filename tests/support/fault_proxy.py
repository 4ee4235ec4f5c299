"""A relay before an object store that loses, delays and garbles requests as configured.

It knows HTTP/1.1 as far as stores use it: heads, bodies with a length, chunked answers. A fault is
played for requests whose line has a given text, so that nothing in the client has to be changed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit


class Played(StrEnum):
    DROP_BEFORE = "drop before"  # the connection ends, and the store never sees the request
    DROP_AFTER = "drop after"  # the store does it, and the connection ends without an answer
    CONFLICT = "409"
    SLOW_DOWN = "503"
    BROKEN = "500"  # the store does it, and the answer is an error
    HANG = "hang"  # the store does it, and no answer comes
    TRUNCATED = "truncated body"
    SLOW = "slow body"


@dataclass
class Rule:
    fault: Played
    #: What the first line of the request has to have in it.
    containing: str
    times: int
    played: int = 0


@dataclass
class FaultProxy:
    upstream: str
    rules: list[Rule] = field(default_factory=list)
    #: The first line of every request, in order.
    seen: list[str] = field(default_factory=list)
    #: The same with the headers.
    heads: list[bytes] = field(default_factory=list)
    latency: float = 0.0
    endpoint: str = ""
    _connections: set["asyncio.Task[None]"] = field(default_factory=set)

    def play(self, fault: Played, containing: str = "", *, times: int = 1) -> Rule:
        rule = Rule(fault, containing, times)
        self.rules.append(rule)
        return rule

    def _fault_for(self, line: str) -> Played | None:
        for rule in self.rules:
            if rule.played < rule.times and rule.containing in line:
                rule.played += 1
                return rule.fault
        return None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            while (request := await _read_message(reader)) is not None:
                line = request.split(b"\r\n", 1)[0].decode("latin-1")
                self.seen.append(line)
                self.heads.append(request.partition(b"\r\n\r\n")[0])
                await asyncio.sleep(self.latency)
                if not await self._answer(line, request, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def close(self) -> None:
        """End every connection, also those that hang."""
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _answer(self, line: str, request: bytes, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection goes on."""
        match self._fault_for(line):
            case Played.DROP_BEFORE:
                return False
            case Played.CONFLICT:
                writer.write(_error(409, "ConditionalRequestConflict"))
            case Played.SLOW_DOWN:
                writer.write(_error(503, "SlowDown"))
            case Played.BROKEN:
                await self._forward(line, request)
                writer.write(_error(500, "InternalError"))
            case Played.DROP_AFTER:
                await self._forward(line, request)
                return False
            case Played.HANG:
                await self._forward(line, request)
                await asyncio.Event().wait()
            case Played.TRUNCATED:
                answer = await self._forward(line, request)
                head, _, body = answer.partition(b"\r\n\r\n")
                writer.write(head + b"\r\n\r\n" + body[: len(body) // 2])
                await writer.drain()
                return False
            case Played.SLOW:
                answer = await self._forward(line, request)
                step = max(len(answer) // 20, 1)
                for start in range(0, len(answer), step):
                    writer.write(answer[start : start + step])
                    await writer.drain()
                    await asyncio.sleep(0.02)
            case _:
                writer.write(await self._forward(line, request))
        await writer.drain()
        return True

    async def _forward(self, line: str, request: bytes) -> bytes:
        parts = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(request)
            await writer.drain()
            answer = await _read_message(reader, has_body=not line.startswith("HEAD "))
            assert answer is not None, "the store closed the connection"
            return answer
        finally:
            writer.close()


@asynccontextmanager
async def fault_proxy(upstream: str) -> AsyncIterator[FaultProxy]:
    proxy = FaultProxy(upstream)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=1 << 24)
    proxy.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()


async def _read_message(reader: asyncio.StreamReader, *, has_body: bool = True) -> bytes | None:
    """One request or answer, head and body; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    fields = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }
    if not has_body:
        return head
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        pieces = [head]
        while True:
            size = await reader.readuntil(b"\r\n")
            piece = await reader.readexactly(int(size, 16) + 2)
            pieces += [size, piece]
            if int(size, 16) == 0:
                return b"".join(pieces)
    return head + await reader.readexactly(int(fields.get(b"content-length", b"0")))


def _error(status: int, code: str) -> bytes:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>played</Message></Error>"
    return (
        f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()
