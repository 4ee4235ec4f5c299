"""What a run leaves behind: its digest, its counters, and its failure if there was one."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from borzoi.model.value import Value
from borzoi.simulator.events import TICKS_PER_SECOND

# A run that commits less, or never changes its view, exercises nothing worth a seed.
COMMITS_MIN: Final = 10


class Failure(Value):
    """The first thing a checker objected to. `kind` names the checker, `trace` the last events."""

    kind: str
    message: str
    tick: int
    trace: tuple[str, ...] = ()

    def line(self) -> str:
        return f"{self.kind} at tick {self.tick}: {self.message}"


class RunOutcome(Value):
    seed: int
    draw: str
    digest: str
    state_digest: str
    ticks: int
    events: int
    wall_seconds: float
    failure: Failure | None = None
    counters: Mapping[str, int] = msgspec.field(default_factory=dict)
    faults: Mapping[str, int] = msgspec.field(default_factory=dict)

    @property
    def vacuous(self) -> bool:
        return self.failure is None and (
            self.counters.get("commits", 0) < COMMITS_MIN
            or self.counters.get("view_changes", 0) == 0
        )


class CampaignTotals:
    """Sums over outcomes; what the summary table shows and what a resumed campaign continues."""

    def __init__(self) -> None:
        self.seeds = 0
        self.ticks = 0
        self.events = 0
        self.wall_seconds = 0.0
        self.vacuous: list[int] = []
        self.counters: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.failures: list[dict[str, Any]] = []

    def add(self, outcome: RunOutcome) -> None:
        self.seeds += 1
        self.ticks += outcome.ticks
        self.events += outcome.events
        self.wall_seconds += outcome.wall_seconds
        self.counters.update(outcome.counters)
        self.faults.update(outcome.faults)
        if outcome.vacuous:
            self.vacuous.append(outcome.seed)
        if outcome.failure is not None:
            self.failures.append(
                {
                    "seed": outcome.seed,
                    "draw": outcome.draw,
                    "kind": outcome.failure.kind,
                    "message": outcome.failure.message,
                    "tick": outcome.failure.tick,
                }
            )

    def merge(self, other: "CampaignTotals") -> None:
        self.seeds += other.seeds
        self.ticks += other.ticks
        self.events += other.events
        self.wall_seconds += other.wall_seconds
        self.vacuous += other.vacuous
        self.counters.update(other.counters)
        self.faults.update(other.faults)
        self.failures += other.failures

    @property
    def simulated_hours(self) -> float:
        return self.ticks / TICKS_PER_SECOND / 3600

    @property
    def vacuous_share(self) -> float:
        return len(self.vacuous) / self.seeds if self.seeds else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "seeds": self.seeds,
            "ticks": self.ticks,
            "events": self.events,
            "wall_seconds": round(self.wall_seconds, 3),
            "vacuous": self.vacuous,
            "counters": dict(sorted(self.counters.items())),
            "faults": dict(sorted(self.faults.items())),
            "failures": self.failures,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "CampaignTotals":
        totals = cls()
        totals.seeds = stored["seeds"]
        totals.ticks = stored["ticks"]
        totals.events = stored["events"]
        totals.wall_seconds = stored["wall_seconds"]
        totals.vacuous = list(stored["vacuous"])
        totals.counters = Counter(stored["counters"])
        totals.faults = Counter(stored["faults"])
        totals.failures = list(stored["failures"])
        return totals

    @classmethod
    def of(cls, outcomes: Iterable[RunOutcome]) -> "CampaignTotals":
        totals = cls()
        for outcome in outcomes:
            totals.add(outcome)
        return totals
