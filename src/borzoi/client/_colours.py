"""Locks, pauses and workers in both colours, under names that differ by ``Async`` only.

`tools/unasync.py` makes the blocking client from the asynchronous one by taking that word away, so
both halves of this file have to offer the same.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager


class AsyncLock:
    """A lock that is waited for no longer than said."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def held(self, seconds: float) -> AsyncIterator[None]:
        """`TimeoutError` when others hold it for longer."""
        async with asyncio.timeout(seconds):
            await self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()


class Lock:
    """A lock that is waited for no longer than said."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def held(self, seconds: float) -> Iterator[None]:
        """`TimeoutError` when others hold it for longer."""
        if not self._lock.acquire(timeout=max(seconds, 0)):
            raise TimeoutError
        try:
            yield
        finally:
            self._lock.release()


async def async_sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


class AsyncRepeater:
    """Calls a function every so many seconds until it is stopped: a task."""

    def __init__(self, seconds: float, act: Callable[[], Awaitable[None]], name: str) -> None:
        self._seconds = seconds
        self._act = act
        self._task = asyncio.create_task(self._run(), name=name)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            await self._act()

    async def stop(self) -> None:
        """Returns when it is over."""
        self._task.cancel()
        await asyncio.wait([self._task])


class Repeater:
    """Calls a function every so many seconds until it is stopped: a thread."""

    def __init__(self, seconds: float, act: Callable[[], None], name: str) -> None:
        self._seconds = seconds
        self._act = act
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._act()

    def stop(self) -> None:
        """Returns when it is over."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
