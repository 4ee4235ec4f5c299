"""Syncs off the event loop: a sync takes as long as the disk does, and the loop must not wait.

A job is a function that blocks; `done` is called with its failure or with nothing, on the thread
that submitted it. One syncer serves all partitions of a shard: `ThreadSyncer`, or where the system
allows it the one of `storage/uring.py`, whose `best_syncer` chooses.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from time import perf_counter_ns
from typing import Final, NamedTuple, Protocol, TypeAlias

from borzoi.model.errors import CannotSync, StorageFailure
from borzoi.storage.media import File
from borzoi.telemetry.durations import Ongoing

Job: TypeAlias = Callable[[], None]
Done: TypeAlias = Callable[[StorageFailure | None], None]

#: The disk merges what several threads ask for; more threads than this gain nothing.
SYNC_THREADS: Final = 4


class Syncer(Protocol):
    def submit(self, job: Job, done: Done, files: Sequence[File] = ()) -> Job:
        """Begin the job; `done` is called when it has ended.

        `files` are given when the job is `fdatasync` of these and nothing else, for a syncer that
        can do this without a thread. What is returned blocks until the job has ended and raises
        its failure, for callers that cannot return to the event loop first.
        """
        ...


class Once:
    """A job that runs once, on whichever thread comes first; the other one waits."""

    __slots__ = ("_ended", "_failure", "_job", "_lock")

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lock = threading.Lock()
        self._ended = False
        self._failure: StorageFailure | None = None

    def run(self) -> None:
        with self._lock:
            if not self._ended:
                self._failure = outcome(self._job)
                self._ended = True
        if self._failure is not None:
            raise self._failure


class InlineSyncer:
    """Runs each job at once, for tools and tests without an event loop."""

    __slots__ = ()

    def submit(self, job: Job, done: Done, files: Sequence[File] = ()) -> Job:
        once = Once(job)
        done(outcome(once.run))
        return once.run


class TimedSyncer:
    """Measures how long the jobs of another syncer take, from the call to the answer."""

    __slots__ = ("_durations", "_syncer")

    def __init__(self, syncer: Syncer, durations: Ongoing) -> None:
        self._syncer = syncer
        self._durations = durations

    def submit(self, job: Job, done: Done, files: Sequence[File] = ()) -> Job:
        began = perf_counter_ns()
        self._durations.pending += 1

        def noted(failure: StorageFailure | None) -> None:
            self._durations.pending -= 1
            self._durations.observe(perf_counter_ns() - began)
            done(failure)

        return self._syncer.submit(job, noted, files)


class _Submitted(NamedTuple):
    job: Job
    done: Done
    loop: asyncio.AbstractEventLoop


class ThreadSyncer:
    """Runs jobs on a few threads, started when the first one comes."""

    __slots__ = ("_queue", "_threads", "_threads_max")

    def __init__(self, threads: int = SYNC_THREADS) -> None:
        self._queue: SimpleQueue[_Submitted | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._threads_max = threads

    def submit(self, job: Job, done: Done, files: Sequence[File] = ()) -> Job:
        """Call from the event loop that shall run `done`."""
        once = Once(job)
        self._queue.put(_Submitted(once.run, done, asyncio.get_running_loop()))
        if len(self._threads) < self._threads_max and self._queue.qsize() > 0:
            thread = threading.Thread(target=self._work, name="sync", daemon=True)
            self._threads.append(thread)
            thread.start()
        return once.run

    def close(self) -> None:
        """Finish what was submitted and end the threads."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _work(self) -> None:
        while (submitted := self._queue.get()) is not None:
            failure = outcome(submitted.job)
            # The callback has no receiver when the loop was closed meanwhile.
            with contextlib.suppress(RuntimeError):
                submitted.loop.call_soon_threadsafe(submitted.done, failure)
            # A thread that waits for the next job must not keep the files of this one open.
            del submitted


def outcome(job: Job) -> StorageFailure | None:
    """Run the job and return its failure, always as a `StorageFailure`."""
    try:
        job()
    except StorageFailure as failure:
        return _without_frames(failure)
    except Exception as error:
        # On a thread this would be lost, and a failed sync must be reported.
        return CannotSync(f"a sync did not happen: {error!r}")
    return None


def _without_frames(failure: StorageFailure) -> StorageFailure:
    """The failure without its tracebacks: their frames would keep the files of the job open for as
    long as the failure is kept, and a fence keeps it."""
    link: BaseException | None = failure
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return failure
