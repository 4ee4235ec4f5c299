"""Syncs without threads: `fdatasync` by the kernel's io_uring, completed on the event loop.

The kernel carries the syncs out on threads of its own and adds to an eventfd when one has ended;
the loop watches that. Jobs that do more than `fdatasync` run on the threads of `ThreadSyncer`, and
so does everything where io_uring is missing, forbidden or does not work: `best_syncer` finds out
and says which it is.
"""

import asyncio
import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Final, Protocol

from borzoi.model.errors import CannotSync, StorageFailure
from borzoi.storage.descriptors import OnDemandFile
from borzoi.storage.kernel_ring import ENTRIES, KernelRing
from borzoi.storage.local import LocalFile
from borzoi.storage.media import File
from borzoi.storage.syncing import Done, Job, ThreadSyncer

logger = logging.getLogger(__name__)

#: For the probe: syncing a file in memory takes no time if io_uring works.
TRIAL_MS: Final = 2000
#: How often a thread that waits for a sync looks whether the loop has seen its end.
LOOK_AGAIN_SECONDS: Final = 0.001


class Ring(Protocol):
    """Two queues shared with the kernel. A descriptor goes in, its number and an errno come out."""

    @property
    def eventfd(self) -> int:
        """Readable when there is something to reap."""
        ...

    def submit(self, syncs: Sequence[tuple[int, int]]) -> int:
        """Begin `fdatasync` of (number, descriptor) pairs; how many of them the kernel took."""
        ...

    def reap(self) -> list[tuple[int, int]]:
        """Take out (number, errno) of the syncs that have ended; errno 0 is success."""
        ...

    def close(self) -> None: ...


class _Flight:
    """A job in flight: its pending syncs, and the first failure."""

    __slots__ = ("done", "failure", "left")

    def __init__(self, done: Done, left: int) -> None:
        self.done = done
        self.left = left
        self.failure: CannotSync | None = None


def _told(_: StorageFailure | None) -> None:
    """A placeholder for a `done` that was called."""
    raise AssertionError("a sync ends once")


class UringSyncer:
    """Hands syncs of local files to a ring, and every other job to threads."""

    __slots__ = ("_flying", "_loop", "_numbers", "_ring", "_thread", "_threads", "_usable")

    def __init__(self, ring: Ring, threads: ThreadSyncer | None = None) -> None:
        self._ring = ring
        self._threads = ThreadSyncer() if threads is None else threads
        #: The file of each sync in flight is kept open: its descriptor must not be reused.
        self._flying: dict[int, tuple[_Flight, File]] = {}
        self._numbers = count()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._usable = True

    def submit(self, job: Job, done: Done, files: Sequence[File] = ()) -> Job:
        """Call from the event loop that shall run `done`; a syncer serves one loop at a time."""
        files = _held(files)
        if not self._takes(files):
            return self._threads.submit(job, done)
        self._watch()
        flight = _Flight(done, len(files))
        syncs = []
        for file in files:
            number = next(self._numbers)
            self._flying[number] = (flight, file)
            syncs.append((number, file.fileno()))
        taken = self._ring.submit(syncs)
        if taken < len(syncs):
            # The rest stays in a queue that is never handed over again.
            self._usable = False
            logger.warning("io_uring accepts no more syncs; using threads from now on")
            if not taken:
                for number, _ in syncs:
                    del self._flying[number]
                return self._threads.submit(job, done)
            # Do not retry those that were taken: the kernel reports an error only once.
            self._land([(number, "it was not begun") for number, _ in syncs[taken:]])
        return partial(self._finish, flight)

    def close(self) -> None:
        """Finish what was submitted; end the ring and the threads."""
        while self._flying:
            self._wait()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._ring.eventfd)
        self._ring.close()
        self._threads.close()

    def _takes(self, files: Sequence[File]) -> bool:
        """Only local files: what a sync is to another medium, only that medium knows."""
        return (
            self._usable
            and len(files) > 0
            and len(self._flying) + len(files) <= ENTRIES
            and all(isinstance(file, LocalFile) for file in files)
        )

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            assert self._loop is None or self._loop.is_closed()
            self._loop = loop
            self._thread = threading.get_ident()
            loop.add_reader(self._ring.eventfd, self._reap)

    def _finish(self, flight: _Flight) -> None:
        while flight.left:
            if (
                threading.get_ident() == self._thread
                or self._loop is None
                or self._loop.is_closed()
            ):
                self._wait()
            else:
                # The loop takes note of what ends; two must not do so at once.
                time.sleep(LOOK_AGAIN_SECONDS)
        if flight.failure is not None:
            raise flight.failure

    def _wait(self) -> None:
        """Block until something has ended, and take note of it."""
        _wait_for(self._ring.eventfd)
        self._reap()

    def _reap(self) -> None:
        self._land(
            [(number, os.strerror(error) if error else "") for number, error in self._ring.reap()]
        )

    def _land(self, ended: list[tuple[int, str]]) -> None:
        """Syncs have ended, each with the reason of its failure or none."""
        for number, reason in ended:
            flight, file = self._flying.pop(number)
            if reason and flight.failure is None:
                flight.failure = CannotSync(f"cannot sync {file.path}: {reason}")
            flight.left -= 1
            if not flight.left:
                self._tell(flight)

    def _tell(self, flight: _Flight) -> None:
        """Call back later, not now: `_finish` may be waiting on another thread."""
        assert self._loop is not None
        # The caller's `done` leads back to the flight, by what `submit` returned. The circle would
        # hold the files of a deleted partition, with their memory, until the collector runs.
        done, flight.done = flight.done, _told
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon(done, flight.failure)


def _held(files: Sequence[File]) -> Sequence[File]:
    """The files as they are open now: while one is held, making room for others does not close it.
    None where one cannot be opened; the job knows what to make of that."""
    try:
        return [file.held() if isinstance(file, OnDemandFile) else file for file in files]
    except StorageFailure:
        return ()


def best_syncer() -> ThreadSyncer | UringSyncer:
    """The syncer of a shard: io_uring where it was seen to work, else threads."""
    try:
        ring = working_ring()
    except OSError as error:
        logger.info("syncs run on threads: %s", error)
        return ThreadSyncer()
    logger.info("syncs go through io_uring")
    return UringSyncer(ring)


def working_ring() -> KernelRing:
    """Return a ring that has completed a sync; `OSError` if there is none."""
    ring = KernelRing()
    try:
        descriptor = os.memfd_create("borzoi-trial", os.MFD_CLOEXEC)
        try:
            if ring.submit([(0, descriptor)]) != 1:
                raise OSError("io_uring accepts no sync")
            _wait_for(ring.eventfd, TRIAL_MS)
            ended = ring.reap()
        finally:
            os.close(descriptor)
        if ended != [(0, 0)]:
            raise OSError(f"a sync through io_uring ended as {ended}")
    except OSError:
        ring.close()
        raise
    return ring


def _wait_for(eventfd: int, milliseconds: int | None = None) -> None:
    poll = select.poll()
    poll.register(eventfd, select.POLLIN)
    poll.poll(milliseconds)
