"""Work that is done in shares, done to its end."""

from typing import TypeVar

from borzoi.partitions.turns import Work

T = TypeVar("T")


def finished(work: Work[T]) -> tuple[T, int]:
    """What comes of the work, and in how many shares."""
    shares = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found, shares
        shares += 1
