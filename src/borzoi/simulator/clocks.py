"""What a node believes about time: how often its ticks come, and what its wall clock shows.

Virtual time is exact; a node's own time may run fast or slow (drift), be off (skew) and jump. Ticks
follow the drift as the monotonic clock of a real machine would; skew and jumps move the wall clock
only.
"""

from typing import Final

from borzoi.simulator.events import TICK_US

EPOCH_US: Final = 1_700_000_000_000_000
# Rates are integers so that no rounding depends on the machine: 1000 is exact, 1050 is 5 % fast.
RATE_UNIT: Final = 1000


class NodeClock:
    __slots__ = ("_owed", "_since", "offset_us", "rate")

    def __init__(self, rate: int = RATE_UNIT, offset_us: int = 0) -> None:
        self.rate = rate
        self.offset_us = offset_us
        self._owed = 0
        # When it last showed the right time: drift adds up from there.
        self._since = 0

    def ticks_due(self, ticks: int = 1) -> int:
        """How many ticks of this node fall into `ticks` of virtual time, give or take 5 %."""
        if self.rate == RATE_UNIT:
            return ticks
        due, self._owed = divmod(self._owed + self.rate * ticks, RATE_UNIT)
        return due

    def ticks_until(self, due: int) -> int:
        """After how many ticks of virtual time `due` ticks of this node will have passed."""
        if self.rate == RATE_UNIT:
            return due
        return -((self._owed - due * RATE_UNIT) // self.rate)

    def wall_us(self, now: int) -> int:
        shown_us = now * TICK_US
        if self.rate != RATE_UNIT:
            since_us = self._since * TICK_US
            shown_us = since_us + (shown_us - since_us) * self.rate // RATE_UNIT
        return EPOCH_US + shown_us + self.offset_us

    def jump(self, by_us: int) -> None:
        self.offset_us += by_us

    def heal(self, now: int) -> None:
        """The operator fixed time synchronization: right rate, right time, from this tick on."""
        self.rate = RATE_UNIT
        self.offset_us = 0
        self._owed = 0
        self._since = now
