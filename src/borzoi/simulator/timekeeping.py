"""When a node has to be called, and how virtual time becomes ticks of its replicas.

Ticks in which no timer is due are saved up and handed over together, before the next timer or the
next input, whichever comes first: most of virtual time is jumped over.
"""

from typing import Final, Protocol

from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.replica import Replica
from borzoi.simulator.auditor import Violation
from borzoi.simulator.clocks import EPOCH_US, RATE_UNIT, NodeClock
from borzoi.simulator.events import TICK_US, EventQueue
from borzoi.simulator.intake import Intake

NEVER: Final = 1 << 60


class Ticking(Protocol):
    """The node as its timekeeper sees it."""

    replicas: list[Replica]
    paused_until: int

    def settle(self) -> None:
        """Timers that are due, every input that is queued, and what follows from those."""
        ...

    def drain(self, replica: Replica) -> None:
        """Carries out the effects of a timer that fired."""
        ...

    def broken(self, group: int, error: Exception) -> Violation: ...


class Timekeeper:
    """One node's own time. Outlives the process, as the clock of a machine does."""

    __slots__ = (
        "_events", "_intake", "_process", "clock", "deadline", "owed", "seen", "wake_at",
    )  # fmt: skip

    def __init__(self, process: Ticking, events: EventQueue, intake: Intake) -> None:
        self.clock = NodeClock()
        self._process = process
        self._events = events
        self._intake = intake
        # Ticks not yet handed to the replicas, and the tick of their clocks with the first timer.
        self.owed = 0
        self.deadline = NEVER
        # Up to when virtual time is accounted for, and when this node has to be called next.
        self.seen = 0
        self.wake_at = 0

    # -- what the nemesis does to it ---------------------------------------------------------------

    def set_rate(self, rate: int) -> None:
        """From now on the clock of this node is fast or slow."""
        self.account()
        self.clock.rate = rate
        self.wake_at = self._events.now + 1

    def set_pace(self, frames: int) -> None:
        """From now on the processor of this node takes `frames` frames per tick."""
        self._intake.pace = frames
        self.wake_at = self._events.now + 1

    def heal(self) -> None:
        """Right time, and a processor as fast as any."""
        self.account()
        self.clock.heal(self._events.now)
        self.set_pace(0)

    # -- passing -----------------------------------------------------------------------------------

    def account(self) -> None:
        """Virtual time that passed since the last look, in ticks of this node's own clock."""
        now = self._events.now
        passed = now - self.seen
        if passed:
            clock = self.clock
            self.owed += passed if clock.rate == RATE_UNIT else clock.ticks_due(passed)
            self.seen = now

    def restart(self) -> None:
        """New replicas know nothing of the time before them."""
        self.account()
        self.owed = 0

    def skip(self) -> None:
        """What passed since the last look is gone; what was saved up before is still due."""
        saved = self.owed
        self.account()
        self.owed = saved

    def tick(self) -> None:
        """Called at `wake_at`: a timer is due, or a slow processor goes on with its work."""
        process, intake = self._process, self._intake
        if not process.replicas or process.paused_until:
            self.wake_at = NEVER
            return
        if intake.pace or intake.backlog:
            intake.work_off()
            if not process.replicas:
                return
        self.account()
        if process.replicas[0].timers.now + self.owed >= self.deadline:
            process.settle()
        else:
            self.rest()

    def catch_up(self) -> bool:
        """Brings the replicas' clocks to now; true when timers were due, which have fired."""
        now, clock, process = self._events.now, self.clock, self._process
        replicas = process.replicas
        monotonic = now * TICK_US
        if clock.rate == RATE_UNIT:
            # As below, without the calls: this comes before nearly every input.
            owed = self.owed + now - self.seen
            wall = EPOCH_US + monotonic + clock.offset_us
        else:
            owed = self.owed + clock.ticks_due(now - self.seen)
            wall = clock.wall_us(now)
        self.seen = now
        if not owed or not replicas:
            return False
        self.owed = 0
        ticks, has_fired = replicas[0].timers.now + owed, False
        for replica in replicas:
            replica.monotonic_us = monotonic
            replica.wall_us = wall
            timers = replica.timers
            timers.now = ticks
            if ticks >= timers.next_deadline:
                try:
                    replica.tick(0)
                except InvariantError as error:
                    raise process.broken(replica.group, error) from error
                if replica.effects:
                    process.drain(replica)
                has_fired = True
        return has_fired

    def rest(self) -> None:
        """Until the first timer of any group; their clocks all show the same."""
        replicas, intake = self._process.replicas, self._intake
        if not replicas:
            self.wake_at = NEVER
            return
        self.deadline = min([replica.timers.next_deadline for replica in replicas])
        if intake.pace or intake.backlog:
            self.wake_at = self.seen + 1
            return
        left = self.deadline - replicas[0].timers.now - self.owed
        self.wake_at = self.seen + max(1, self.clock.ticks_until(left))
