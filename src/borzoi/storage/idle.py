"""What waits for a moment in which nobody appends: index entries that are not in their file yet.

A busy log saves its entries many at a time. A log that falls silent should not leave the last ones
in memory until someone appends again: whoever looks at the files expects them, and a start after a
crash reads less.
"""

import asyncio
from collections.abc import Callable
from typing import Final

#: Nobody has appended to any log for this long.
IDLE_SECONDS: Final = 0.002
#: Logs that are served without letting requests run in between.
LOGS_PER_TURN: Final = 32


class IdleWork:
    """Calls logs back when the loop has nothing to append. One for all logs of a shard."""

    __slots__ = ("_appended_before", "_is_armed", "_loop", "_waiting", "appended")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: Counts up with every write; by that the next look knows whether there was one.
        self.appended = 0
        self._appended_before = 0
        self._waiting: list[Callable[[], None]] = []
        self._is_armed = False

    def wait(self, work: Callable[[], None]) -> None:
        """Have `work` called once, on the loop."""
        self._waiting.append(work)
        if not self._is_armed:
            self._is_armed = True
            self._loop.call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        if self.appended != self._appended_before:
            self._appended_before = self.appended
            self._loop.call_later(IDLE_SECONDS, self._look)
            return
        turn, self._waiting = self._waiting[:LOGS_PER_TURN], self._waiting[LOGS_PER_TURN:]
        self._is_armed = bool(self._waiting)
        if self._is_armed:
            self._loop.call_soon(self._look)
        for work in turn:
            work()
