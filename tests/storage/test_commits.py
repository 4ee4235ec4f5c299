import asyncio

import pytest
from tests.support.logs import ManualSyncer

from borzoi.model.errors import CannotSync, StorageFailure
from borzoi.storage.commits import GroupCommit, SyncPlan, Waiter, answer


class Log:
    """What a group commit needs of a log."""

    def __init__(self) -> None:
        self.syncer = ManualSyncer()
        self.written = 0
        self.synced = 0
        self.fails = False
        self.failures: list[StorageFailure] = []
        self.plans: list[bool] = []
        self.commits = GroupCommit(self.syncer, self.plan, self.failures.append)

    def plan(self, with_open: bool) -> SyncPlan:
        self.plans.append(with_open)
        offset = self.written

        def job() -> None:
            if self.fails:
                raise CannotSync("no")

        def succeeded() -> None:
            self.synced = offset

        return SyncPlan(job, offset, succeeded)

    def append(self) -> Waiter:
        self.written += 1
        waiter = Waiter()
        self.commits.wait(self.written, waiter)
        self.commits.request()
        return waiter


async def test_everybody_who_came_before_shares_the_next_sync() -> None:
    log = Log()
    first = log.append()
    others = [log.append() for _ in range(10)]
    assert len(log.syncer.jobs) == 1
    log.syncer.run_next()
    assert first.done()
    assert not any(waiter.done() for waiter in others)
    log.syncer.run_next()
    assert all(waiter.done() for waiter in others)
    assert log.plans == [True, True]
    assert not log.syncer.jobs


async def test_a_sync_without_waiters_leaves_the_open_segment_alone() -> None:
    log = Log()
    log.commits.request()
    log.commits.request()
    log.syncer.run_all()
    assert log.plans == [False, False]


async def test_a_failed_sync_fails_everybody_and_is_told_once() -> None:
    log = Log()
    log.fails = True
    waiters = [log.append(), log.append()]
    log.syncer.run_all()
    for waiter in waiters:
        with pytest.raises(CannotSync):
            await waiter
    assert len(log.failures) == 1
    assert log.plans == [True]
    assert log.synced == 0


async def test_a_sync_that_ends_after_everybody_was_answered_changes_nothing() -> None:
    log = Log()
    waiter = log.append()
    log.commits.abandon(None)
    await waiter
    log.fails = True
    log.syncer.run_all()
    assert log.failures == []


async def test_settling_finishes_the_sync_under_way_and_its_job_runs_once() -> None:
    log = Log()
    waiter = log.append()
    log.commits.settle()
    assert waiter.done()
    assert log.synced == 1
    log.fails = True  # a second run of the same job would fail
    log.syncer.run_all()
    assert log.failures == []
    log.commits.settle()


async def test_settling_tells_the_failure_of_the_sync_under_way() -> None:
    log = Log()
    log.fails = True
    waiter = log.append()
    log.commits.settle()
    assert isinstance(waiter.exception(), CannotSync)
    assert len(log.failures) == 1


async def test_who_gives_up_learns_it_when_the_sync_has_ended() -> None:
    log = Log()
    waiter = log.append()

    async def wait() -> None:
        await waiter

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not waiter.done()
    assert not task.done()
    log.syncer.run_all()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waiter.exception() is None
    answer(Waiter(), CannotSync("nobody looks at it, and nobody is told so"))
