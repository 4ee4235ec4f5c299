"""Polls that wait for messages: what ends the wait besides messages."""

import asyncio
from asyncio import Future
from collections.abc import Iterable
from typing import Any

from borzoi.handlers.sessions import Session


class Waits:
    """The waiting polls of a server, which all end when it stops."""

    def __init__(self) -> None:
        self._waiting: dict[Future[None], Session] = {}
        self.ended = False

    async def for_any(self, arrivals: "Iterable[Future[None]]", session: Session) -> None:
        """Return when one of the futures is done, or when the server or the session stops waiting.
        All are cancelled."""
        stopped: Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[stopped] = session
        waited: set[Future[Any]] = {stopped, *arrivals}
        try:
            if not self.ended:
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiting[stopped]
            for each in waited:
                each.cancel()

    def end(self) -> None:
        """The server stops: pending polls return what there is now."""
        self.ended = True
        _stop(self._waiting)

    def end_of(self, session: Session) -> None:
        """The session is ending: its polls return what there is now."""
        _stop([stopped for stopped, waiting in self._waiting.items() if waiting is session])


def _stop(waiting: "Iterable[Future[None]]") -> None:
    for stopped in waiting:
        if not stopped.done():
            stopped.set_result(None)
