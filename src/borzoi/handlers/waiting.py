"""Polls that wait for messages: what they wait for beside the messages themselves."""

import asyncio
from asyncio import Future
from collections.abc import Iterable
from typing import Any


class Waits:
    """The waiting polls of a server, which all end when it stops."""

    def __init__(self) -> None:
        self._waiting: set[Future[None]] = set()
        self.ended = False

    async def for_any(self, arrivals: "Iterable[Future[None]]") -> None:
        """Return when one of the futures is done, or when the server stops. All are cancelled."""
        stopped: Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(stopped)
        waited: set[Future[Any]] = {stopped, *arrivals}
        try:
            if not self.ended:
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting.discard(stopped)
            for each in waited:
                each.cancel()

    def end(self) -> None:
        """The server stops: pending polls get what there is now."""
        self.ended = True
        for stopped in self._waiting:
            if not stopped.done():
                stopped.set_result(None)
