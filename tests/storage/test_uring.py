"""One contract for all syncers, and what only a ring can get wrong.

The kernel's own ring runs wherever there is one. What cannot be had from a healthy disk and kernel,
errors and a ring that takes no more, comes from a stand-in for the ring.
"""

import asyncio
import errno
import gc
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.lenient import LenientMedium
from tests.support.logs import numbered, payloads_in

from borzoi.model.errors import CannotSync, StorageFailure
from borzoi.storage import uring
from borzoi.storage.commits import GroupCommit, SyncPlan, Waiter
from borzoi.storage.kernel_ring import ENTRIES, KernelRing
from borzoi.storage.local import LocalFile
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.settings import Acknowledge, PartitionSettings
from borzoi.storage.syncing import Job, Syncer, ThreadSyncer
from borzoi.storage.uring import UringSyncer, best_syncer, working_ring

#: For one sync of a slow disk.
PATIENCE_SECONDS = 60.0

KINDS = ["threads", "stand-in", "kernel"]


class StandIn:
    """A ring that carries out a sync when it is submitted, or fails it on request."""

    def __init__(self, *, entries_taken: int | None = None) -> None:
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.left = entries_taken
        self.fails: dict[int, int] = {}
        self.synced: list[int] = []
        self.closed = False
        self._ended: deque[tuple[int, int]] = deque()

    def submit(self, syncs: Sequence[tuple[int, int]]) -> int:
        taken = syncs if self.left is None else syncs[: self.left]
        if self.left is not None:
            self.left -= len(taken)
        for number, descriptor in taken:
            self.synced.append(descriptor)
            self._ended.append((number, self._sync(descriptor)))
            os.eventfd_write(self.eventfd, 1)
        return len(taken)

    def reap(self) -> list[tuple[int, int]]:
        if self._ended:
            os.eventfd_read(self.eventfd)
        ended = list(self._ended)
        self._ended.clear()
        return ended

    def close(self) -> None:
        self.closed = True
        os.close(self.eventfd)

    def _sync(self, descriptor: int) -> int:
        if descriptor in self.fails:
            return self.fails[descriptor]
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            return error.errno or errno.EIO
        return 0


@cache
def why_no_kernel_ring() -> str | None:
    try:
        working_ring().close()
    except OSError as error:
        return str(error)
    return None


@pytest.fixture(params=KINDS)
def syncer(request: pytest.FixtureRequest) -> Iterator[Syncer]:
    made: ThreadSyncer | UringSyncer
    if request.param == "threads":
        made = ThreadSyncer()
    elif request.param == "kernel":
        reason = why_no_kernel_ring()
        if reason is not None:
            pytest.skip(reason)
        made = UringSyncer(KernelRing())
    else:
        made = UringSyncer(StandIn())
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
    file = LenientMedium().open(path, create=True)
    file.write([b"written"], 0)
    return file


def unsyncable(path: Path) -> LocalFile:
    """A pipe has nothing that could be synced."""
    reader, writer = os.pipe()
    os.close(writer)
    file = LocalFile(path, reader)
    file.share()
    return file


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
    gone = file_at(tmp_path / "gone")
    gone.close()
    syncer.submit(job_of(gone), told, [gone])
    assert str(await told.next()) == f"cannot sync {tmp_path / 'gone'}: Bad file descriptor"


async def test_a_file_is_closed_when_its_sync_is_over(syncer: Syncer, tmp_path: Path) -> None:
    """Also while nothing else is synced, and before the garbage collector runs."""
    file = file_at(tmp_path / "deleted")
    held = Path(f"/proc/self/fd/{file.fileno()}")
    plans = [SyncPlan(job_of(file), 1, lambda: None, [file])]
    commits = GroupCommit(syncer, lambda _: plans.pop(), lambda _: None)
    waiter = Waiter()
    commits.wait(1, waiter)
    gc.disable()
    try:
        commits.request()
        await waiter
        del file, waiter
        (tmp_path / "deleted").unlink()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while held.exists() or held.is_symlink():  # until the thread has come back to wait
                await asyncio.sleep(0.001)
    finally:
        gc.enable()


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


async def test_also_who_waits_on_another_thread_while_the_loop_turns(
    syncer: Syncer, tmp_path: Path
) -> None:
    told = Told()
    file = file_at(tmp_path / "file")
    async with asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(100):
            finish = syncer.submit(job_of(file), told, [file])
            await asyncio.to_thread(finish)
            assert await told.next() is None


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
    await asyncio.sleep(0)  # the syncer resolves it once more, without a waiter
    assert len(fenced) == 1


