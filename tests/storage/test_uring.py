"""One contract for all syncers, and what only the ring can get wrong.

The kernel's ring runs where kernel and package allow. The adapter to the package runs everywhere,
over a stand-in that speaks like the releases of 2024 or like those of 2026.
"""

import asyncio
import errno
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from borzoi.model.errors import CannotSync, StorageFailure
from borzoi.storage import uring
from borzoi.storage.commits import GroupCommit, SyncPlan, Waiter
from borzoi.storage.local import LocalFile, LocalMedium
from borzoi.storage.log import open_log
from borzoi.storage.settings import Acknowledge, PartitionSettings
from borzoi.storage.syncing import Job, Syncer, ThreadSyncer
from borzoi.storage.uring import ENTRIES, KernelRing, UringSyncer, best_syncer, why_not
from borzoi.testing.disk import SimulatedDisk
from borzoi.testing.logs import numbered, payloads_in

#: For one sync of a slow disk.
PATIENCE_SECONDS = 60.0

KINDS = ["threads", "package of 2024", "package of 2026", "kernel"]


class Package(ModuleType):
    """As much of `liburing` as is used. A sync is carried out when it is submitted."""

    def __init__(self, *, recent: bool, entries_taken: int | None = None) -> None:
        super().__init__("liburing")
        self.recent = recent
        self.left = entries_taken
        self.fails: dict[int, int] = {}
        self.synced: list[int] = []
        self.eventfd = -1
        self.closed = False
        self._size = 0
        self._queue: list[SimpleNamespace] = []
        self._ended: deque[tuple[int, int]] = deque()
        if recent:
            self.Ring, self.Cqe = object, Completion
        else:
            self.io_uring, self.io_uring_cqe = object, Completion

    def io_uring_queue_init(self, entries: int, ring: object) -> int:
        self._size = entries
        return 0

    def io_uring_register_eventfd(self, ring: object, eventfd: int) -> int:
        self.eventfd = eventfd
        return 0

    def io_uring_get_sqe(self, ring: object) -> SimpleNamespace | None:
        if len(self._queue) == self._size:
            return None
        self._queue.append(SimpleNamespace(user_data=0, descriptor=-1))
        return self._queue[-1]

    def io_uring_prep_fsync(self, entry: SimpleNamespace, descriptor: int, flags: int) -> None:
        assert flags == 1
        entry.descriptor = descriptor

    def io_uring_submit(self, ring: object) -> int:
        limit = len(self._queue) if self.left is None else self.left
        if self._queue and not limit:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        taken, self._queue = self._queue[:limit], self._queue[limit:]
        if self.left is not None:
            self.left -= len(taken)
        for entry in taken:
            self.synced.append(entry.descriptor)
            self._ended.append((entry.user_data, self._sync(entry.descriptor)))
            os.eventfd_write(self.eventfd, 1)
        return len(taken)

    def io_uring_cq_ready(self, ring: object) -> int:
        return len(self._ended)

    def io_uring_peek_cqe(self, ring: object, completion: "Completion") -> int:
        completion.user_data, completion.result = self._ended[0]
        completion.recent = self.recent
        return 0

    def io_uring_cqe_seen(self, ring: object, completion: "Completion") -> None:
        self._ended.popleft()

    def io_uring_queue_exit(self, ring: object) -> None:
        self.closed = True

    def _sync(self, descriptor: int) -> int:
        if descriptor in self.fails:
            return -self.fails[descriptor]
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            return -(error.errno or errno.EIO)
        return 0


class Completion:
    """A completion as the releases of 2024 have it; those of 2026 raise where it is negative."""

    user_data = 0
    result = 0
    recent = False

    def __getitem__(self, number: int) -> "Completion":
        return self

    @property
    def res(self) -> int:
        if self.recent and self.result < 0:
            raise OSError(-self.result, os.strerror(-self.result))
        return self.result


@cache
def why_no_kernel_ring() -> str | None:
    return why_not()


def use(package: Package, monkeypatch: pytest.MonkeyPatch) -> UringSyncer:
    monkeypatch.setitem(sys.modules, "liburing", package)
    return UringSyncer(KernelRing())


