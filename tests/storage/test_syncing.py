import asyncio
import threading

from borzoi.model.errors import CannotSync, StorageFailure
from borzoi.storage.syncing import InlineSyncer, ThreadSyncer, TimedSyncer, outcome
from borzoi.telemetry.durations import Ongoing


def test_a_job_runs_at_once_without_a_loop() -> None:
    told: list[StorageFailure | None] = []
    InlineSyncer().submit(lambda: None, told.append)
    assert told == [None]


async def test_jobs_run_on_other_threads_and_are_told_on_the_loop() -> None:
    syncer = ThreadSyncer(threads=2)
    ran: set[int] = set()
    told: asyncio.Queue[tuple[int, StorageFailure | None]] = asyncio.Queue()

    def done(failure: StorageFailure | None) -> None:
        told.put_nowait((threading.get_ident(), failure))

    for _ in range(20):
        syncer.submit(lambda: ran.add(threading.get_ident()), done)
    answers = [await told.get() for _ in range(20)]
    assert answers == [(threading.get_ident(), None)] * 20
    assert 1 <= len(ran) <= 2
    assert threading.get_ident() not in ran
    syncer.close()


async def test_a_failure_is_told_and_the_thread_lives_on() -> None:
    syncer = ThreadSyncer(threads=1)
    told: asyncio.Queue[StorageFailure | None] = asyncio.Queue()

    def fail() -> None:
        raise CannotSync("no")

    syncer.submit(fail, told.put_nowait)
    syncer.submit(lambda: None, told.put_nowait)
    assert isinstance(await told.get(), CannotSync)
    assert await told.get() is None
    syncer.close()


def test_whatever_goes_wrong_is_a_sync_that_did_not_happen() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    assert isinstance(outcome(fail), CannotSync)


def test_a_job_whose_loop_is_gone_is_finished_quietly() -> None:
    syncer = ThreadSyncer(threads=1)
    may_end = threading.Event()

    def job() -> None:
        may_end.wait(60)

    def done(failure: StorageFailure | None) -> None:
        raise AssertionError("nobody waits any more")

    async def submit() -> None:
        syncer.submit(job, done)

    asyncio.run(submit())
    may_end.set()
    syncer.close()


def test_a_timed_syncer_notes_each_job() -> None:
    durations = Ongoing()
    ended: list[StorageFailure | None] = []
    syncer = TimedSyncer(InlineSyncer(), durations)
    running: list[int] = []
    wait = syncer.submit(lambda: running.append(durations.pending), ended.append)
    wait()
    assert (ended, running, durations.pending) == ([None], [1], 0)
    assert durations.count == 1
