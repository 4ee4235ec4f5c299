"""The decisions of a supervisor about its shards. Pure: events and time in, effects out.

========  =======================================  ==========================================
phase     a shard that ends                        the next phase comes when
========  =======================================  ==========================================
STARTING  the server cannot start                  every shard is ready
SERVING   is started again, or the server fails    a signal, or a failure, stops the server
DRAINING  is not waited for any more               every shard has drained, or time is up
CLOSING   is not waited for any more               every shard has ended, or time is up
========  =======================================  ==========================================
"""

import enum
import signal
from collections.abc import Iterator
from typing import Final, TypeAlias

from borzoi.model.value import Value
from borzoi.server import exit_statuses
from borzoi.server.control_messages import (
    Addresses,
    AddressesBound,
    AllReady,
    Close,
    PeerLost,
    Stop,
    ToShard,
)

#: How long shards may drain: stuck requests must not keep the server from saving.
DRAIN_SECONDS_MAX: Final = 7.0
#: The limit for a whole stop; remaining processes are killed.
STOP_SECONDS_MAX: Final = 15.0
#: Give up on a shard after this many failed starts in a row.
STARTS_MAX: Final = 5
#: The pause between them.
PAUSE_SECONDS: Final = 1.0
#: The status of a process that was killed.
KILLED: Final = -int(signal.SIGKILL)


class Phase(enum.Enum):
    STARTING = enum.auto()
    SERVING = enum.auto()
    DRAINING = enum.auto()
    CLOSING = enum.auto()


class Condition(enum.Enum):
    """Of one shard."""

    STARTING = enum.auto()
    READY = enum.auto()
    DRAINED = enum.auto()
    ENDED = enum.auto()


class Launch(Value):
    """Start the process of a shard."""

    shard: int
    first_start: bool


class Tell(Value):
    """Send a message to a living shard."""

    shard: int
    message: ToShard


class Kill(Value):
    """Kill a process."""

    shard: int


class OperatorReport(Value):
    """Log a message for the operator."""

    text: str
    is_fault: bool = True


Effect: TypeAlias = Launch | Tell | Kill | OperatorReport


