"""How the files of a log are filled, rejected, cut and closed; seen through the log."""

import asyncio
from pathlib import Path
from random import Random

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium
from tests.support.logs import ManualSyncer, append, new_log, numbered, stored_payloads

from borzoi.model.errors import CannotSync, InvalidOffset, PartitionDeleted, StorageFailure
from borzoi.storage.log import open_log
from borzoi.storage.settings import Acknowledge, PartitionSettings

DIRECTORY = Path("/d")


# A medium that refuses. --------------------------------------------------------------------------


@pytest.mark.parametrize("level", [Acknowledge.WRITTEN, Acknowledge.SYNCED])
async def test_a_full_disk_refuses_until_there_is_room_again(level: Acknowledge) -> None:
    disk = SimulatedDisk()
    full = False
    medium = FaultyMedium(
        disk, lambda operation, _: Fault.TORN_WRITE if full and operation == "write" else None
    )
    log = open_log(DIRECTORY, medium, partition=PartitionSettings(acknowledge=level))

    async def append() -> None:
        batch = numbered([b"x" * 100] * 5, base_offset=log.next_offset, timestamp=1)
        if (waiter := log.append(batch, timestamp=1)) is not None:
            await waiter

    await append()
    full = True
    for _ in range(3):
        with pytest.raises(StorageFailure):
            await append()
    assert (log.next_offset, log.visible_offset) == (5, 5)
    full = False
    await append()
    assert log.read(0, 100).count == 10
    disk.kill()
    assert open_log(DIRECTORY, disk).next_offset == 10


@pytest.mark.parametrize("seed", range(60))
def test_what_a_failed_write_left_never_comes_back_behind_new_messages(seed: int) -> None:
    """Half of the refused batch is on its way to the disk, and its second message would follow
    the first message of the next batch."""
    disk = SimulatedDisk()
    full = False
    medium = FaultyMedium(
        disk, lambda operation, _: Fault.TORN_WRITE if full and operation == "write" else None
    )
    log = open_log(DIRECTORY, medium)
    log.flush(sync=True)
    disk.fsync_directory(DIRECTORY)
    refused = numbered([b"refused %d" % each for each in range(4)], base_offset=0, timestamp=1)
    full = True
    with pytest.raises(StorageFailure):
        log.append(refused, timestamp=1)
    full = False
    stored = numbered([b"stored  0"], base_offset=0, timestamp=2)
    log.append(stored, timestamp=2)
    disk.power_cut(Random(seed))
    survived = open_log(DIRECTORY, disk).read(0, 10).materialise()
    assert survived in (b"", bytes(stored.messages))


async def test_a_failed_sync_fences_and_is_never_tried_again() -> None:
    disk = SimulatedDisk()
    failing = False
    syncs = 0

    def choose(operation: str, path: Path) -> Fault | None:
        nonlocal syncs
        if operation == "fdatasync" and failing:
            syncs += 1
            return Fault.IO_ERROR if syncs == 1 else None
        return None

    log = open_log(
        DIRECTORY,
        FaultyMedium(disk, choose),
        partition=PartitionSettings(acknowledge=Acknowledge.SYNCED),
    )

    def append() -> asyncio.Future[None] | None:
        batch = numbered([b"x"], base_offset=log.next_offset, timestamp=1)
        return log.append(batch, timestamp=1)

    first = append()
    assert first is not None
    await first
    failing = True
    waiting = [append(), append()]
    for waiter in waiting:
        assert waiter is not None
        with pytest.raises(CannotSync):
            await waiter
    with pytest.raises(CannotSync):
        append()
    with pytest.raises(CannotSync):
        log.flush(sync=True)
    assert syncs == 1
    assert isinstance(log.fenced, CannotSync)
    # What was acknowledged is still served, what was not is not.
    assert log.read(0, 10).count == 1
    log.close()
    disk.power_cut(Random(0))
    reopened = open_log(DIRECTORY, disk)
    assert reopened.fenced is None
    assert reopened.next_offset >= 1


