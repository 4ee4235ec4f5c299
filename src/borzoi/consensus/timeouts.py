"""Timers as integer deadlines in ticks, with backoff and injected dice (T1)."""

from collections.abc import Iterator
from typing import Final

from borzoi.consensus.config import Randomness, Timeouts

NEVER: Final = 1 << 62
BACKOFF_EXPONENT_MAX: Final = 4


class Timer:
    """One slot each; the order is the order in which timers due at one tick are handled.

    Plain numbers: they are looked up several times for every frame, and members of an enum are slow
    to look up.
    """

    PING: Final = 0
    PREPARE: Final = 1
    COMMIT_MESSAGE: Final = 2
    NORMAL_HEARTBEAT: Final = 3
    START_VIEW_CHANGE: Final = 4
    VIEW_CHANGE_STATUS: Final = 5
    DO_VIEW_CHANGE: Final = 6
    REQUEST_START_VIEW: Final = 7
    REPAIR: Final = 8
    PRIMARY_ABDICATE: Final = 9
    STATE_TRANSFER_STALL: Final = 10
    CHECKPOINT: Final = 11


TIMERS: Final = sum(name.isupper() for name in vars(Timer))


class Timers:
    """A stopped timer has no deadline, so it can neither be reset nor fire."""

    __slots__ = (
        "_after", "_attempts", "_deadlines", "_jitter", "_lengths", "_random", "next_deadline",
        "now",
    )  # fmt: skip

    def __init__(
        self, timeouts: Timeouts, random: Randomness, checkpoint_ticks: int = NEVER
    ) -> None:
        self.now = 0
        self.next_deadline = NEVER
        self._random = random
        self._deadlines = [NEVER] * TIMERS
        self._attempts = [0] * TIMERS
        self._lengths = [0] * TIMERS
        self._after = [
            timeouts.ping,
            timeouts.prepare,
            timeouts.commit_message,
            timeouts.normal_heartbeat,
            timeouts.start_view_change,
            timeouts.view_change_status,
            timeouts.do_view_change,
            timeouts.request_start_view,
            timeouts.repair,
            timeouts.primary_abdicate,
            timeouts.state_transfer_stall,
            checkpoint_ticks,
        ]
        self._jitter = [0] * TIMERS
        self._jitter[Timer.NORMAL_HEARTBEAT] = timeouts.normal_heartbeat_jitter
        self._jitter[Timer.VIEW_CHANGE_STATUS] = timeouts.view_change_status_jitter

    def start(self, timer: int) -> None:
        """(Re)arm from now, forgetting earlier attempts."""
        self._attempts[timer] = 0
        jitter = self._jitter[timer]
        after = self._after[timer] + (self._random.randrange(jitter) if jitter else 0)
        self._lengths[timer] = after
        deadline = self._deadlines[timer] = self.now + after
        if deadline < self.next_deadline:
            self.next_deadline = deadline

    def push_back(self, timer: int) -> None:
        """As start, but a running timer keeps the length it was armed with.

        Without dice: a backup does this for every frame of its primary.
        """
        if self._deadlines[timer] == NEVER:
            self.start(timer)
        else:
            self._deadlines[timer] = self.now + self._lengths[timer]

    def ensure(self, timer: int) -> None:
        """Arm unless it is running."""
        if self._deadlines[timer] == NEVER:
            self.start(timer)

    def back_off(self, timer: int) -> None:
        """Arm for attempt k = 1..4: after * 2^k plus as much again at random, at most 16 times."""
        attempt = self._attempts[timer] = min(self._attempts[timer] + 1, BACKOFF_EXPONENT_MAX)
        after = self._after[timer] << attempt
        after += self._random.randrange(after)
        ceiling = self._after[timer] << BACKOFF_EXPONENT_MAX
        deadline = self._deadlines[timer] = self.now + min(after, ceiling)
        if deadline < self.next_deadline:
            self.next_deadline = deadline

    def stop(self, timer: int) -> None:
        self._deadlines[timer] = NEVER
        self._attempts[timer] = 0

    def is_running(self, timer: int) -> bool:
        return self._deadlines[timer] != NEVER

    def elapse(self, ticks: int) -> bool:
        """Move time; true when something may be due. Idle ticks cost one comparison."""
        self.now += ticks
        return self.now >= self.next_deadline

    def fired(self) -> Iterator[int]:
        """The timers due now, each stopped before its handler runs."""
        now, deadlines = self.now, self._deadlines
        # Often none: a timer that was pushed back leaves its old deadline in `next_deadline`.
        if min(deadlines) <= now:
            due = [timer for timer, deadline in enumerate(deadlines) if deadline <= now]
            for timer in due:
                # A handler that ran before may have stopped or restarted this one.
                if deadlines[timer] <= now:
                    deadlines[timer] = NEVER
                    yield timer
        self.next_deadline = min(deadlines)
