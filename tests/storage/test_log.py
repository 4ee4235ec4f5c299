"""What readers see of a log, and what cannot be removed from it."""

import asyncio
from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.logs import ManualSyncer, append, new_log, payloads_in

from borzoi.storage.log import open_log
from borzoi.storage.reading import FileRange
from borzoi.storage.settings import Acknowledge, CacheIndexes, PartitionSettings, SegmentSettings

DIRECTORY = Path("/d")


@pytest.mark.parametrize("cache", CacheIndexes)
def test_polls_find_the_same_messages_whatever_is_cached(cache: CacheIndexes) -> None:
    log = open_log(
        DIRECTORY,
        SimulatedDisk(),
        segment=SegmentSettings(size=2048, cache_indexes=cache),
        partition=PartitionSettings(messages_required_to_save=1),
    )
    for number in range(60):
        append(log, b"%02d" % number, timestamp=number // 3)
    log.flush()
    assert log.segments_count > 1
    for number in range(60):
        assert payloads_in(log.read(number, 3).materialise()) == [
            b"%02d" % each for each in range(number, min(number + 3, 60))
        ]
        assert log.offset_at(number // 3) == number // 3 * 3


def test_a_poll_is_file_ranges_and_never_bytes() -> None:
    log, _ = new_log(segment_bytes=512, required=1)
    for _ in range(10):
        append(log, bytes(200))
    assert log.segments_count == 4
    reading = log.read(0, 100)
    assert reading.tail == []
    assert len(reading.ranges) == log.segments_count
    assert all(isinstance(part, FileRange) for part in reading.ranges)


def test_reading_below_the_oldest_message_starts_there() -> None:
    log, _ = new_log(segment_bytes=512, required=1)
    for _ in range(13):
        append(log, bytes(500))
    log.delete_segments(3)
    assert log.first_offset == 6
    assert log.read(0, 2).first_offset == 6
    assert log.read(0, 100).count == 7


def test_the_open_segment_cannot_be_deleted() -> None:
    log, _ = new_log()
    append(log, b"x")
    assert log.delete_segments(5) == (0, 0, 0)
    assert log.messages_count == 1


async def test_a_sealed_segment_that_is_not_acknowledged_cannot_be_deleted() -> None:
    syncer = ManualSyncer()
    log, _ = new_log(Acknowledge.SYNCED, segment_bytes=512, syncer=syncer, required=1)
    for number in range(5):
        append(log, bytes(500), timestamp=number)
        await asyncio.sleep(0)
    assert log.segments_count == 3
    assert log.delete_segments(9).segments == 0
    assert log.offset_at(1) == log.visible_offset == 0
    syncer.run_all()
    assert log.offset_at(1) == 1
    assert log.delete_segments(9).segments == 2
