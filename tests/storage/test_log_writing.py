"""What a log promises to its writer, one claim at a time.

How it ends and what it does when the medium refuses is in test_log_files.py, the histories are in
test_log_model.py.
"""

import asyncio
from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium
from tests.support.logs import (
    ManualSyncer,
    append,
    new_log,
    numbered,
    payloads_in,
    stored_payloads,
)

from borzoi.model.errors import StorageFailure
from borzoi.model.limits import VECTORS_MAX
from borzoi.storage import index_lag, log_files
from borzoi.storage import log_writing as log_module
from borzoi.storage.local import LocalMedium
from borzoi.storage.log import open_log
from borzoi.storage.settings import Acknowledge, PartitionSettings, SegmentSettings
from borzoi.storage.syncing import ThreadSyncer

DIRECTORY = Path("/d")


def log_writes(medium: FaultyMedium) -> int:
    return sum(name == "write" and path.suffix == ".log" for name, path in medium.operations)


def index_writes(medium: FaultyMedium) -> int:
    return sum(name == "write" and path.suffix == ".index" for name, path in medium.operations)


# Acknowledging. ----------------------------------------------------------------------------------


async def test_under_written_each_send_is_in_the_file_when_it_is_answered() -> None:
    log, medium = new_log()
    for number in range(50):
        assert append(log, b"%d" % number) is None
        assert log_writes(medium) == log.visible_offset == number + 1
    assert append(log, bytes(log_module.LARGE_BYTES)) is None
    assert log.append(numbered([b"of another replica"], base_offset=51, timestamp=1)) is None
    assert log_writes(medium) == log.visible_offset == log.read(0, 100).count == 52


async def test_under_synced_the_sends_of_a_turn_share_a_write() -> None:
    syncer = ManualSyncer()
    log, medium = new_log(Acknowledge.SYNCED, syncer=syncer)
    waiting = [append(log, b"%d" % number) for number in range(2 * VECTORS_MAX + 1)]
    assert set(waiting) == {waiting[0]}
    await asyncio.sleep(0)
    assert log_writes(medium) == 3
    syncer.run_all()
    assert waiting[0] is not None
    await waiting[0]
    assert log.visible_offset == len(waiting)


async def test_a_large_batch_is_read_at_once_and_indexed_when_its_turn_ends() -> None:
    log, medium = new_log()
    assert append(log, b"large" * log_module.LARGE_BYTES, timestamp=5) is None
    assert append(log, b"also" * log_module.LARGE_BYTES, timestamp=6) is None
    assert (log.visible_offset, log.next_offset, log.last_timestamp) == (2, 2, 6)
    assert [len(payload) for payload in stored_payloads(log)] == [
        5 * log_module.LARGE_BYTES,
        4 * log_module.LARGE_BYTES,
    ]
    assert (log.offset_at(5), log.offset_at(6), log.offset_at(7)) == (0, 1, 2)
    assert log_writes(medium) == 2


async def test_the_index_of_large_batches_is_saved_after_they_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_lag, "LAG_BYTES", 2 * log_module.LARGE_BYTES)
    log, medium = new_log()
    for _ in range(3):
        assert append(log, bytes(log_module.LARGE_BYTES)) is None
    assert not index_writes(medium)
    await asyncio.sleep(0)
    assert index_writes(medium) == 1


def test_without_a_loop_the_index_of_a_large_batch_is_saved_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_lag, "LAG_BYTES", log_module.LARGE_BYTES)
    log, medium = new_log()
    append(log, bytes(log_module.LARGE_BYTES))
    assert index_writes(medium) == 1


async def test_a_large_batch_that_is_forgotten_before_its_turn_ends_leaves_no_index() -> None:
    log, _ = new_log()
    append(log, bytes(log_module.LARGE_BYTES))
    log.purge()
    await asyncio.sleep(0)
    assert append(log, b"first again") is None
    assert stored_payloads(log) == [b"first again"]


async def test_the_index_of_a_fenced_log_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_lag, "LAG_BYTES", log_module.LARGE_BYTES)
    log, medium = new_log()
    append(log, bytes(log_module.LARGE_BYTES))
    log._files.fence_writes(StorageFailure("the disk is gone"))
    await asyncio.sleep(0)
    assert not index_writes(medium)
    assert log.read(0, 10).count == 1