def synced_log(directory: Path, syncer: Syncer) -> SegmentedLog:
    settings = PartitionSettings(acknowledge=Acknowledge.SYNCED)
    return open_log(directory, LenientMedium(), partition=settings, syncer=syncer)


async def test_a_log_acknowledges_through_it(syncer: Syncer, tmp_path: Path) -> None:
    log = synced_log(tmp_path, syncer)
    for number in range(30):
        waiter = log.append(numbered([b"%d" % number], base_offset=number, timestamp=1))
        assert waiter is not None
        if number % 7:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await waiter
            assert log.visible_offset == number + 1
    assert log.append(numbered([b"last"], base_offset=30, timestamp=1)) is not None
    log.close()
    again = open_log(tmp_path, LenientMedium())
    assert payloads_in(again.read(0, 100).materialise())[-2:] == [b"29", b"last"]


async def test_a_log_uses_the_ring_and_is_fenced_by_its_errors(tmp_path: Path) -> None:
    ring = StandIn()
    syncer = UringSyncer(ring)
    log = synced_log(tmp_path, syncer)
    for number in range(3):
        waiter = log.append(numbered([b"kept"], base_offset=number, timestamp=1))
        assert waiter is not None
        await waiter
    # Opening has synced the names on the way, so all of these were syncs of one file.
    assert len(ring.synced) == 3
    ring.fails = dict.fromkeys(range(1 << 16), errno.EIO)
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


async def test_an_error_of_the_disk_is_told(tmp_path: Path) -> None:
    ring = StandIn()
    syncer = UringSyncer(ring)
    first, second = file_at(tmp_path / "first"), file_at(tmp_path / "second")
    ring.fails[second.fileno()] = errno.EIO
    told = Told()
    syncer.submit(job_of(first, second), told, [first, second])
    assert str(await told.next()) == f"cannot sync {tmp_path / 'second'}: Input/output error"
    assert ring.synced == [first.fileno(), second.fileno()]
    syncer.close()
    assert ring.closed


async def test_a_ring_that_takes_nothing_is_replaced_by_threads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ring = StandIn(entries_taken=1)
    syncer = UringSyncer(ring)
    file = file_at(tmp_path / "file")
    told = Told()
    for _ in range(4):
        syncer.submit(job_of(file), told, [file])
    assert [await told.next() for _ in range(4)] == [None] * 4
    assert len(ring.synced) == 1
    assert caplog.text.count("using threads from now on") == 1
    syncer.close()


async def test_a_ring_that_takes_half_of_a_sync_has_not_synced(tmp_path: Path) -> None:
    syncer = UringSyncer(StandIn(entries_taken=1))
    first, second = file_at(tmp_path / "first"), file_at(tmp_path / "second")
    told = Told()
    finish = syncer.submit(job_of(first, second), told, [first, second])
    with pytest.raises(CannotSync, match="not begun"):
        finish()
    assert isinstance(await told.next(), CannotSync)
    syncer.close()


# ---- the choice ---------------------------------------------------------------------------------


def no_ring() -> KernelRing:
    raise PermissionError(errno.EPERM, "no ring")


async def test_where_there_is_no_ring_threads_sync_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(uring, "KernelRing", no_ring)
    caplog.set_level(logging.INFO)
    syncer = best_syncer()
    assert isinstance(syncer, ThreadSyncer)
    assert "no ring" in caplog.text
    assert len(caplog.records) == 1
    told = Told()
    syncer.submit(lambda: None, told)
    assert await told.next() is None
    syncer.close()


def test_a_ring_is_tried_before_it_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = StandIn()
    monkeypatch.setattr(uring, "KernelRing", lambda: whole)
    tried: object = working_ring()
    assert tried is whole
    assert len(whole.synced) == 1
    whole.close()
    taking_none = StandIn(entries_taken=0)
    monkeypatch.setattr(uring, "KernelRing", lambda: taking_none)
    with pytest.raises(OSError, match="accepts no sync"):
        working_ring()
    assert taking_none.closed
    broken = StandIn()
    broken.fails = dict.fromkeys(range(1 << 16), errno.EIO)
    monkeypatch.setattr(uring, "KernelRing", lambda: broken)
    with pytest.raises(OSError, match=r"\(0, 5\)"):
        working_ring()
    assert broken.closed


def test_where_it_works_it_is_used(caplog: pytest.LogCaptureFixture) -> None:
    reason = why_no_kernel_ring()
    if reason is not None:
        pytest.skip(reason)
    caplog.set_level(logging.INFO)
    syncer = best_syncer()
    assert isinstance(syncer, UringSyncer)
    assert "syncs go through io_uring" in caplog.text
    syncer.close()
