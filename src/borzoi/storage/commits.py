"""Group commit: one sync acknowledges all messages that were written before it began.

At most one sync of a log is running. Requests that arrive meanwhile share the next one, which
begins as soon as the first ends, so the number of syncs follows the speed of the disk and not the
number of appenders.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from borzoi.model.errors import StorageFailure
from borzoi.storage.media import File
from borzoi.storage.syncing import InlineSyncer, Job, Syncer, outcome


class SyncPlan(NamedTuple):
    """The next sync: the job, and what it proves when it succeeds."""

    job: Job
    #: All messages below this offset are on the disk then.
    offset: int
    succeeded: Callable[[], None]
    #: The files, if the job is nothing but `fdatasync` of them.
    files: Sequence[File] = ()


class Waiter(asyncio.Future[None]):
    """The future of an append. It cannot be cancelled.

    Until it is resolved the log writes from the appender's buffer, so it must not end before the
    write does. A task that is cancelled meanwhile sees the cancellation afterwards.
    """

    def cancel(self, msg: object | None = None) -> bool:
        return False


class _Sync:
    """The running sync, and how to block until it ends."""

    __slots__ = ("finish", "plan")

    def __init__(self, plan: SyncPlan) -> None:
        self.plan = plan
        self.finish = plan.job


class GroupCommit:
    """Futures by the offset they wait for, and the sync that is running.

    `plan(with_open)` returns the next sync: of the sealed segments only, or of the open one as
    well. `failed` is called once; a sync that failed is never retried.
    """

    __slots__ = ("_again", "_failed", "_plan", "_running", "_syncer", "_waiting")

    def __init__(
        self,
        syncer: Syncer,
        plan: Callable[[bool], SyncPlan],
        failed: Callable[[StorageFailure], None],
    ) -> None:
        self._syncer = syncer
        self._plan = plan
        self._failed = failed
        #: Created on demand: thousands of logs have no waiters.
        self._waiting: deque[tuple[int, Waiter]] | None = None
        self._running: _Sync | None = None
        self._again = False

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def wait(self, offset: int, waiter: Waiter) -> None:
        """Resolve `waiter` when everything below `offset` is on the disk; needs a `request`."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append((offset, waiter))

    def request(self) -> None:
        """Begin a sync, now or when the running one has ended."""
        if self._running is not None:
            self._again = True
        else:
            self._begin()

    def settle(self) -> None:
        """Wait for the running sync to end.

        A concurrent second sync of the same file would not see the failure of the first.
        """
        running = self._running
        if running is not None:
            self._ended(running, outcome(running.finish))

    def release(self, offset: int) -> None:
        """Everything below `offset` is on the disk: resolve its waiters."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= offset:
            waiting.popleft()[1].set_result(None)

    def abandon(self, failure: StorageFailure | None) -> None:
        """Resolve all futures, and ignore the result of the running sync."""
        self._running = None
        self._again = False
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            for _, waiter in waiting:
                answer(waiter, failure)

    def _begin(self) -> None:
        self._again = False
        plan = self._plan(bool(self._waiting))
        sync = self._running = _Sync(plan)
        syncer = _syncer_here(self._syncer)
        sync.finish = syncer.submit(plan.job, partial(self._ended, sync), plan.files)

    def _ended(self, sync: _Sync, failure: StorageFailure | None) -> None:
        # It refers to this callback: break the cycle, or the files stay open until a collection.
        sync.finish = _nothing_to_do
        if sync is not self._running:
            return  # purged, fenced, closed or settled meanwhile
        self._running = None
        if failure is not None:
            self.abandon(failure)
            self._failed(failure)
            return
        sync.plan.succeeded()
        self.release(sync.plan.offset)
        if self._again or self._waiting:
            self._begin()


def _nothing_to_do() -> None:
    """A placeholder for a sync that has ended."""


def _syncer_here(syncer: Syncer) -> Syncer:
    """Without a running loop there are no callbacks: sync at once."""
    return syncer if running_loop() is not None else InlineSyncer()


def answer(waiter: Waiter, failure: StorageFailure | None = None) -> None:
    """Resolve the waiter."""
    if failure is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(failure)
        waiter.exception()  # retrieved: the client may have disconnected


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
