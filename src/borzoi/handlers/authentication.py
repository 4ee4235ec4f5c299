"""Password checks off the loop: a few at a time, delayed for addresses that guess.

Argon2 takes tens of milliseconds of one core by design. Two threads run it, so that a flood of
logins queues up instead of starving active connections.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from borzoi.security.passwords import hash_password, verify_password
from borzoi.security.throttle import Throttle, origin_of

#: More would starve the loop on small machines and gain nothing: each takes a whole core.
HASHES_AT_ONCE = 2
#: Logins of one address that may queue while wrong passwords delay it. Each holds a connection,
#: also after its client has disconnected: without a bound, guessing would occupy the server for
#: hours.
WAITING_MAX = 16


class Authentication:
    """Verifies and creates password hashes for the handlers."""

    def __init__(self, throttle: Throttle, clock: Callable[[], int]) -> None:
        self._throttle = throttle
        self._clock = clock
        self._threads = ThreadPoolExecutor(HASHES_AT_ONCE, thread_name_prefix="argon2")
        self._turns = asyncio.Semaphore(HASHES_AT_ONCE)
        #: How many wait, by address.
        self._waiting: Counter[str] = Counter()

    async def verify(self, hashed: str | None, password: str, *, address: str) -> bool:
        """Whether the password is right. None stands for a user that does not exist, and takes as
        long. Each wrong password delays the address more; when many of its logins are queued,
        further attempts are rejected without checking the password."""
        while True:
            wait = self._throttle.wait(address, now=self._clock())
            if wait and not await self._waited(origin_of(address), wait / 1_000_000):
                return False
            async with self._turns:
                # Check again: another connection of the address may have failed meanwhile, so
                # that guessing in parallel is no faster.
                if not self._throttle.wait(address, now=self._clock()):
                    return await self._verified(hashed, password, address)

    async def _waited(self, origin: str, seconds: float) -> bool:
        """Wait. False when the queue of the address is full."""
        if self._waiting[origin] >= WAITING_MAX:
            return False
        self._waiting[origin] += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._waiting[origin] -= 1
            if not self._waiting[origin]:
                del self._waiting[origin]
        return True

    async def _verified(self, hashed: str | None, password: str, address: str) -> bool:
        loop = asyncio.get_running_loop()
        right = False
        try:
            right = await loop.run_in_executor(self._threads, verify_password, hashed, password)
        finally:
            # A guess counts even if the client hung up before its answer.
            if right:
                self._throttle.succeeded(address)
            else:
                self._throttle.failed(address, now=self._clock())
        return right

    async def hash(self, password: str) -> str:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, hash_password, password)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