class Supervision:
    """The shards of one server, from the first start to the last end."""

    def __init__(self, count: int, *, restart: bool) -> None:
        assert count > 0, "a server has at least one shard"
        self._restart = restart
        self._conditions = [Condition.STARTING] * count
        #: Failed starts in a row, by shard.
        self._failed_starts = [0] * count
        #: When the next start of a shard is due.
        self._starts_due: dict[int, float] = {}
        self._phase = Phase.STARTING
        self._status = exit_statuses.OK
        self._drain_until = 0.0
        #: None once it has expired.
        self._stop_until: float | None = None
        #: Where shard 0 listens; a replacement must listen there as well.
        self.addresses: Addresses | None = None
        self.was_ready = False

    @property
    def exit_status(self) -> int | None:
        """The exit status of the server; None while a process runs or will be started."""
        ended = all(condition is Condition.ENDED for condition in self._conditions)
        return self._status if self._is_stopping() and ended else None

    @property
    def due(self) -> float | None:
        """When `elapsed` has to be called if nothing else happens."""
        match self._phase:
            case Phase.DRAINING:
                return self._drain_until
            case Phase.CLOSING:
                return self._stop_until
            case _:
                return min(self._starts_due.values(), default=None)

    # ---- events ---------------------------------------------------------------------------------

    def begin(self) -> list[Effect]:
        """Start all shards."""
        return [Launch(shard, first_start=True) for shard in range(len(self._conditions))]

    def ready(self, shard: int, addresses: Addresses) -> list[Effect]:
        if self._conditions[shard] is not Condition.STARTING or self._is_stopping():
            return []
        self._conditions[shard] = Condition.READY
        self._failed_starts[shard] = 0
        effects: list[Effect] = []
        if shard == 0 and self.addresses is None:
            self.addresses = addresses
            bound = AddressesBound(addresses)
            effects += [Tell(other, bound) for other in self._living() if other != 0]
        if self._phase is Phase.SERVING:
            effects.append(OperatorReport(f"shard {shard} is ready again", is_fault=False))
        if all(condition is Condition.READY for condition in self._conditions):
            self._phase = Phase.SERVING
            self.was_ready = True
            effects.append(Tell(0, AllReady()))
        return effects

    def drained(self, shard: int) -> list[Effect]:
        if not self._is_stopping():
            # It has failed and will exit by itself; the others continue.
            return [Tell(shard, Close())]
        if self._phase is Phase.CLOSING:
            return []
        self._conditions[shard] = Condition.DRAINED
        return self._closed_when_drained()

    def ended(self, shard: int, status: int, *, now: float) -> list[Effect]:
        """A process has ended; `status` is negative for a signal."""
        was = self._conditions[shard]
        self._conditions[shard] = Condition.ENDED
        how = f"shard {shard} {exit_statuses.ending(status)}"
        # Requests of the other shards to it will never be answered.
        told: list[Effect] = [Tell(other, PeerLost(shard)) for other in self._living()]
        match self._phase:
            case Phase.STARTING:
                self._status = exit_statuses.CANNOT_START
                return [
                    OperatorReport(f"{how} before the server was ready"),
                    *told,
                    *self._stopped(now),
                ]
            case Phase.SERVING:
                return [*told, *self._lost(shard, was, how, now)]
            case Phase.DRAINING:
                return [*self._failed(status, how, was), *told, *self._closed_when_drained()]
            case Phase.CLOSING:
                return self._failed(status, how, was)

    def stop(self, *, now: float) -> list[Effect]:
        """Stop because of a signal; a second one changes nothing."""
        return [] if self._is_stopping() else self._stopped(now)

    def elapsed(self, *, now: float) -> list[Effect]:
        """Time has passed."""
        match self._phase:
            case Phase.DRAINING if now >= self._drain_until:
                return [OperatorReport("some requests did not end in time"), *self._closed()]
            case Phase.CLOSING if self._stop_until is not None and now >= self._stop_until:
                self._stop_until = None
                self._status = self._status or exit_statuses.FAILED
                left = list(self._living())
                shown = ", ".join(map(str, left))
                return [OperatorReport(f"shard {shown} did not end in time"), *map(Kill, left)]
            case Phase.SERVING:
                due = [shard for shard, when in self._starts_due.items() if now >= when]
                return [effect for shard in due for effect in self._started(shard)]
            case _:
                return []

    # ---- what follows ---------------------------------------------------------------------------

    def _living(self) -> Iterator[int]:
        for shard, condition in enumerate(self._conditions):
            if condition is not Condition.ENDED:
                yield shard

    def _is_stopping(self) -> bool:
        return self._phase in (Phase.DRAINING, Phase.CLOSING)

    def _lost(self, shard: int, was: Condition, how: str, now: float) -> list[Effect]:
        """A shard died while serving."""
        if not self._restart:
            self._status = exit_statuses.FAILED
            return [OperatorReport(f"{how}, and supervisor.restart is false"), *self._stopped(now)]
        if was is Condition.READY:
            return [OperatorReport(f"{how}; restarting it"), *self._started(shard)]
        self._failed_starts[shard] += 1
        if self._failed_starts[shard] >= STARTS_MAX:
            self._status = exit_statuses.FAILED
            return [
                OperatorReport(f"{how} {STARTS_MAX} times before it was ready"),
                *self._stopped(now),
            ]
        self._starts_due[shard] = now + PAUSE_SECONDS
        return [OperatorReport(f"{how} before it was ready; restarting it in a moment")]

    def _started(self, shard: int) -> list[Effect]:
        """Start a replacement for a shard that died."""
        self._starts_due.pop(shard, None)
        self._conditions[shard] = Condition.STARTING
        effects: list[Effect] = [Launch(shard, first_start=False)]
        if self.addresses is not None:
            effects.append(Tell(shard, AddressesBound(self.addresses)))
        return effects

    def _stopped(self, now: float) -> list[Effect]:
        """Stop serving shards, and kill those that do not serve yet, which is safe."""
        self._phase = Phase.DRAINING
        self._starts_due.clear()
        self._drain_until = now + DRAIN_SECONDS_MAX
        self._stop_until = now + STOP_SECONDS_MAX
        effects: list[Effect] = []
        for shard in self._living():
            is_ready = self._conditions[shard] is Condition.READY
            effects.append(Tell(shard, Stop()) if is_ready else Kill(shard))
        return effects

    def _closed_when_drained(self) -> list[Effect]:
        return [] if Condition.READY in self._conditions else self._closed()

    def _closed(self) -> list[Effect]:
        self._phase = Phase.CLOSING
        return [Tell(shard, Close()) for shard in self._living()]

    def _failed(self, status: int, how: str, was: Condition) -> list[Effect]:
        """Report a shard that failed while the server stops."""
        if status == exit_statuses.OK:
            return []
        if was is Condition.STARTING:
            # Killed by us, unless it failed at the same time as the shard that was reported first:
            # the system does not say which one failed because of the other.
            what = "it" if self.was_ready else "the server"
            return [] if status == KILLED else [OperatorReport(f"{how} before {what} was ready")]
        self._status = self._status or exit_statuses.FAILED
        return [OperatorReport(how)]