@pytest.mark.parametrize("level", [Acknowledge.WRITTEN, Acknowledge.SYNCED])
@pytest.mark.parametrize("in_journal", [False, True])
async def test_a_close_in_the_middle_of_a_purge_answers_everybody(
    level: Acknowledge, in_journal: bool
) -> None:
    """Not with success: neither the messages nor the purge are certain to be on the disk."""
    fault: Fault | None = None
    medium = FaultyMedium(
        SimulatedDisk(), lambda operation, path: fault if operation == "unlink" else None
    )
    log = open_log(
        DIRECTORY,
        medium,
        partition=PartitionSettings(level, messages_required_to_save=1),
        syncer=ManualSyncer(),
    )
    waiters = [log.append(numbered([b"x"], base_offset=offset, timestamp=1)) for offset in range(3)]
    if not in_journal:
        await asyncio.sleep(0)  # the turn ends: written, and waiting for a sync under `synced`
    fault = Fault.IO_ERROR
    with pytest.raises(StorageFailure):
        log.purge()
    log.close()
    for waiter in waiters:
        if waiter is not None:
            assert waiter.done()
    if level is Acknowledge.SYNCED:
        assert all(isinstance(waiter.exception(), StorageFailure) for waiter in waiters if waiter)
    await asyncio.sleep(0)  # the end of the turn finds nothing left to do
    fault = None
    again = open_log(DIRECTORY, medium)
    assert again.fenced is None
    assert again.next_offset == 0, "what was begun is finished"


# Cutting and letting go. -------------------------------------------------------------------------


def test_purged_messages_are_gone_from_the_journal_too() -> None:
    log, _ = new_log(Acknowledge.BUFFERED)
    append(log, b"saved")
    log.flush()
    append(log, b"only in memory")
    log.purge()
    assert (log.next_offset, log.size, log.messages_count) == (0, 0, 0)
    append(log, b"new")
    log.flush()
    assert stored_payloads(log) == [b"new"]


async def test_a_purge_answers_who_still_waits() -> None:
    log, _ = new_log(Acknowledge.SYNCED, syncer=ManualSyncer())
    waiter = append(log, b"x")
    assert waiter is not None
    await asyncio.sleep(0)
    log.purge()
    assert waiter.done()
    assert log.next_offset == 0


def test_a_log_is_only_cut_where_it_has_messages() -> None:
    log, _ = new_log()
    append(log, b"x")
    with pytest.raises(InvalidOffset):
        log.truncate(2)
    log.truncate(1)
    log.truncate(0)
    assert log.next_offset == 0


def test_a_closed_log_refuses_everything() -> None:
    log, _ = new_log()
    append(log, b"x")
    log.close()
    log.close()
    for call in (lambda: append(log, b"x"), lambda: log.read(0, 1), log.flush, log.purge):
        with pytest.raises(StorageFailure, match="closed"):
            call()


async def test_closing_answers_who_still_waits() -> None:
    log, _ = new_log(Acknowledge.SYNCED, syncer=ManualSyncer())
    waiter = append(log, b"x")
    assert waiter is not None
    log.close()
    await waiter


async def test_an_abandoned_log_writes_nothing_and_fails_who_still_waits() -> None:
    syncer = ManualSyncer()
    log, medium = new_log(Acknowledge.SYNCED, segment_bytes=512, required=1, syncer=syncer)
    append(log, bytes(500))
    append(log, bytes(500))
    waiter = append(log, b"waits")
    assert waiter is not None
    syncing = log.flush(sync=True)
    append(log, b"waits again")
    last = append(log, b"and again")
    assert syncing is not None
    assert last is not None
    medium.operations.clear()
    log.abandon()
    log.abandon()
    await asyncio.sleep(0)
    syncer.run_all()
    written = [
        name for name, _ in medium.operations if name not in ("fdatasync", "fsync_directory")
    ]
    assert written == []
    for failed in (syncing, last):
        assert isinstance(failed.exception(), PartitionDeleted)
    with pytest.raises(StorageFailure, match="deleted"):
        append(log, b"x")
    log.close()


async def test_who_waits_for_a_log_that_is_purged_away_has_succeeded() -> None:
    syncer = ManualSyncer()
    log, _ = new_log(Acknowledge.SYNCED, syncer=syncer)
    last = append(log, b"waits")
    syncing = log.flush(sync=True)
    assert last is not None
    assert syncing is not None
    log.abandon(purged=True)
    await asyncio.gather(last, syncing)
    syncer.run_all()
    with pytest.raises(StorageFailure, match="deleted"):
        append(log, b"x")
