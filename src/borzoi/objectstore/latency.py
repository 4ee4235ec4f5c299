"""A store with added latency: for benchmarks."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from borzoi.objectstore.decorating import StoreDecorator
from borzoi.objectstore.interface import ObjectStore

T = TypeVar("T")


class LatencyStore(StoreDecorator):
    """Adds `seconds` to each request, plus or minus up to the fraction `jitter`."""

    def __init__(
        self,
        store: ObjectStore,
        seconds: float,
        *,
        jitter: float = 0.0,
        seed: int = 0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(store)
        self._seconds = seconds
        self._jitter = jitter
        self._dice = random.Random(seed)
        self._sleep = sleep

    async def around(self, op: str, key: str, size: int, request: Callable[[], Awaitable[T]]) -> T:
        share = self._dice.uniform(-self._jitter, self._jitter)
        await self._sleep(self._seconds * (1 + share))
        return await request()
