"""A cut may be interrupted after any of its steps, by a crash or a power cut."""

from pathlib import Path
from random import Random

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium
from tests.support.logs import numbered

from borzoi.model.errors import StorageFailure
from borzoi.storage import layout, truncation
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.media import Medium
from borzoi.storage.settings import PartitionSettings, SegmentSettings
from borzoi.storage.truncation import Intent, decode, encode, purge_to

DIRECTORY = Path("/d")


def reopen(medium: Medium) -> SegmentedLog:
    return open_log(
        DIRECTORY,
        medium,
        segment=SegmentSettings(size=512),
        partition=PartitionSettings(messages_required_to_save=1),
    )


def append(log: SegmentedLog, count: int = 1) -> None:
    for _ in range(count):
        log.append(numbered([b"x" * 50], base_offset=log.next_offset, timestamp=1), timestamp=1)


def filled(disk: SimulatedDisk) -> bytes:
    log = reopen(disk)
    append(log, 20)
    log.close()
    disk.kill()
    log = reopen(disk)
    disk.kill()
    return content(disk)


def content(disk: SimulatedDisk) -> bytes:
    return reopen(disk).read(0, 1000).materialise()


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("offset", [0, 3, 10, 19, 20])
def test_a_cut_happens_completely_or_not_at_all(offset: int, power: bool) -> None:
    """Stop it before each of its operations in turn; then open again."""
    size = 114
    stop, ended = 0, False
    while not ended:
        disk = SimulatedDisk()
        whole = filled(disk)
        left = 10**9

        def choose(operation: str, path: Path) -> Fault | None:
            nonlocal left
            left -= 1
            return Fault.IO_ERROR if left < 0 else None

        log = reopen(FaultyMedium(disk, choose))
        left = stop
        try:
            log.truncate(offset)
            ended = True
        except StorageFailure:
            pass
        if power:
            disk.power_cut(Random(stop))
        else:
            disk.kill()
        found = content(disk)
        assert found in (whole, whole[: offset * size])
        assert not ended or found == whole[: offset * size]
        disk.kill()
        assert content(disk) == found
        assert not disk.exists(DIRECTORY / layout.INTENT)
        stop += 1
    assert stop > 5


@pytest.mark.parametrize("seed", range(10))
def test_a_finished_cut_never_comes_back(seed: int) -> None:
    """It would take what was appended since."""
    disk = SimulatedDisk()
    filled(disk)
    log = reopen(disk)
    log.truncate(10)
    append(log, 5)
    log.flush(sync=True)
    disk.power_cut(Random(seed))
    assert reopen(disk).next_offset == 15


def test_a_poll_that_still_sends_purged_messages_holds_no_space_and_reads_no_others() -> None:
    disk = SimulatedDisk()
    filled(disk)
    log = reopen(disk)
    reading = log.read(0, 100)
    log.purge()
    append(log)
    with pytest.raises(StorageFailure, match="is closed"):
        reading.materialise()
    assert log.read(0, 100).count == 1


def test_an_intent_survives_the_round_trip() -> None:
    for intent in (purge_to(7), Intent(1, 2, 3), Intent(2**64 - 1, 2**32 - 1, 7)):
        assert decode(encode(intent)) == intent


@pytest.mark.parametrize("change", [0, 8, 20, 31])
def test_an_intent_that_was_not_written_completely_is_none(change: int) -> None:
    stored = bytearray(encode(Intent(1, 2, 3)))
    stored[change] ^= 1
    assert decode(bytes(stored)) is None
    assert decode(bytes(stored[:change])) is None


def test_without_an_intent_nothing_is_pending() -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    assert truncation.pending(disk, DIRECTORY) is None
    truncation.declare(disk, DIRECTORY, purge_to(1))
    assert truncation.pending(disk, DIRECTORY) == purge_to(1)


@pytest.mark.parametrize("wrong", [Intent(0, 114, 0), Intent(0, 0, 1)])
def test_a_cut_between_bytes_and_count_is_never_declared(wrong: Intent) -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    with pytest.raises(AssertionError, match="messages have bytes"):
        truncation.declare(disk, DIRECTORY, wrong)
    assert truncation.pending(disk, DIRECTORY) is None
