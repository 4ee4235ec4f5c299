import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.logs import numbered

from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.storage.idle import LOGS_PER_TURN, IdleWork
from borzoi.storage.log import open_log
from borzoi.storage.settings import Acknowledge, PartitionSettings

DIRECTORY = Path("/d")


async def until(condition: object) -> None:
    assert callable(condition)
    while not condition():
        await asyncio.sleep(0.001)


async def test_work_waits_until_appends_pause() -> None:
    idle = IdleWork(asyncio.get_running_loop())
    done: list[int] = []
    idle.wait(lambda: done.append(1))
    for _ in range(20):
        idle.appended += 1
        await asyncio.sleep(0)
        assert not done
    await until(lambda: done == [1])
    idle.wait(lambda: done.append(2))
    await until(lambda: done == [1, 2])


async def test_much_work_is_done_in_turns() -> None:
    loop = asyncio.get_running_loop()
    idle = IdleWork(loop)
    done: list[int] = []
    #: How much was done before each turn of the loop.
    seen = [0]

    def turn() -> None:
        seen.append(len(done))
        if len(done) < 3 * LOGS_PER_TURN:
            loop.call_soon(turn)

    for number in range(3 * LOGS_PER_TURN):
        idle.wait(lambda number=number: done.append(number))  # type: ignore[misc]
    turn()
    await until(lambda: seen[-1] == 3 * LOGS_PER_TURN)
    assert max(after - before for before, after in pairwise(seen)) == LOGS_PER_TURN
    assert done == list(range(3 * LOGS_PER_TURN))


@pytest.mark.parametrize("level", [Acknowledge.WRITTEN, Acknowledge.SYNCED])
@pytest.mark.parametrize("size", [10, 100_000])
async def test_index_entries_reach_their_file_without_another_append(
    level: Acknowledge, size: int
) -> None:
    disk = SimulatedDisk()
    idle = IdleWork(asyncio.get_running_loop())
    log = open_log(DIRECTORY, disk, partition=PartitionSettings(level), idle=idle)
    index = disk.open(DIRECTORY / f"{0:020}.index")
    for number in range(3):
        batch = numbered([bytes(size)], base_offset=number, timestamp=number + 1)
        waiter = log.append(batch, timestamp=number + 1)
        if waiter is not None:
            await waiter
        await until(lambda: index.size() == log.next_offset * INDEX_ENTRY_BYTES)
    log.close()
    await asyncio.sleep(0.01)


async def test_a_log_that_was_closed_meanwhile_is_left_alone() -> None:
    disk = SimulatedDisk()
    idle = IdleWork(asyncio.get_running_loop())
    log = open_log(DIRECTORY, disk, idle=idle)
    log.append(numbered([b"x"], base_offset=0, timestamp=1), timestamp=1)
    log.abandon()
    done: list[int] = []
    idle.wait(lambda: done.append(1))
    await until(lambda: done)
    assert disk.open(DIRECTORY / f"{0:020}.index").size() == 0
