from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.inflated import Inflated
from tests.support.logs import numbered

from borzoi.model.errors import StorageFailure
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.index import entries_of
from borzoi.storage.reading import Reading
from borzoi.storage.segments import Segments

DIRECTORY = Path("/d")


def write(segments: Segments, *sizes: int, timestamp: int) -> None:
    tail = segments.tail
    assert tail.file is not None
    batch = numbered(
        [bytes(size) for size in sizes], base_offset=tail.next_offset, timestamp=timestamp
    )
    entries = entries_of(batch, relative_offset=tail.index.count, position=tail.size)
    tail.file.write([batch.messages], tail.size)
    tail.extend(entries, batch.size, timestamp, timestamp)


def three() -> Segments:
    """Offsets 0-2 at time 10, 3-4 at 20, and an open segment from 5 on without any."""
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    segments = Segments(DIRECTORY, disk, Descriptors(disk))
    segments.begin(0)
    for sizes, timestamp in (((1, 2, 3), 10), ((4, 5), 20)):
        write(segments, *sizes, timestamp=timestamp)
        segments.tail.index.save()
        segments.begin(segments.tail.next_offset)
    return segments


def counts(segments: Segments, offset: int, end: int, size_max: int | None = None) -> list[int]:
    reading = Reading(offset)
    segments.read(reading, offset, end, size_max)
    assert sum(part.length for part in reading.ranges) == reading.size
    return [reading.count, len(reading.ranges)]


def test_messages_are_read_across_segments() -> None:
    segments = three()
    assert counts(segments, 0, 5) == [5, 2]
    assert counts(segments, 2, 4) == [2, 2]
    assert counts(segments, 3, 4) == [1, 1]
    assert counts(segments, 5, 9) == [0, 0]


def test_a_bounded_read_takes_what_fits_but_at_least_one() -> None:
    segments = three()
    assert counts(segments, 0, 5, 0) == [1, 1]
    assert counts(segments, 0, 5, 65 + 66) == [2, 1]
    assert counts(segments, 0, 5, 65 + 66 + 67) == [3, 1]
    assert counts(segments, 0, 5, 65 + 66 + 67 + 68) == [4, 2]


def test_a_time_is_found_in_the_segment_that_has_it() -> None:
    segments = three()
    assert [segments.offset_at(at, 5) for at in (0, 10, 11, 20)] == [0, 0, 3, 3]
    assert segments.offset_at(21, 5) is None
    assert segments.offset_at(20, 3) is None
    assert segments.offset_at(20, 4) == 3


def test_the_oldest_segments_go_with_all_their_files() -> None:
    segments = three()
    medium = segments.medium
    removed = segments.delete_oldest(1, 5)
    assert removed == (1, 3, 65 + 66 + 67)
    assert (segments.first_offset, segments.sealed_size) == (3, 68 + 69)
    assert sorted(medium.list(DIRECTORY)) == [
        f"{start:020}.{kind}" for start in (3, 5) for kind in ("index", "log")
    ]
    assert segments.delete_oldest(9, 4).segments == 0, "it holds messages that cannot be read yet"
    assert segments.delete_oldest(9, 5).segments == 1
    assert len(segments) == 1


def test_a_file_left_by_a_failed_attempt_is_used_again_from_its_start() -> None:
    segments = three()
    segments.medium.open(DIRECTORY / f"{5:020}.log").write([b"left behind"], 0)
    disk = segments.medium
    again = Segments(DIRECTORY, disk, Descriptors(disk))
    again.begin(5)
    assert again.tail.file is not None
    assert again.tail.file.size() == 0


def test_nothing_can_be_had_from_a_log_that_holds_nothing() -> None:
    disk = SimulatedDisk()
    empty = Segments(DIRECTORY, disk, Descriptors(disk))
    assert (len(empty), empty.first_offset, empty.facts()) == (0, 0, [])
    with pytest.raises(StorageFailure, match="is closed"):
        empty.tail.index.file.size()


def test_a_twin_takes_the_place_of_the_plain_log_and_can_be_inflated_again() -> None:
    segments = three()
    reading = Reading(0)
    segments.read(reading, 0, 3, None)
    plain = reading.materialise()
    segments.adopt_twin(0, Inflated(plain))
    log = DIRECTORY / f"{0:020}.log"
    assert not segments.medium.exists(log)
    mixed = Reading(0)
    assert segments.read(mixed, 0, 5, None)
    assert mixed.count == 5
    assert mixed.materialise()[: len(plain)] == plain
    assert mixed.ranges == []
    segment = segments.holding(0)
    segments.inflate(segment)
    assert segment.log_path_is_plain
    assert segments.medium.open(log).read(1000, 0) == plain
