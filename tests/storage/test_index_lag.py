"""When the entries of an index reach its file; how a log behaves meanwhile is in test_log.py."""

import logging
from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium

from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.records.validation import INDEX_ENTRY
from borzoi.storage import index_lag
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.index import WINDOW_ENTRIES
from borzoi.storage.index_lag import IndexLag
from borzoi.storage.segment import Segment
from borzoi.storage.segments import Segments
from borzoi.storage.settings import CacheIndexes

DIRECTORY = Path("/d")


class Disk:
    """Segments whose indexes cannot be saved while the disk is full."""

    def __init__(self) -> None:
        self.full = False
        medium = FaultyMedium(SimulatedDisk(), self._fault)
        medium.make_directory(DIRECTORY)
        self.segments = Segments(DIRECTORY, medium, Descriptors(medium))
        self.segments.begin(0)

    def _fault(self, name: str, path: Path) -> Fault | None:
        is_save = name == "write" and path.suffix == ".index"
        return Fault.NO_SPACE if self.full and is_save else None

    def write(self, count: int, size: int = 100) -> Segment:
        """Messages of `size` bytes each, as far as the index knows."""
        tail = self.segments.tail
        for _ in range(count):
            number = tail.index.count
            tail.extend(INDEX_ENTRY.pack(number, tail.size + size, 7), size, 7, 7)
        return tail


def saved(segment: Segment) -> int:
    assert segment.index.file.size() == segment.index.saved * INDEX_ENTRY_BYTES
    return segment.index.saved


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setattr(index_lag, "LAG_ENTRIES", 10)
    monkeypatch.setattr(index_lag, "LAG_BYTES", 5000)
    return Disk()


def test_entries_wait_until_there_are_many_or_many_bytes(disk: Disk) -> None:
    lag = IndexLag(CacheIndexes.ALL, follows_syncs=False)
    lag.wrote(disk.write(9))
    assert saved(disk.segments.tail) == 0
    lag.wrote(disk.write(1))
    assert saved(disk.segments.tail) == 10
    lag.wrote(disk.write(1, size=4999))
    assert saved(disk.segments.tail) == 10
    lag.wrote(disk.write(1, size=1))
    assert saved(disk.segments.tail) == 12


def test_what_could_not_be_saved_is_saved_later(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    lag = IndexLag(CacheIndexes.ALL, follows_syncs=False)
    disk.full = True
    with caplog.at_level(logging.WARNING):
        lag.wrote(disk.write(10))
    assert "lags" in caplog.text
    assert saved(disk.segments.tail) == 0
    disk.full = False
    lag.wrote(disk.write(1))
    assert saved(disk.segments.tail) == 11


def test_under_synced_only_entries_of_synced_messages_are_saved(disk: Disk) -> None:
    lag = IndexLag(CacheIndexes.ALL, follows_syncs=True)
    lag.wrote(disk.write(50))
    lag.synced(disk.segments, 9)
    assert saved(disk.segments.tail) == 0
    lag.synced(disk.segments, 12)
    assert saved(disk.segments.tail) == 12
    lag.flush(disk.segments.tail, 15)
    assert saved(disk.segments.tail) == 15


def test_a_segment_sealed_before_its_sync_is_completed_by_it(disk: Disk) -> None:
    lag = IndexLag(CacheIndexes.OPEN_SEGMENT, follows_syncs=True)
    full = disk.write(5)
    lag.before_seal(full)
    disk.segments.begin(5)
    lag.sealed(full)
    lag.synced(disk.segments, 4)
    assert saved(full) == 0
    disk.full = True
    lag.synced(disk.segments, 5)
    assert saved(full) == 0
    disk.full = False
    lag.synced(disk.segments, 5)
    assert (saved(full), full.index.cached) == (5, 0)


@pytest.mark.parametrize(("cache", "kept"), [(CacheIndexes.ALL, 5), (CacheIndexes.OPEN_SEGMENT, 0)])
def test_a_sealed_index_stays_in_memory_when_all_are_cached(
    disk: Disk, cache: CacheIndexes, kept: int
) -> None:
    lag = IndexLag(cache, follows_syncs=False)
    full = disk.write(5)
    lag.before_seal(full)
    disk.segments.begin(5)
    lag.sealed(full)
    assert (saved(full), full.index.cached) == (5, kept)


def test_an_idle_segment_keeps_nothing_in_memory(disk: Disk) -> None:
    lag = IndexLag(CacheIndexes.OPEN_SEGMENT, follows_syncs=False)
    assert lag.window == WINDOW_ENTRIES
    tail = disk.write(5)
    lag.flush(tail, 0)
    assert (saved(tail), tail.index.cached) == (5, 5)
    lag.flush(tail, 0)
    assert tail.index.cached == 0


def test_after_a_reset_nothing_waits_for_a_sync(disk: Disk) -> None:
    lag = IndexLag(CacheIndexes.NONE, follows_syncs=True)
    assert lag.window == 0
    full = disk.write(5)
    disk.segments.begin(5)
    lag.sealed(full)
    lag.reset()
    lag.synced(disk.segments, 5)
    assert saved(full) == 0
