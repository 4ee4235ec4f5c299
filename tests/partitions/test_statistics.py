from pathlib import Path

from tests.support.disk import SimulatedDisk
from tests.support.logs import numbered

from borzoi.partitions.statistics import PartitionStatistics, current_offset_of, statistics_of
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.settings import PartitionSettings, SegmentSettings


def opened() -> SegmentedLog:
    """A segment is full with one message, and ends behind the next."""
    return open_log(
        Path("/d"),
        SimulatedDisk(),
        segment=SegmentSettings(size=512),
        partition=PartitionSettings(messages_required_to_save=1),
    )


def test_the_current_offset_is_that_of_the_last_message_and_0_without_any() -> None:
    log = opened()
    assert statistics_of(log) == PartitionStatistics(1, 0, 0, 0)
    for number in range(3):
        log.append(numbered([bytes(536)], base_offset=number, timestamp=1), timestamp=1)
        assert current_offset_of(log) == number
    assert statistics_of(log) == PartitionStatistics(2, 2, 1800, 3)


def test_deleting_a_segment_counts_its_messages() -> None:
    log = opened()
    for number in range(5):
        log.append(numbered([bytes(536)], base_offset=number, timestamp=1), timestamp=1)
    log.delete_segments(1)
    assert statistics_of(log) == PartitionStatistics(2, 4, 1800, 3)