async def test_large_batches_fill_segments_one_after_the_other() -> None:
    log, _ = new_log(segment_bytes=2 * log_module.LARGE_BYTES, required=1)
    for number in range(10):
        append(log, bytes(log_module.LARGE_BYTES), timestamp=number + 1)
    assert [facts.end_timestamp for facts in log.segments()] == [3, 6, 9, 10]
    assert log.read(0, 100).count == 10
    log.close()
    reopened = open_log(DIRECTORY, log.medium, segment=SegmentSettings(size=1 << 20))
    assert reopened.read(0, 100).count == 10


async def test_synced_messages_are_seen_when_the_disk_has_them() -> None:
    syncer = ManualSyncer()
    log, _ = new_log(Acknowledge.SYNCED, syncer=syncer)
    waiter = append(log, b"a")
    await asyncio.sleep(0)
    assert log.read(0, 10).count == 0
    assert (log.visible_offset, log.messages_count) == (0, 0)
    syncer.run_all_for(waiter)
    assert stored_payloads(log) == [b"a"]


async def test_what_is_written_together_is_waited_for_together() -> None:
    syncer = ManualSyncer()
    log, _ = new_log(Acknowledge.SYNCED, syncer=syncer)
    first, same = append(log, b"a"), append(log, b"b")
    assert first is not None
    assert [same, log.barrier()] == [first, first]
    await asyncio.sleep(0)
    second = append(log, b"c")
    assert second is not None
    assert second is not first
    syncer.run_all()
    assert first.done()
    assert not second.done()
    assert log.visible_offset == 2
    await asyncio.sleep(0)
    syncer.run_all_for(second)


async def test_a_barrier_waits_for_everything_before_it() -> None:
    syncer = ManualSyncer()
    log, _ = new_log(Acknowledge.SYNCED, syncer=syncer)
    assert log.barrier() is None
    append(log, b"a")
    early = log.barrier()
    await asyncio.sleep(0)
    late = log.barrier()
    syncer.run_all_for(early, late)
    assert log.barrier() is None


def test_buffered_messages_are_read_from_memory_until_they_are_saved() -> None:
    log, medium = new_log(Acknowledge.BUFFERED)
    buffer = numbered([b"kept"], base_offset=0, timestamp=5)
    assert log.append(buffer, timestamp=5) is None
    buffer.messages[:] = bytes(len(buffer.messages))  # the caller's buffer is free again
    assert log_writes(medium) == 0
    reading = log.read(0, 10)
    assert reading.ranges == []
    assert payloads_in(reading.materialise()) == [b"kept"]
    assert log.offset_at(5) == 0
    log.flush()
    assert log_writes(medium) == 1
    assert log.read(0, 10).tail == []


async def test_a_real_disk_commits_for_many_at_once(tmp_path: Path) -> None:
    syncer = ThreadSyncer()
    log = open_log(
        tmp_path / "p",
        LocalMedium(),
        partition=PartitionSettings(Acknowledge.SYNCED, messages_required_to_save=1),
        syncer=syncer,
        segment=SegmentSettings(size=4096),
    )

    async def appender() -> None:
        for _ in range(20):
            waiter = append(log, b"x" * 100)
            assert waiter is not None
            await waiter

    await asyncio.gather(*(appender() for _ in range(10)))
    assert log.visible_offset == log.next_offset == 200
    assert log.segments_count > 4
    log.close()
    syncer.close()
    assert open_log(tmp_path / "p", LocalMedium()).next_offset == 200


async def test_a_buffer_belongs_to_the_log_until_written_even_if_the_caller_is_cancelled() -> None:
    syncer = ManualSyncer()
    log, _ = new_log(Acknowledge.SYNCED, syncer=syncer)
    batch = numbered([b"mine"], base_offset=0, timestamp=1)

    async def send() -> None:
        try:
            waiter = log.append(batch, timestamp=1)
            assert waiter is not None
            await waiter
        finally:
            batch.messages[:] = bytes(len(batch.messages))  # the buffer is used for something else

    sender = asyncio.create_task(send())
    await asyncio.sleep(0)
    sender.cancel()
    await asyncio.sleep(0)
    syncer.run_all()
    with pytest.raises(asyncio.CancelledError):
        await sender
    assert stored_payloads(log) == [b"mine"]


