from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.logs import numbered

from borzoi.model.consuming import PollingStrategy
from borzoi.partitions.polling import start_of
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.settings import PartitionSettings, SegmentSettings


def log_of(count: int) -> SegmentedLog:
    log = open_log(
        Path("/d"),
        SimulatedDisk(),
        segment=SegmentSettings(size=512),
        partition=PartitionSettings(messages_required_to_save=1),
    )
    for number in range(count):
        log.append(
            numbered([bytes(500)], base_offset=number, timestamp=number * 10),
            timestamp=number * 10,
        )
    return log


@pytest.mark.parametrize(
    ("strategy", "stored", "expected"),
    [
        (PollingStrategy.offset(4), None, 4),
        (PollingStrategy.offset(99), None, 99),
        (PollingStrategy.timestamp(35), None, 4),
        (PollingStrategy.timestamp(0), None, 2),
        (PollingStrategy.timestamp(1000), None, 10),
        (PollingStrategy.first(), None, 2),
        (PollingStrategy.last(), None, 7),
        (PollingStrategy.next(), None, 2),
        (PollingStrategy.next(), 5, 6),
    ],
)
def test_where_a_poll_of_three_starts(
    strategy: PollingStrategy, stored: int | None, expected: int
) -> None:
    log = log_of(10)
    log.delete_segments(1)  # it has two messages
    assert start_of(strategy, 3, log, stored) == expected


def test_the_last_messages_of_a_short_log_are_all_of_them() -> None:
    assert start_of(PollingStrategy.last(), 100, log_of(3), None) == 0
    assert start_of(PollingStrategy.last(), 100, log_of(0), None) == 0
