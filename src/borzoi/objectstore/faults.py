"""A store that misbehaves on purpose, driven by a seed: for tests and simulations."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeVar

from borzoi.objectstore.decorating import StoreDecorator
from borzoi.objectstore.errors import (
    Ambiguous,
    ObjectExists,
    ObjectStoreError,
    Throttled,
    Unavailable,
)
from borzoi.objectstore.interface import ObjectStore
from borzoi.objectstore.translating import WRITES

T = TypeVar("T")


class Fault(StrEnum):
    """What can happen to a request."""

    DROP_BEFORE = "drop_before"  # never reaches the store; no answer
    DROP_AFTER = "drop_after"  # done, and the answer is lost
    CONFLICT = "conflict"  # 409: not done, retry
    OWN_EXISTS = "own_exists"  # done by a lost attempt, so the next one finds it there (412)
    THROTTLE = "throttle"  # 503: not done
    TRUNCATE = "truncate"  # an answer that ends too early


class FaultyStore(StoreDecorator):
    """Draws a fault for each request with the given chance, and a delay for each as well."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        seed: int,
        chance: float,
        faults: tuple[Fault, ...] = tuple(Fault),
        delay_max: float = 0.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(store)
        self._dice = random.Random(seed)
        self._chance = chance
        self._faults = faults
        self._delay_max = delay_max
        self._sleep = sleep
        #: How often each fault was injected, for tests that must not pass by luck.
        self.played: dict[Fault, int] = dict.fromkeys(faults, 0)

    async def around(self, op: str, key: str, size: int, request: Callable[[], Awaitable[T]]) -> T:
        fault = self._dice.choice(self._faults) if self._dice.random() < self._chance else None
        if self._delay_max:
            await self._sleep(self._dice.uniform(0, self._delay_max))
        if fault is None or not is_possible(fault, op):
            return await request()
        self.played[fault] += 1
        if fault in (Fault.DROP_AFTER, Fault.OWN_EXISTS, Fault.TRUNCATE):
            await request()
        raise failure(fault, op, key)


def is_possible(fault: Fault, op: str) -> bool:
    match fault:
        case Fault.CONFLICT:
            return op in WRITES
        case Fault.OWN_EXISTS:
            return op == "create"
        case Fault.TRUNCATE:
            return op in ("get", "get_range", "get_ranges", "get_suffix", "list_page")
    return True


def failure(fault: Fault, op: str, key: str) -> ObjectStoreError:
    """Return the exception that the caller sees."""
    match fault:
        case Fault.THROTTLE:
            return Throttled("played: slow down", op=op, key=key, status=503)
        case Fault.OWN_EXISTS:
            return ObjectExists("played: there is one", op=op, key=key, status=412)
        case Fault.CONFLICT:
            return Ambiguous("played: conflict", op=op, key=key, status=409)
    family = Ambiguous if op in WRITES else Unavailable
    return family(f"played: {fault}", op=op, key=key)
