"""Shared calls, pauses and workers in both colours, under names that differ by ``Async`` only.

`tools/unasync.py` generates the blocking client from the asynchronous one by removing that word,
so both halves of this file must have the same interface.
"""

import asyncio
import inspect
import threading
import time
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Sequence,
)
from typing import Any, Generic, TypeVar

T = TypeVar("T")
E = TypeVar("E", asyncio.Event, threading.Event)


class AsyncShared(Generic[T]):
    """One call at a time that everybody shares: a task.

    It goes on when a caller is cancelled, and the next caller waits for the same call. If it ended
    with the caller, one that waits less long than the call takes would start it over for ever.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[T] | None = None

    async def call(self, act: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
        """The result of `act`, or of a call that is running already; `TimeoutError` if that one
        takes longer than `seconds`.

        A fault is raised by the caller that started the call. The others start their own.
        """
        async with asyncio.timeout(seconds):
            while self._task is not None:
                shared = self._task
                await asyncio.wait([shared])
                if not shared.cancelled() and shared.exception() is None:
                    return shared.result()
        task = self._task = asyncio.create_task(act())
        task.add_done_callback(self._forget)
        await asyncio.wait([task])
        # Cancelled by `stop`: `act` itself says what that means for its callers.
        return await act() if task.cancelled() else task.result()

    def _forget(self, task: "asyncio.Task[T]") -> None:
        self._task = None
        if not task.cancelled():
            task.exception()  # retrieved: its caller may be gone

    async def stop(self) -> None:
        """Cancel the call that is running, and wait for its end."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


class Shared(Generic[T]):
    """One call at a time: the thread that needs it makes it, and others wait for their turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def call(self, act: Callable[[], T], seconds: float) -> T:
        """The result of `act`; `TimeoutError` if the calls of others take longer."""
        if not self._lock.acquire(timeout=max(seconds, 0)):
            raise TimeoutError
        try:
            return act()
        finally:
            self._lock.release()

    def stop(self) -> None:
        """A thread cannot be cancelled: its call ends by itself."""


async def async_sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


class AsyncRepeater:
    """Calls a function periodically until it is stopped: a task."""

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
    """Calls a function periodically until it is stopped: a thread."""

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


class _Signal(Generic[E]):
    """Wakes the one worker that waits for it."""

    _kind: type[E]

    def __init__(self) -> None:
        self._event: E = self._kind()

    def set(self) -> None:
        self._event.set()


class AsyncSignal(_Signal[asyncio.Event]):
    _kind = asyncio.Event

    async def wait(self, seconds: float | None) -> None:
        """Wait until it is set, and clear it; return anyway after `seconds`."""
        if not self._event.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._event.wait()
            except TimeoutError:
                return
        self._event.clear()


class Signal(_Signal[threading.Event]):
    _kind = threading.Event

    def wait(self, seconds: float | None) -> None:
        """Wait until it is set, and clear it; return anyway after `seconds`."""
        self._event.wait(seconds)
        self._event.clear()


class _Gate(Generic[E]):
    """Wakes everything that waited when it was opened.

    Take a `turn` while the condition still fails: every opening after that lets it pass, so no
    wakeup is lost between checking and waiting.
    """

    _kind: type[E]

    def __init__(self) -> None:
        self._turn: E = self._kind()

    def turn(self) -> E:
        return self._turn

    def open(self) -> None:
        turn, self._turn = self._turn, self._kind()
        turn.set()


class AsyncGate(_Gate[asyncio.Event]):
    _kind = asyncio.Event

    async def passed(self, turn: asyncio.Event, seconds: float) -> bool:
        """Return whether it was opened within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await turn.wait()
        except TimeoutError:
            return False
        return True


class Gate(_Gate[threading.Event]):
    _kind = threading.Event

    def passed(self, turn: threading.Event, seconds: float) -> bool:
        """Return whether it was opened within `seconds`."""
        return turn.wait(seconds)


class _Outcome(Generic[E]):
    """The outcome of a send, which becomes known later.

    `partition` is where the messages go, None when the server chooses it. The protocol does not
    report their offsets.
    """

    __slots__ = ("_done", "fault", "partition")

    _kind: type[E]

    def __init__(self, partition: int | None = None) -> None:
        self.partition = partition
        self._done: E = self._kind()
        self.fault: BaseException | None = None

    @property
    def is_known(self) -> bool:
        return self._done.is_set()

    def settle(self, fault: BaseException | None = None) -> None:
        self.fault = fault
        self._done.set()

    def _raise_fault(self) -> None:
        if self.fault is not None:
            raise self.fault


class AsyncOutcome(_Outcome[asyncio.Event]):
    """The outcome of a send: awaited, it returns when the messages are stored or raises why not."""

    __slots__ = ()

    _kind = asyncio.Event

    async def wait(self) -> None:
        """Returns when the messages are stored, raises when they could not be."""
        await self._done.wait()
        self._raise_fault()

    def __await__(self) -> Generator[Any, None, None]:
        return self.wait().__await__()


class Outcome(_Outcome[threading.Event]):
    """The outcome of a send."""

    __slots__ = ()

    _kind = threading.Event

    def wait(self) -> None:
        """Returns when the messages are stored, raises when they could not be."""
        self._done.wait()
        self._raise_fault()


class AsyncWorker:
    """Runs a function in the background: a task."""

    def __init__(self, act: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._task = asyncio.create_task(act(), name=name)

    async def join(self) -> None:
        """Returns when the function has returned."""
        await asyncio.wait([self._task])


class Worker:
    """Runs a function in the background: a thread."""

    def __init__(self, act: Callable[[], None], name: str) -> None:
        self._thread = threading.Thread(target=act, name=name, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Returns when the function has returned."""
        self._thread.join()


async def async_each(act: Callable[[T], Awaitable[None]], items: Sequence[T]) -> None:
    """Call the function with every item concurrently; it must not raise."""
    if len(items) == 1:
        await act(items[0])
    elif items:
        await asyncio.gather(*map(act, items))


def each(act: Callable[[T], None], items: Sequence[T]) -> None:
    """Call the function with every item, one after another; it must not raise."""
    for item in items:
        act(item)


async def async_tell(callback: Callable[[T], Any] | None, value: T) -> None:
    """Call a callback, if there is one; what it returns may be awaitable."""
    if callback is not None:
        returned = callback(value)
        if inspect.isawaitable(returned):
            await returned


def tell(callback: Callable[[T], Any] | None, value: T) -> None:
    """Call a callback, if there is one."""
    if callback is not None:
        callback(value)
