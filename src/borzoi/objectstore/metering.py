"""Counting what a store is asked, and how it answers. Plain numbers; exposition is elsewhere."""

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from borzoi.objectstore.decorating import StoreDecorator
from borzoi.objectstore.errors import (
    Ambiguous,
    ObjectExists,
    ObjectNotFound,
    ObjectStoreError,
    PermissionDenied,
    Throttled,
)
from borzoi.objectstore.interface import ObjectStore

T = TypeVar("T")

#: Upper bounds of the classes of duration, in seconds; slower requests fall into one more.
BUCKETS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

OUTCOMES: Final[Mapping[type[ObjectStoreError], str]] = MappingProxyType(
    {
        ObjectNotFound: "not_found",
        ObjectExists: "exists",
        Throttled: "throttled",
        Ambiguous: "ambiguous",
        PermissionDenied: "denied",
    }
)


class Meters:
    """Everything counted since the process began, by operation."""

    def __init__(self) -> None:
        self.requests: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.bytes: defaultdict[str, int] = defaultdict(int)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.durations: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))
        self.inflight: defaultdict[str, int] = defaultdict(int)

    def record(self, op: str, outcome: str, size: int, seconds: float) -> None:
        self.requests[op, outcome] += 1
        self.seconds[op] += seconds
        self.durations[op][bisect_left(BUCKETS, seconds)] += 1
        if outcome == "ok":
            self.bytes[op] += size


class MeteredStore(StoreDecorator):
    """Counts every request in `meters`; one set of meters may serve several stores."""

    def __init__(
        self,
        store: ObjectStore,
        meters: Meters,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(store)
        self.meters = meters
        self._clock = clock

    async def around(self, op: str, key: str, size: int, request: Callable[[], Awaitable[T]]) -> T:
        began = self._clock()
        outcome = "error"
        self.meters.inflight[op] += 1
        try:
            result = await request()
            outcome = "ok"
        except ObjectStoreError as fault:
            outcome = next(
                (name for family, name in OUTCOMES.items() if isinstance(fault, family)), "error"
            )
            raise
        finally:
            self.meters.inflight[op] -= 1
            self.meters.record(op, outcome, size, self._clock() - began)
        return result
