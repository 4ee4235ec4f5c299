"""Syncs without threads: `fdatasync` handed to the kernel's io_uring, answered on the event loop.

The kernel carries the syncs out on threads of its own and adds to an eventfd when one has ended;
the loop watches that. Jobs that do more than `fdatasync` run on the threads of `ThreadSyncer`, and
so does everything where io_uring or the package `liburing` (the extra `uring`) is missing or does
not work: `best_syncer` finds out and says which it is.
"""

import asyncio
import contextlib
import errno
import importlib.util
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

from borzoi.model.errors import CannotSync
from borzoi.storage.local import LocalFile
from borzoi.storage.media import File
from borzoi.storage.syncing import Done, Job, ThreadSyncer

logger = logging.getLogger(__name__)

#: Syncs under way at once. The completion queue holds twice as many, so it never overflows; what
#: comes on top goes to the threads.
ENTRIES: Final = 256
#: IORING_FSYNC_DATASYNC; older releases of the package do not name it.
DATASYNC: Final = 1
#: For the trial in a child process: interpreter, imports and one sync.
TRIAL_SECONDS: Final = 20


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


class KernelRing:
    """A ring of the kernel, through the package `liburing`. `OSError` when there is none to have.

    The package changed the names of its classes in 2026 and raises where it used to return; both
    ways are understood.
    """

    __slots__ = ("_completion", "_package", "_ring", "eventfd")

    def __init__(self, entries: int = ENTRIES) -> None:
        import liburing

        self._package: Any = liburing
        is_recent = hasattr(liburing, "Ring")
        self._ring = liburing.Ring() if is_recent else liburing.io_uring()
        self._completion = liburing.Cqe() if is_recent else liburing.io_uring_cqe()
        liburing.io_uring_queue_init(entries, self._ring)
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            liburing.io_uring_register_eventfd(self._ring, self.eventfd)
        except OSError:
            self.close()
            raise

    def submit(self, syncs: Sequence[tuple[int, int]]) -> int:
        package = self._package
        for number, descriptor in syncs:
            entry = package.io_uring_get_sqe(self._ring)
            assert entry, "more syncs under way than the ring has entries"
            package.io_uring_prep_fsync(entry, descriptor, DATASYNC)
            entry.user_data = number
        taken = 0
        with contextlib.suppress(OSError):
            while taken < len(syncs):
                more = package.io_uring_submit(self._ring)
                if more <= 0:
                    break
                taken += more
        return taken

    def reap(self) -> list[tuple[int, int]]:
        # The eventfd first: what ends after this makes it readable again.
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.eventfd)
        package = self._package
        ended = []
        for _ in range(package.io_uring_cq_ready(self._ring)):
            package.io_uring_peek_cqe(self._ring, self._completion)
            completion = self._completion[0]
            ended.append((completion.user_data, _errno_of(completion)))
            package.io_uring_cqe_seen(self._ring, completion)
        return ended

    def close(self) -> None:
        self._package.io_uring_queue_exit(self._ring)
        os.close(self.eventfd)


class _Flight:
    """A job under way: the syncs it still waits for, and what the first failed one said."""

    __slots__ = ("done", "failure", "left")

    def __init__(self, done: Done, left: int) -> None:
        self.done = done
        self.left = left
        self.failure: CannotSync | None = None


class UringSyncer:
    """Hands syncs of local files to a ring, and every other job to threads."""

    __slots__ = ("_flying", "_loop", "_numbers", "_ring", "_threads", "_usable")

    def __init__(self, ring: Ring, threads: ThreadSyncer | None = None) -> None:
        self._ring = ring
        self._threads = threads or ThreadSyncer()
        #: The file of each sync under way is held: its descriptor must not become another file's.
        self._flying: dict[int, tuple[_Flight, File]] = {}
        self._numbers = count(1)  # the package takes no 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._usable = True

    def submit(self, job: Job, done: Done, files: Sequence[File] = ()) -> Job:
        """Call from the event loop that shall run `done`; a syncer serves one loop at a time."""
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
            logger.warning("io_uring takes no more syncs; they run on threads from now on")
            if not taken:
                for number, _ in syncs:
                    del self._flying[number]
                return self._threads.submit(job, done)
            # A second try proves nothing about those that were taken: an error is told once.
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
            loop.add_reader(self._ring.eventfd, self._reap)

    def _finish(self, flight: _Flight) -> None:
        while flight.left:
            self._wait()
        if flight.failure is not None:
            raise flight.failure

    def _wait(self) -> None:
        """Block until something has ended, and take note of it."""
        poll = select.poll()
        poll.register(self._ring.eventfd, select.POLLIN)
        poll.poll()
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
        """Later, not now: whoever waits in `_finish` is in the middle of something."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon(flight.done, flight.failure)


def best_syncer() -> ThreadSyncer | UringSyncer:
    """The syncer of a shard: io_uring where it was seen to work, else threads."""
    reason = why_not()
    if reason is None:
        try:
            ring = KernelRing()
        except OSError as error:
            reason = str(error)
        else:
            logger.info("syncs go through io_uring")
            return UringSyncer(ring)
    logger.info("syncs run on threads: %s", reason)
    return ThreadSyncer()


def why_not() -> str | None:
    """Why io_uring cannot be used here; None when it can.

    Tried out in a child: a package that was built for another processor does not raise, it kills
    the process that calls it.
    """
    if importlib.util.find_spec("liburing") is None:
        return "the package liburing is not installed (extra: uring)"
    code = f"from {__name__} import try_out; try_out()"
    try:
        trial = subprocess.run(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=TRIAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"io_uring could not be tried out: {error}"
    if trial.returncode < 0:
        return f"the package liburing ends with {signal.Signals(-trial.returncode).name} here"
    if trial.returncode > 0:
        return (trial.stderr.strip().splitlines() or ["io_uring does not work here"])[-1]
    return None


def try_out() -> None:
    """One sync through a ring; raises, or dies, where that does not work."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "file"
        file = LocalFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        file.write([b"written"], 0)
        ring = KernelRing()
        if ring.submit([(1, file.fileno())]) != 1:
            raise OSError("io_uring takes no sync")
        select.select([ring.eventfd], [], [], TRIAL_SECONDS)
        ended = ring.reap()
        ring.close()
        if ended != [(1, 0)]:
            raise OSError(f"a sync through io_uring ended as {ended}")


def _errno_of(completion: Any) -> int:
    try:
        result: int = completion.res
    except OSError as error:
        return error.errno or errno.EIO
    return -result
