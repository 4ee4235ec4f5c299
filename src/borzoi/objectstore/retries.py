"""Which requests are retried, how often, and after how long.

A `create` is retried only if it is known not to have been done; `creating.create_once` handles the
rest. The library retries parts of an upload. A store that throttles gets fewer concurrent requests.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from borzoi.model.value import Value
from borzoi.objectstore.decorating import StoreDecorator
from borzoi.objectstore.errors import (
    Ambiguous,
    ObjectStoreError,
    PermissionDenied,
    Throttled,
    Unavailable,
)
from borzoi.objectstore.interface import MIB, ObjectStore
from borzoi.objectstore.pacing import Pace
from borzoi.objectstore.translating import WRITES

T = TypeVar("T")

BACKOFF_BASE_SECONDS: Final = 0.05
BACKOFF_CAP_SECONDS: Final = 5.0


class RetryPolicy(Value):
    """The retry policy of one kind of request."""

    attempt_seconds: float
    #: Added to the timeout of an attempt, for the bytes of the request.
    bytes_per_second: float
    retries: int
    total_seconds: float

    def attempt_timeout(self, size: int) -> float:
        return self.attempt_seconds + size / self.bytes_per_second


_SMALL: Final = RetryPolicy(2.0, 8 * MIB, 5, 30.0)
_LISTING: Final = RetryPolicy(5.0, 8 * MIB, 5, 30.0)

POLICIES: Final[Mapping[str, RetryPolicy]] = {
    "put": RetryPolicy(2.0, 4 * MIB, 10, 30.0),
    "create": RetryPolicy(2.0, 4 * MIB, 10, 30.0),
    # The size of a whole or open-ended read is not known in advance.
    "get": RetryPolicy(10.0, 8 * MIB, 5, 60.0),
    "get_suffix": RetryPolicy(5.0, 8 * MIB, 5, 30.0),
    "get_range": _SMALL,
    "get_ranges": _SMALL,
    "head": _LISTING,
    "list_page": _LISTING,
    "delete": RetryPolicy(10.0, 8 * MIB, 3, 45.0),
    "delete_many": RetryPolicy(10.0, 8 * MIB, 3, 45.0),
}


class Backoff:
    """Exponential backoff with jitter, so that clients do not retry in step."""

    def __init__(
        self,
        dice: random.Random,
        *,
        base: float = BACKOFF_BASE_SECONDS,
        cap: float = BACKOFF_CAP_SECONDS,
    ) -> None:
        self._dice = dice
        self._base = base
        self._cap = cap
        self._attempt = 0

    def next(self, fault: ObjectStoreError) -> float:
        """Return the seconds to wait; twice as long if the store throttles."""
        base = self._base * (2 if isinstance(fault, Throttled) else 1)
        ceiling = min(base * 2**self._attempt, self._cap)
        self._attempt = min(self._attempt + 1, 16)
        return self._dice.uniform(0, ceiling)


def is_tried_again(fault: ObjectStoreError, op: str, attempt: int) -> bool:
    """Whether the same request may be resent without checking its effect first."""
    if isinstance(fault, PermissionDenied):
        # Once: the credentials may have expired between being read and being used.
        return attempt == 1
    if isinstance(fault, Ambiguous):
        return op != "create"
    return fault.retriable


class RetryingStore(StoreDecorator):
    """Retries transient failures; each attempt and the whole have a time limit."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        policies: Mapping[str, RetryPolicy] = POLICIES,
        dice: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        retries: dict[tuple[str, str], int] | None = None,
    ) -> None:
        super().__init__(store)
        self._policies = policies
        self._dice = random.Random() if dice is None else dice
        self._sleep = sleep
        self._clock = clock
        self.pace = Pace(clock=clock)
        #: Requests sent again, by operation and the name of the fault.
        self.retries = {} if retries is None else retries

    async def around(self, op: str, key: str, size: int, request: Callable[[], Awaitable[T]]) -> T:
        policy = self._policies.get(op)
        if policy is None:
            return await request()
        deadline = self._clock() + policy.total_seconds
        backoff = Backoff(self._dice)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._attempt(op, key, policy.attempt_timeout(size), request)
            except ObjectStoreError as fault:
                if attempt > policy.retries or not is_tried_again(fault, op, attempt):
                    raise
                pause = backoff.next(fault)
                if self._clock() + pause >= deadline:
                    raise
                name = type(fault).__name__
                self.retries[op, name] = self.retries.get((op, name), 0) + 1
                await self._sleep(pause)

    async def _attempt(
        self, op: str, key: str, seconds: float, request: Callable[[], Awaitable[T]]
    ) -> T:
        entered = await self.pace.enter()
        is_throttled = False
        try:
            async with asyncio.timeout(seconds):
                return await request()
        except TimeoutError as fault:
            family = Ambiguous if op in WRITES else Unavailable
            raise family(f"no answer within {seconds:.1f} s", op=op, key=key) from fault
        except Throttled:
            is_throttled = True
            raise
        finally:
            self.pace.leave(entered, is_throttled=is_throttled)
