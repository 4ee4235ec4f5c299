"""Work for idle moments: saving index entries that are not in their file yet.

A busy log saves its entries in batches. A log that becomes idle should not keep the last ones in
memory until the next append: tools expect them in the files, and a start after a crash reads less.
"""

import asyncio
from collections.abc import Callable
from typing import Final

#: Seconds without an append to any log.
IDLE_SECONDS: Final = 0.002
#: Logs that are served before requests may run again.
LOGS_PER_TURN: Final = 32


class IdleWork:
    """Calls logs back when nothing is being appended. One for all logs of a shard."""

    __slots__ = ("_appended_before", "_is_armed", "_loop", "_waiting", "appended")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: Counts writes, to detect whether there was one since the last check.
        self.appended = 0
        self._appended_before = 0
        self._waiting: list[Callable[[], None]] = []
        self._is_armed = False

    def wait(self, work: Callable[[], None]) -> None:
        """Schedule `work` to be called once, on the loop."""
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
