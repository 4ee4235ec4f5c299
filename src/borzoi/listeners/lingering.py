"""Staying awake for a moment after each request, because the next one is often on its way.

A client that waits for its answer before it sends again leaves a gap of some tens of microseconds.
A process that goes to sleep in it has to be woken up again, which takes as long as everything else
about a small request together, and twice as long on a virtual machine. So for a moment after each
request the loop asks for events without waiting; it gives way whenever somebody else could run.
"""

import asyncio
import os
from time import monotonic
from typing import Final

#: How long the loop stays awake after a request: an answer, a client that wakes up, its next one.
AWAKE_SECONDS: Final = 100e-6


class Lingering:
    """Keeps one event loop awake; without a second processor it would only be in the way."""

    __slots__ = ("_awake", "_loop", "_until", "_useful")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._awake = False
        self._until = 0.0
        self._useful = len(os.sched_getaffinity(0)) > 1

    def touch(self) -> None:
        """Something arrived."""
        if not self._useful:
            return
        self._until = monotonic() + AWAKE_SECONDS
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._stay)

    def _stay(self) -> None:
        if monotonic() < self._until:
            os.sched_yield()
            self._loop.call_soon(self._stay)
        else:
            self._awake = False
