"""Histograms of durations that cost a few additions."""

from typing import Final

#: The first and the last bound of a bucket are 2^13 ns (8 µs) and 2^34 ns (17 s); each is twice the
#: one before.
SMALLEST_POWER: Final = 13
LARGEST_POWER: Final = 34
BOUNDS_SECONDS: Final = tuple(2**power / 1e9 for power in range(SMALLEST_POWER, LARGEST_POWER + 1))
SLOTS: Final = 65


class Durations:
    """Counts of durations by powers of two of nanoseconds, and their sum."""

    __slots__ = ("_slots", "total_ns")

    def __init__(self) -> None:
        self._slots = [0] * SLOTS
        self.total_ns = 0

    def observe(self, nanoseconds: int, weight: int = 1) -> None:
        self._slots[nanoseconds.bit_length()] += weight
        self.total_ns += nanoseconds * weight

    @property
    def count(self) -> int:
        return sum(self._slots)

    def cumulative(self) -> list[int]:
        """How many took at most each of `BOUNDS_SECONDS`."""
        total, found = sum(self._slots[:SMALLEST_POWER]), []
        for power in range(SMALLEST_POWER, LARGEST_POWER + 1):
            total += self._slots[power]
            found.append(total)
        return found


class Ongoing(Durations):
    """Durations of asynchronous work, and how much of it is pending."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        super().__init__()
        self.pending = 0
