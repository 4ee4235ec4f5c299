"""Busy polling after each request, because the next one often follows at once.

A client that waits for its answer before it sends again leaves a gap of some tens of microseconds.
Waking up a process that went to sleep in that gap took a quarter of the round trip of a small
request on the virtual machine where it was measured. So the loop polls for events without blocking
for a moment after each request. It uses an idle processor only: when another process competes for
it, the loop blocks as usual for a while.

Another process competes when it runs as often as not while the loop gives way to it. A client on
the same processor does that, and is answered sooner by a loop that blocks. A thread of the kernel
that has work for a fraction of a millisecond now and then does not.
"""

import asyncio
import os
from time import monotonic
from typing import Final

#: How long the loop polls after a request: an answer, a client that wakes up, its next request.
AWAKE_SECONDS: Final = 100e-6
#: How much longer after a large answer: a client goes through a megabyte of messages, which takes
#: it 100 to 200 µs, before it requests the next one.
READING_SECONDS: Final = 200e-6
#: `sched_yield` takes less than this when no other process is waiting: 1 µs, one of 100 takes 2.
ALONE_SECONDS: Final = 5e-6
#: It takes longer than this when the other process does not sleep soon by itself.
LONG_SECONDS: Final = 200e-6
#: What each time counts when another process ran, and when it ran for long; when none ran, it
#: counts -1. The loop blocks when the sum reaches the limit. Once more is enough afterwards.
GAVE_WAY: Final = 8
GAVE_WAY_FOR_LONG: Final = 32
GIVEN_WAY_MAX: Final = 64
#: How long the loop blocks as usual after another process competed for the processor.
AWAY_SECONDS: Final = 0.1


class BusyPoll:
    """Keeps one event loop awake; disabled on a single processor."""

    __slots__ = (
        "_awake_seconds",
        "_away_until",
        "_given_way",
        "_loop",
        "_until",
        "awake",
        "is_touched",
        "now",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        #: Whether the loop polls now. Then setting `is_touched` does what `touch` would do, and
        #: `now` is the time at which this turn of the loop began.
        self.awake = False
        self.is_touched = False
        self.now = 0.0
        self._awake_seconds = AWAKE_SECONDS
        #: The time at which the loop blocks again.
        self._until = 0.0
        #: How much another process competed lately.
        self._given_way = 0
        self._away_until = 0.0 if len(os.sched_getaffinity(0)) > 1 else float("inf")

    def touch(self, now: float) -> None:
        """Something arrived."""
        if now < self._away_until:
            return
        self.now, self.is_touched = now, True
        if not self.awake:
            self.awake = True
            self._loop.call_soon(self._stay)

    def expect_reading(self) -> None:
        """A large answer has been sent; to be followed by a touch."""
        self._awake_seconds = AWAKE_SECONDS + READING_SECONDS

    def rest(self) -> None:
        """Stop polling: the next event comes from the disk or from another process, which takes
        longer and may need this processor."""
        self._until, self.is_touched = 0.0, False

    def _stay(self) -> None:
        now = self.now = monotonic()
        if self.is_touched:
            self._until, self.is_touched = now + self._awake_seconds, False
            self._awake_seconds = AWAKE_SECONDS
        elif now >= self._until:
            self.awake = False
            return
        os.sched_yield()
        taken = monotonic() - now
        if taken < ALONE_SECONDS:
            if self._given_way:
                self._given_way -= 1
        elif self._must_go(now, taken):
            return
        self._loop.call_soon(self._stay)

    def _must_go(self, now: float, taken: float) -> bool:
        """Another process ran for so long; whether it did so too often."""
        self._given_way += GAVE_WAY if taken < LONG_SECONDS else GAVE_WAY_FOR_LONG
        if self._given_way < GIVEN_WAY_MAX:
            return False
        self._given_way = GIVEN_WAY_MAX - GAVE_WAY
        self.awake = False
        self._away_until = now + AWAY_SECONDS
        return True