async def test_under_synced_the_index_follows_the_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_lag, "LAG_ENTRIES", 10)
    syncer = ManualSyncer()
    log, medium = new_log(Acknowledge.SYNCED, syncer=syncer)
    index = medium.open(DIRECTORY / f"{0:020}.index")
    for _ in range(15):
        append(log, b"x")
        await asyncio.sleep(0)
    assert index.size() == 0, "nothing is synced yet"
    syncer.run_all()
    assert index.size() == 15 * 16


def test_a_replicated_batch_keeps_the_times_of_its_messages() -> None:
    log, _ = new_log()
    for number in range(3):
        log.append(numbered([b"x"], base_offset=number, timestamp=number * 10))
    assert [log.offset_at(at) for at in (0, 1, 10, 20, 21)] == [0, 1, 1, 2, 3]


def test_an_empty_batch_is_nothing() -> None:
    log, medium = new_log()
    assert append(log) is None
    assert medium.operations == []


# Segments. ---------------------------------------------------------------------------------------


def test_a_full_segment_is_sealed_behind_the_append_that_finds_it_full() -> None:
    log, _ = new_log(segment_bytes=512, required=1)
    append(log, bytes(500))
    assert log.segments_count == 1
    append(log, b"x")
    assert [facts.sealed for facts in log.segments()] == [True, False]
    assert log.segments()[1].start_offset == 2


def test_a_position_never_passes_what_u32_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = new_log()
    monkeypatch.setattr(log_module, "SEGMENT_BYTES_MAX", 300)
    append(log, bytes(100))
    append(log, bytes(100))
    assert log.segments_count == 2
    append(log, bytes(1000))
    assert log.segments_count == 3, "an empty segment takes any batch"


# Writing ahead. ----------------------------------------------------------------------------------


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "AHEAD_BYTES", 1000)


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("level", Acknowledge)
async def test_what_was_written_ahead_is_written_once(level: Acknowledge) -> None:
    log, medium = new_log(level)
    append(log, b"before")
    batch = numbered([b"x" * 5000], base_offset=1, timestamp=2)
    steps = sum(1 for _ in log.write_ahead(batch))
    assert steps == 6
    assert log.next_offset == 1, "it is not appended yet"
    waiter = log.append(batch, timestamp=2)
    if waiter is not None:
        await waiter
    append(log, b"behind")
    log.flush()
    assert log_writes(medium) == 1 + 6 + 1
    log.close()
    again = open_log(DIRECTORY, medium)
    assert stored_payloads(again) == [b"before", b"x" * 5000, b"behind"]


@pytest.mark.usefixtures("small_slices")
def test_another_batch_does_not_pass_for_the_one_that_was_written_ahead() -> None:
    log, _ = new_log()
    for _ in log.write_ahead(numbered([b"x" * 5000], base_offset=0, timestamp=1)):
        pass
    append(log, b"y" * 5000)
    assert stored_payloads(log) == [b"y" * 5000]


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("end", ["close", "kill"])
def test_what_was_written_ahead_and_never_appended_is_gone(
    end: str, caplog: pytest.LogCaptureFixture
) -> None:
    log, medium = new_log()
    append(log, b"before")
    ahead = log.write_ahead(numbered([b"x" * 5000], base_offset=1, timestamp=1))
    for _ in range(3):
        next(ahead)
    if end == "close":
        log.close()
        with pytest.raises(StorageFailure, match="is closed"):
            next(ahead)
    again = open_log(DIRECTORY, medium)
    assert stored_payloads(again) == [b"before"]
    assert ("cut 3000 bytes" in caplog.text) == (end == "kill"), "closing left nothing to repair"


@pytest.mark.usefixtures("small_slices")
def test_a_disk_that_fills_up_takes_back_what_was_written_ahead() -> None:
    full = False
    disk = SimulatedDisk()

    def choose(operation: str, _: Path) -> Fault | None:
        return Fault.NO_SPACE if full and operation == "write" else None

    medium = FaultyMedium(disk, choose)
    log = open_log(DIRECTORY, medium)
    append(log, b"before")
    ahead = log.write_ahead(numbered([b"x" * 5000], base_offset=1, timestamp=1))
    next(ahead)
    full = True
    with pytest.raises(StorageFailure):
        next(ahead)
    full = False
    append(log, b"goes on")
    log.close()
    assert stored_payloads(open_log(DIRECTORY, disk)) == [b"before", b"goes on"]
