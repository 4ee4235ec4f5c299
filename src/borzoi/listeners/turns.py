"""Turns of the event loop, shared fairly by connections that have more to do than one allows.

A client may send thousands of requests in one read, and asks for as much with a few bytes. What a
connection has to do beyond its share (`FRAMES_PER_TURN`) waits in line here. Each turn of the loop
takes from the line for about a millisecond, one share of one connection after another; then
sockets are looked at again, so whoever asks one thing at a time never stands in this line.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

from borzoi.handlers.sessions import Session

log = logging.getLogger(__name__)

#: How long a turn takes from the line; the share that is under way is finished.
TURN_SECONDS: Final = 0.5e-3

#: Requests that a connection may have answered before it stands in line.
FRAMES_PER_TURN: Final = 32
#: The same before its login. Clients log in with their first or second request.
FRAMES_BEFORE_LOGIN: Final = 4


def frames_per_turn(session: Session) -> int:
    return FRAMES_BEFORE_LOGIN if session.user_id is None else FRAMES_PER_TURN


class Turns:
    """The line of one event loop."""

    __slots__ = ("_clock", "_is_due", "_waiting")

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` in a later turn, behind those that wait already. It does one share of its
        work, and waits again when that was not all."""
        self._waiting.append(go_on)
        self._come_back()

    def _come_back(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_due = False
        waiting = self._waiting
        until = self._clock() + TURN_SECONDS
        while waiting:
            try:
                waiting.popleft()()
            except Exception:
                # It has to see to its own connection; the others are still in line.
                log.exception("a share of work failed")
            if self._clock() >= until:
                break
        if waiting:
            self._come_back()
