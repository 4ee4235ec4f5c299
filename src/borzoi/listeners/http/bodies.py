"""The body of a call: whole and bounded, or piece by piece."""

import asyncio
from asyncio import Future
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypeVar

from borzoi.protocol.rest.faults import HttpFault

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
T = TypeVar("T")

#: How much of an oversized body is still read and discarded: a client that sends everything before
#: it reads the answer would otherwise see a reset connection instead.
THROWN_AWAY_BYTES_MAX: Final = 16 << 20


class PeerDisconnected(Exception):
    """The client disconnected before its answer."""


class TooLarge(HttpFault):
    """A body over the limit. The connection ends after the answer."""

    def __init__(self, limit: int) -> None:
        sentence = f"The body has more than {limit} bytes"
        super().__init__(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)


class Upload:
    """The body of one call, and whether its client is still there."""

    def __init__(self, receive: Receive, headers: Mapping[str, str]) -> None:
        self._receive = receive
        self._length = headers.get("content-length", "")

    def announced(self, limit: int) -> int:
        """An upper bound of its size; `limit` when the client does not declare one."""
        return min(int(self._length), limit) if self._length.isdigit() else limit

    async def whole(self, limit: int) -> bytes:
        """Read all of it; `TooLarge` when that is more than `limit` bytes."""
        if self._length.isdigit() and int(self._length) > limit + THROWN_AWAY_BYTES_MAX:
            raise TooLarge(limit)
        pieces: list[bytes] = []
        size, more = 0, True
        while more and size <= limit + THROWN_AWAY_BYTES_MAX:
            piece, more = await self._next()
            size += len(piece)
            if size <= limit:
                pieces.append(piece)
            else:
                pieces.clear()
        if size > limit:
            raise TooLarge(limit)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; pieces are read on demand."""
        more = True
        while more:
            piece, more = await self._next()
            if piece:
                yield piece

    async def _next(self) -> tuple[bytes, bool]:
        """Return the next piece, and whether there are more."""
        message = await self._receive()
        if message["type"] != "http.request":
            raise PeerDisconnected
        return message.get("body", b""), message.get("more_body", False)

    async def waited(self, answer: "Future[T]", abandon: "Callable[[Future[T]], None]") -> T:
        """Return the result of the future unless the client disconnects first.

        Then the future is abandoned, never cancelled: work that was begun is finished.
        """
        # Most appends are answered within this turn: only a longer wait is worth a task.
        await asyncio.sleep(0)
        if not answer.done():
            gone: Future[Any] = asyncio.ensure_future(self.client_gone())
            waiting: set[Future[Any]] = {answer, gone}
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
        if not answer.done():
            abandon(answer)
            raise PeerDisconnected
        if answer.cancelled():
            raise HttpFault(HTTPStatus.SERVICE_UNAVAILABLE, "The server stops")
        return answer.result()

    async def client_gone(self) -> None:
        """Return when the client disconnects; only after its body was read."""
        while (await self._receive())["type"] == "http.request":
            pass
