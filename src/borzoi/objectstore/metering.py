"""Counts requests to a store and their results. Plain numbers; exposition is elsewhere."""

import time
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
from borzoi.telemetry.durations import Durations

T = TypeVar("T")

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
    """Everything counted since the start of the process, by operation."""

    def __init__(self) -> None:
        self.requests: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.bytes: defaultdict[str, int] = defaultdict(int)
        self.durations: defaultdict[str, Durations] = defaultdict(Durations)
        self.inflight: defaultdict[str, int] = defaultdict(int)
        #: Retried requests, by operation and the name of the fault.
        self.retries: defaultdict[tuple[str, str], int] = defaultdict(int)

    def record(self, op: str, outcome: str, size: int, nanoseconds: int) -> None:
        self.requests[op, outcome] += 1
        self.durations[op].observe(nanoseconds)
        if outcome == "ok":
            self.bytes[op] += size


class MeteredStore(StoreDecorator):
    """Counts every request in `meters`; one set of meters may serve several stores."""

    def __init__(
        self,
        store: ObjectStore,
        meters: Meters,
        *,
        clock: Callable[[], int] = time.perf_counter_ns,
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
