"""Virtual time: what happens next, in order of (tick, sequence).

Most events share a tick with others, so the heap holds distinct ticks and each tick has a list in
order of arrival; that is the order `(time, sequence)` at a fraction of the cost of one heap entry
per event.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Final

TICKS_PER_SECOND: Final = 100
TICK_US: Final = 10_000
# More in one tick is a message storm: two replicas answering each other without delay.
EVENTS_PER_TICK_MAX: Final = 200_000

Action = Callable[[Any], None]


class MessageStorm(Exception):
    """One tick of virtual time did not come to an end."""


class EventQueue:
    """The agenda of one run. `now` is the tick being executed."""

    __slots__ = ("_buckets", "_done", "_ticks", "executed", "now")

    def __init__(self) -> None:
        self.now = 0
        self.executed = 0
        # The last tick whose events have all run: "now" can only mean the next one after that.
        self._done = 0
        self._buckets: dict[int, list[tuple[Action, Any]]] = {}
        self._ticks: list[int] = []

    def at(self, tick: int, action: Action, argument: Any) -> None:
        bucket = self._buckets.get(tick)
        if bucket is not None:
            bucket.append((action, argument))
            return
        if tick < self.now:
            raise ValueError(f"tick {tick} has passed; it is {self.now}")
        if tick <= self._done:
            self.at(self._done + 1, action, argument)
            return
        self._buckets[tick] = [(action, argument)]
        heappush(self._ticks, tick)

    def after(self, ticks: int, action: Action, argument: Any) -> None:
        tick = self.now + ticks
        bucket = self._buckets.get(tick)
        if bucket is not None:
            bucket.append((action, argument))
        else:
            self.at(tick, action, argument)

    def next_tick(self) -> int | None:
        return self._ticks[0] if self._ticks else None

    def run_tick(self, tick: int) -> int:
        """Executes what is due at `tick`, also what is added meanwhile; returns how much."""
        self.now = tick
        bucket = self._buckets.get(tick)
        if bucket is None:
            self._done = tick
            return 0
        if self._ticks[0] != tick:
            raise ValueError(f"tick {self._ticks[0]} comes before {tick}")
        # The list grows while it is walked: an action may schedule for this very tick.
        for action, argument in islice(bucket, EVENTS_PER_TICK_MAX):
            action(argument)
        if len(bucket) > EVENTS_PER_TICK_MAX:
            raise MessageStorm(f"more than {EVENTS_PER_TICK_MAX} events in tick {tick}")
        self._done = tick
        del self._buckets[tick]
        heappop(self._ticks)
        self.executed += len(bucket)
        return len(bucket)
