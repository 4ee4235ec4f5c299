"""What the clocks of a cluster agree on, and which clocks disagree (T2). Pure over integers.

A Pong says what a peer's wall clock showed some time between our Ping and now: an interval. The
agreement is the interval that most clocks share, if at least half of all do (Marzullo). Clocks that
run a little apart share nothing by their round trips alone, so every interval is widened by half of
what is tolerated; a clock is outside when it is further from the agreement than the other half.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

TOLERANCE_US: Final = 10_000_000
_SLACK_US: Final = TOLERANCE_US // 2


class ClockSample(NamedTuple):
    """A peer's wall clock minus our monotonic clock, and the local tick at which we learned it.

    Against the monotonic clock, so that a jump of our own wall clock shows at once.
    """

    low: int
    high: int
    tick: int


def agreements(intervals: Sequence[tuple[int, int]], needed: int) -> list[tuple[int, int]]:
    """The intervals that most of these share, if that is enough of them; several when they tie."""
    edges = [(low, 0) for low, _ in intervals] + [(high, 1) for _, high in intervals]
    edges.sort()
    best, depth, start = needed, 0, 0
    shared: list[tuple[int, int]] = []
    for position, closes in edges:
        if closes:
            if depth == best:
                shared.append((start, position))
            depth -= 1
            continue
        depth += 1
        if depth > best:
            best = depth
            shared.clear()
        start = position
    return shared


def outside_us(own: int, samples: Sequence[ClockSample | None], now: int, window: int) -> int:
    """How far our clock (wall minus monotonic) is from what the others agree on; 0: it is not.

    Samples older than the window say nothing. Without an agreement no clock is outside.
    """
    fresh = [sample for sample in samples if sample is not None and now - sample.tick <= window]
    intervals = [(sample.low - _SLACK_US, sample.high + _SLACK_US) for sample in fresh]
    intervals.append((own - _SLACK_US, own + _SLACK_US))
    if max([low for low, _ in intervals]) <= min([high for _, high in intervals]):
        # All of them have a moment in common, as nearly always: whatever is shared, ours is in it.
        return 0
    shared = agreements(intervals, (len(samples) + 1) // 2)
    if not shared:
        return 0
    distance = min(max(low - own, own - high, 0) for low, high in shared)
    return distance + _SLACK_US if distance > _SLACK_US else 0
