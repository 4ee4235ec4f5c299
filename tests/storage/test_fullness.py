from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium
from tests.support.logs import numbered

from borzoi.model.errors import StorageFailure
from borzoi.storage.fullness import Fullness
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.media import Medium
from borzoi.storage.settings import Acknowledge, PartitionSettings, SegmentSettings

DIRECTORY = Path("/d")
#: A message with its header.
BYTES = 264


def sealed_after(fullness: Fullness, appends: int) -> list[int]:
    """The numbers of the appends behind which a segment was sealed, all of one message."""
    found, size = [], 0
    for number in range(1, appends + 1):
        size += BYTES
        if fullness.reached_by(size, number):
            found.append(number)
            size = 0
            fullness.saved(0, number)
    return found


def test_what_is_saved_at_once_makes_segments_one_append_too_long() -> None:
    """Recorded: 512 bytes, every message saved at once, three of 264 bytes in each segment."""
    settings = PartitionSettings(messages_required_to_save=1)
    assert sealed_after(Fullness(512, settings), 12) == [3, 6, 9, 12]


def test_what_is_saved_later_counts_later() -> None:
    settings = PartitionSettings(messages_required_to_save=5)
    assert sealed_after(Fullness(512, settings), 12) == [6, 12]
    settings = PartitionSettings(size_of_messages_required_to_save=1000)
    assert sealed_after(Fullness(512, settings), 12) == [5, 10]


def opened(medium: Medium, level: Acknowledge, required: int) -> SegmentedLog:
    return open_log(
        DIRECTORY,
        medium,
        segment=SegmentSettings(512),
        partition=PartitionSettings(level, messages_required_to_save=required),
    )


def append(log: SegmentedLog) -> None:
    offset = log.next_offset
    batch = numbered([bytes(200)], base_offset=offset, timestamp=offset + 1)
    assert log.append(batch, timestamp=offset + 1) is None


@pytest.mark.parametrize("level", Acknowledge)
@pytest.mark.parametrize(("required", "starts"), [(1, [0, 3, 6, 9, 12]), (5, [0, 6, 12])])
def test_the_same_sends_make_the_same_segments_at_every_level(
    level: Acknowledge, required: int, starts: list[int]
) -> None:
    disk = SimulatedDisk()
    log = opened(disk, level, required)
    for _ in range(12):
        append(log)
    assert [facts.start_offset for facts in log.segments()] == starts
    assert log.messages_count == 12
    log.close()
    again = opened(disk, level, required)
    assert [facts.start_offset for facts in again.segments()] == starts


def test_a_flush_saves() -> None:
    log = opened(SimulatedDisk(), Acknowledge.WRITTEN, 1000)
    for _ in range(2):
        append(log)
    log.flush()
    append(log)
    assert log.segments_count == 2


def test_what_could_not_be_sealed_is_sealed_before_the_next_append() -> None:
    full = False

    def choose(operation: str, path: Path) -> Fault | None:
        return Fault.NO_SPACE if full and operation == "open" and "3" in path.name else None

    log = opened(FaultyMedium(SimulatedDisk(), choose), Acknowledge.WRITTEN, 1)
    append(log)
    append(log)
    full = True
    append(log)  # it is in, although there is no space for another segment
    assert (log.messages_count, log.segments_count) == (3, 1)
    with pytest.raises(StorageFailure):
        append(log)
    full = False
    append(log)
    assert [facts.start_offset for facts in log.segments()] == [0, 3]
