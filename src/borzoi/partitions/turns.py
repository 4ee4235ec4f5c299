"""A fair queue for work that takes longer than one turn of the event loop.

A client may send thousands of requests in one read, or request gigabytes that have to be decrypted.
Long work is cut into shares, which queue up here. Each turn of the loop runs shares for a quarter
of a millisecond and then polls the sockets again. A client with one small request at a time never
waits in this queue.
"""

import asyncio
import logging
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

log = logging.getLogger(__name__)

#: How long a turn runs shares; the current share is finished.
TURN_SECONDS: Final = 0.25e-3

T = TypeVar("T")
#: Work that yields after each share and returns its result.
Work: TypeAlias = Generator[None, None, T]


class Turns:
    """The queue of one event loop."""

    __slots__ = ("__weakref__", "_clock", "_is_due", "_waiting")

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False

    @property
    def waiting(self) -> int:
        """How many are queued."""
        return len(self._waiting)

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` in a later turn, after those already queued. It does one share of its work,
        and queues up again if there is more."""
        self._waiting.append(go_on)
        self._come_back()

    def work(self, work: Work[T]) -> "Future[T]":
        """Do the work share by share; cancelling the future ends it after the current one."""
        done: Future[T] = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            if done.cancelled():
                work.close()
                return
            try:
                next(work)
            except StopIteration as end:
                done.set_result(end.value)
            except Exception as fault:
                done.set_exception(fault)
            else:
                self._waiting.append(go_on)

        self.wait(go_on)
        return done

    async def share(self, do: Callable[[], T]) -> T:
        """Do one share of work when its turn has come."""

        def work() -> Work[T]:
            yield from ()
            return do()

        return await self.work(work())

    def _come_back(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_due = False
        waiting = self._waiting
        until = self._clock() + TURN_SECONDS
        while waiting:
            try:
                waiting.popleft()()
            except Exception:
                # Its owner must handle its connection; the others stay queued.
                log.exception("a share of work failed")
            if self._clock() >= until:
                break
        if waiting:
            self._come_back()


_lines: "WeakKeyDictionary[AbstractEventLoop, Turns]" = WeakKeyDictionary()


def turns() -> Turns:
    """Return the queue of the running loop."""
    loop = asyncio.get_running_loop()
    found = _lines.get(loop)
    if found is None:
        found = _lines[loop] = Turns()
    return found
