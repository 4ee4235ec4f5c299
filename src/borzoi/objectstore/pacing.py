"""Limits concurrent requests to a store: halved when it throttles, then increased by one at a
time."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

#: The number of connections that the client keeps open.
REQUESTS_MAX: Final = 64
#: Seconds without throttling after which the limit grows by one.
RECOVERY_SECONDS: Final = 10.0


class Pace:
    """A fair semaphore with an adaptive limit."""

    def __init__(
        self, *, requests_max: int = REQUESTS_MAX, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._requests_max = requests_max
        self._clock = clock
        self.limit = requests_max
        self._inflight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        #: How often the limit was halved, and when it last changed.
        self._halvings = 0
        self._changed_at = 0.0

    async def enter(self) -> int:
        """Wait for a slot; pass the result to `leave`."""
        self._recover()
        if self._inflight < self.limit and not self._waiting:
            self._inflight += 1
            return self._halvings
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # it got its slot just before it was cancelled
                    self._waiting.remove(turn)
            else:
                self._give_back()
            raise
        return self._halvings

    def leave(self, entered: int, *, is_throttled: bool) -> None:
        """Release the slot.

        Of requests that were sent together and throttled together only the first counts: the
        others say nothing about the new limit.
        """
        if is_throttled and entered == self._halvings:
            self._halvings += 1
            self.limit = max(self.limit // 2, 1)
            self._changed_at = self._clock()
        self._give_back()

    def _give_back(self) -> None:
        self._inflight -= 1
        self._recover()
        while self._waiting and self._inflight < self.limit:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                self._inflight += 1
                turn.set_result(None)

    def _recover(self) -> None:
        if self.limit == self._requests_max:
            return
        steps = int((self._clock() - self._changed_at) / RECOVERY_SECONDS)
        if steps:
            self.limit = min(self.limit + steps, self._requests_max)
            self._changed_at += steps * RECOVERY_SECONDS
