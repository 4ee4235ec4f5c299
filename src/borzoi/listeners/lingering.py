"""Staying awake for a moment after each request, because the next one is often on its way.

A client that waits for its answer before it sends again leaves a gap of some tens of microseconds.
A process that goes to sleep in it has to be woken up again, which took a quarter of the whole round
trip of a small request on the virtual machine where it was measured. So for a moment after each
request the loop asks for events without waiting. Only an idle processor is used for that: whenever
somebody else turns out to want it, the loop sleeps like any other for a while.
"""

import asyncio
import os
from time import monotonic
from typing import Final

#: How long the loop stays awake after a request: an answer, a client that wakes up, its next one.
AWAKE_SECONDS: Final = 100e-6
#: Giving way takes less than this when there is nobody to give way to, even with interrupts.
ALONE_SECONDS: Final = 200e-6
#: How long the loop does without when there was somebody.
AWAY_SECONDS: Final = 0.1


class Lingering:
    """Keeps one event loop awake; without a second processor it would only be in the way."""

    __slots__ = ("_awake", "_away_until", "_loop", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._awake = False
        self._until = 0.0
        self._away_until = 0.0 if len(os.sched_getaffinity(0)) > 1 else float("inf")

    def touch(self) -> None:
        """Something arrived."""
        now = monotonic()
        if now < self._away_until:
            return
        self._until = now + AWAKE_SECONDS
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._stay)

    def _stay(self) -> None:
        now = monotonic()
        if now >= self._until:
            self._awake = False
            return
        os.sched_yield()
        if monotonic() - now > ALONE_SECONDS:
            self._awake = False
            self._away_until = now + AWAY_SECONDS
            return
        self._loop.call_soon(self._stay)