@pytest.fixture(params=KINDS)
def syncer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Syncer]:
    made: ThreadSyncer | UringSyncer
    if request.param == "threads":
        made = ThreadSyncer()
    elif request.param == "kernel":
        reason = why_no_kernel_ring()
        if reason is not None:
            pytest.skip(reason)
        made = UringSyncer(KernelRing())
    else:
        made = use(Package(recent=request.param.endswith("2026")), monkeypatch)
    yield made
    made.close()


class Told:
    """What a syncer said, and on which thread."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[StorageFailure | None] = asyncio.Queue()

    def __call__(self, failure: StorageFailure | None) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.answers.put_nowait(failure)

    async def next(self) -> StorageFailure | None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.answers.get()


def file_at(path: Path) -> LocalFile:
    file = LocalMedium().open(path, create=True)
    file.write([b"written"], 0)
    return file


def unsyncable(path: Path) -> LocalFile:
    """A pipe has nothing that could be synced."""
    reader, writer = os.pipe()
    os.close(writer)
    return LocalFile(path, reader)


def job_of(*files: LocalFile) -> Job:
    """What a sync of these files is to the syncers that run jobs."""

    def job() -> None:
        for file in files:
            file.fdatasync()

    return job


# ---- the contract -------------------------------------------------------------------------------


async def test_syncs_are_told_on_the_loop(syncer: Syncer, tmp_path: Path) -> None:
    told = Told()
    files = [file_at(tmp_path / str(number)) for number in range(20)]
    for file in files:
        syncer.submit(job_of(file), told, [file])
    assert told.answers.empty()  # never before `submit` has returned
    assert [await told.next() for _ in files] == [None] * 20


async def test_a_failed_sync_says_which_file_and_why(syncer: Syncer, tmp_path: Path) -> None:
    told = Told()
    broken = unsyncable(tmp_path / "broken")
    whole = file_at(tmp_path / "whole")
    syncer.submit(job_of(whole, broken, whole), told, [whole, broken, whole])
    failure = await told.next()
    assert isinstance(failure, CannotSync)
    assert str(failure) == f"cannot sync {tmp_path / 'broken'}: Invalid argument"
    syncer.submit(job_of(whole), told, [whole])
    assert await told.next() is None


async def test_a_descriptor_that_is_none_is_a_sync_that_failed(
    syncer: Syncer, tmp_path: Path
) -> None:
    told = Told()
    gone = LocalFile(tmp_path / "gone", 1 << 30)
    syncer.submit(job_of(gone), told, [gone])
    assert str(await told.next()) == f"cannot sync {tmp_path / 'gone'}: Bad file descriptor"


async def test_who_cannot_wait_for_the_loop_finishes_the_sync(
    syncer: Syncer, tmp_path: Path
) -> None:
    told = Told()
    whole, broken = file_at(tmp_path / "whole"), unsyncable(tmp_path / "broken")
    other = syncer.submit(job_of(whole), told, [whole])
    finish = syncer.submit(job_of(broken), told, [broken])
    with pytest.raises(CannotSync):
        finish()
    with pytest.raises(CannotSync):
        finish()
    other()
    assert told.answers.empty()  # told when the loop turns, not in the middle of something
    answers = [await told.next(), await told.next()]
    assert sum(isinstance(answer, CannotSync) for answer in answers) == 1


async def test_a_job_that_does_more_is_run_as_it_is(syncer: Syncer) -> None:
    told = Told()
    ran: list[threading.Thread] = []
    syncer.submit(lambda: ran.append(threading.current_thread()), told)
    assert await told.next() is None
    assert ran != [threading.main_thread()]


async def test_the_files_of_another_medium_sync_themselves(syncer: Syncer) -> None:
    disk = SimulatedDisk()
    disk.make_directory(Path("/a"))
    file = disk.open(Path("/a/file"), create=True)
    told = Told()
    syncer.submit(file.fdatasync, told, [file])
    assert await told.next() is None


async def test_more_syncs_than_the_ring_has_room_for(syncer: Syncer, tmp_path: Path) -> None:
    told = Told()
    file = file_at(tmp_path / "file")
    for _ in range(ENTRIES + 50):
        syncer.submit(job_of(file), told, [file])
    assert [await told.next() for _ in range(ENTRIES + 50)] == [None] * (ENTRIES + 50)


def test_a_sync_whose_loop_is_gone_is_finished_quietly(syncer: Syncer, tmp_path: Path) -> None:
    file = file_at(tmp_path / "file")

    def done(failure: StorageFailure | None) -> None:
        raise AssertionError("nobody waits any more")

    async def submit() -> None:
        for _ in range(10):
            syncer.submit(job_of(file), done, [file])

    loop = asyncio.new_event_loop()
    loop.run_until_complete(submit())
    loop.close()


def test_a_syncer_may_serve_the_next_loop(syncer: Syncer, tmp_path: Path) -> None:
    file = file_at(tmp_path / "file")

    async def sync() -> StorageFailure | None:
        told = Told()
        syncer.submit(job_of(file), told, [file])
        return await told.next()

    assert asyncio.run(sync()) is None
    assert asyncio.run(sync()) is None


async def test_a_group_commit_is_answered_and_a_failed_one_fences(
    syncer: Syncer, tmp_path: Path
) -> None:
    file = file_at(tmp_path / "file")
    fenced: list[StorageFailure] = []

    def plan(_: bool) -> SyncPlan:
        return SyncPlan(job_of(file), 1, lambda: None, (file,))

    commits = GroupCommit(syncer, plan, fenced.append)
    waiters = [Waiter(), Waiter(), Waiter()]
    for waiter in waiters[:2]:
        commits.wait(1, waiter)
    commits.request()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*waiters[:2])
    assert fenced == []
    file = unsyncable(tmp_path / "broken")
    commits.wait(1, waiters[2])
    commits.request()
    commits.settle()
    assert isinstance(waiters[2].exception(), CannotSync)
    assert [type(failure) for failure in fenced] == [CannotSync]
    await asyncio.sleep(0)  # told once more by the syncer, to nobody
    assert len(fenced) == 1


async def test_a_log_acknowledges_through_it(syncer: Syncer, tmp_path: Path) -> None:
    log = open_log(
        tmp_path,
        LocalMedium(),
        partition=PartitionSettings(acknowledge=Acknowledge.SYNCED),
        syncer=syncer,
    )
    for number in range(30):
        waiter = log.append(numbered([b"%d" % number], base_offset=number, timestamp=1))
        assert waiter is not None
        if number % 7:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await waiter
            assert log.visible_offset == number + 1
    assert log.append(numbered([b"last"], base_offset=30, timestamp=1)) is not None
    log.close()
    again = open_log(tmp_path, LocalMedium())
    assert payloads_in(again.read(0, 100).materialise())[-2:] == [b"29", b"last"]


@pytest.mark.parametrize("recent", [False, True])
async def test_a_log_uses_the_ring_and_is_fenced_by_its_errors(
    recent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Package(recent=recent)
    syncer = use(package, monkeypatch)
    log = open_log(
        tmp_path,
        LocalMedium(),
        partition=PartitionSettings(acknowledge=Acknowledge.SYNCED),
        syncer=syncer,
    )
    for number in range(3):
        waiter = log.append(numbered([b"kept"], base_offset=number, timestamp=1))
        assert waiter is not None
        await waiter
    # Opening has synced the names on the way, so all of these were syncs of one file.
    assert len(package.synced) == 3
    package.fails = dict.fromkeys(range(1000), errno.EIO)
    waiter = log.append(numbered([b"lost"], base_offset=3, timestamp=1))
    assert waiter is not None
    with pytest.raises(CannotSync, match="Input/output error"):
        await waiter
    assert isinstance(log.fenced, CannotSync)
    assert log.visible_offset == 3
    with pytest.raises(CannotSync):
        log.append(numbered([b"refused"], base_offset=3, timestamp=1))
    log.close()
    syncer.close()


# ---- the ring -----------------------------------------------------------------------------------


@pytest.mark.parametrize("recent", [False, True])
async def test_an_error_of_the_disk_is_told(
    recent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Package(recent=recent)
    syncer = use(package, monkeypatch)
    first, second = file_at(tmp_path / "first"), file_at(tmp_path / "second")
    package.fails[second.fileno()] = errno.EIO
    told = Told()
    syncer.submit(job_of(first, second), told, [first, second])
    assert str(await told.next()) == f"cannot sync {tmp_path / 'second'}: Input/output error"
    assert package.synced == [first.fileno(), second.fileno()]
    syncer.close()
    assert package.closed


async def test_a_ring_that_takes_nothing_is_replaced_by_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    package = Package(recent=True, entries_taken=1)
    syncer = use(package, monkeypatch)
    file = file_at(tmp_path / "file")
    told = Told()
    for _ in range(4):
        syncer.submit(job_of(file), told, [file])
    assert [await told.next() for _ in range(4)] == [None] * 4
    assert len(package.synced) == 1
    assert caplog.text.count("on threads from now on") == 1
    syncer.close()


async def test_a_ring_that_takes_half_of_a_sync_has_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncer = use(Package(recent=True, entries_taken=1), monkeypatch)
    first, second = file_at(tmp_path / "first"), file_at(tmp_path / "second")
    told = Told()
    finish = syncer.submit(job_of(first, second), told, [first, second])
    with pytest.raises(CannotSync, match="not begun"):
        finish()
    assert isinstance(await told.next(), CannotSync)
    syncer.close()


def test_a_ring_without_an_eventfd_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Package(recent=True)

    def refuse(ring: object, eventfd: int) -> int:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(package, "io_uring_register_eventfd", refuse, raising=False)
    monkeypatch.setitem(sys.modules, "liburing", package)
    with pytest.raises(OSError, match="busy"):
        KernelRing()
    assert package.closed


# ---- the choice ---------------------------------------------------------------------------------

DIES = """
import os, signal
def io_uring_queue_init(entries, ring): os.kill(os.getpid(), signal.SIGILL)
class Ring: pass
class Cqe: pass
"""
REFUSED = DIES.replace("os.kill(os.getpid(), signal.SIGILL)", "raise PermissionError(1, 'no ring')")


@pytest.fixture
def package_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a package `liburing` comes before any other, here and in child processes."""
    monkeypatch.delitem(sys.modules, "liburing", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path / "liburing.py"


@pytest.mark.parametrize(
    ("package", "why"), [(DIES, "ends with SIGILL here"), (REFUSED, "PermissionError: [Errno 1]")]
)
async def test_where_the_ring_does_not_work_threads_sync_and_the_log_says_why(
    package: str, why: str, package_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    package_path.write_text(package)
    caplog.set_level(logging.INFO)
    syncer = best_syncer()
    assert isinstance(syncer, ThreadSyncer)
    assert why in caplog.text
    assert len(caplog.records) == 1
    told = Told()
    syncer.submit(lambda: None, told)
    assert await told.next() is None
    syncer.close()


def test_a_ring_that_is_refused_after_all_leaves_threads(
    monkeypatch: pytest.MonkeyPatch, package_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    package_path.write_text(REFUSED)
    monkeypatch.setattr(uring, "why_not", lambda: None)
    caplog.set_level(logging.INFO)
    assert isinstance(best_syncer(), ThreadSyncer)
    assert "no ring" in caplog.text


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert why_not() == "the package liburing is not installed (extra: uring)"


def test_without_an_interpreter_nothing_is_tried(
    monkeypatch: pytest.MonkeyPatch, package_path: Path
) -> None:
    package_path.write_text(DIES)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert "could not be tried out" in str(why_not())


@pytest.mark.parametrize("recent", [False, True])
def test_the_trial_is_one_sync(recent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    package = Package(recent=recent)
    monkeypatch.setitem(sys.modules, "liburing", package)
    uring.try_out()
    assert len(package.synced) == 1
    assert package.closed


def test_the_trial_fails_with_the_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Package(recent=True, entries_taken=0)
    monkeypatch.setitem(sys.modules, "liburing", package)
    with pytest.raises(OSError, match="takes no sync"):
        uring.try_out()
    broken = Package(recent=True)
    broken.fails = dict.fromkeys(range(100), errno.EIO)
    monkeypatch.setitem(sys.modules, "liburing", broken)
    with pytest.raises(OSError, match=r"\(1, 5\)"):
        uring.try_out()


def test_where_it_works_it_is_used(caplog: pytest.LogCaptureFixture) -> None:
    reason = why_no_kernel_ring()
    if reason is not None:
        pytest.skip(reason)
    caplog.set_level(logging.INFO)
    syncer = best_syncer()
    assert isinstance(syncer, UringSyncer)
    assert "syncs go through io_uring" in caplog.text
    syncer.close()
