"""Passwords off the loop: a few at a time, slower for addresses that guess.

Argon2 takes tens of milliseconds of one core by design. Two threads do it, so that a flood of
logins waits in line instead of starving everyone who is already talking.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from borzoi.security.passwords import hash_password, verify_password
from borzoi.security.throttle import Throttle

#: More would starve the loop on small machines and gain nothing: each takes a whole core.
HASHES_AT_ONCE = 2


class Authentication:
    """Checks and makes password hashes for the handlers."""

    def __init__(self, throttle: Throttle, clock: Callable[[], int]) -> None:
        self._throttle = throttle
        self._clock = clock
        self._threads = ThreadPoolExecutor(HASHES_AT_ONCE, thread_name_prefix="argon2")
        self._turns = asyncio.Semaphore(HASHES_AT_ONCE)

    async def verify(self, hashed: str | None, password: str, *, address: str) -> bool:
        """Whether the password is right; None stands for a user who does not exist, and costs the
        same. Wrong answers make the address wait longer and longer for the next one."""
        while True:
            wait = self._throttle.wait(address, now=self._clock())
            if wait:
                await asyncio.sleep(wait / 1_000_000)
            async with self._turns:
                # Many connections of one address wait together, and all but the first have to
                # wait again after its mistake: guessing in parallel is no faster.
                if not self._throttle.wait(address, now=self._clock()):
                    return await self._verified(hashed, password, address)

    async def _verified(self, hashed: str | None, password: str, address: str) -> bool:
        loop = asyncio.get_running_loop()
        right = False
        try:
            right = await loop.run_in_executor(self._threads, verify_password, hashed, password)
        finally:
            # Who hangs up before the answer has guessed all the same.
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
