from pathlib import Path

from tests.support.disk import SimulatedDisk

from borzoi.records.validation import INDEX_ENTRY
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.index import SegmentIndex
from borzoi.storage.reading import FileRange
from borzoi.storage.segment import PlainBody, Segment

DIRECTORY = Path("/d")


def open_segment() -> tuple[Segment, SimulatedDisk]:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    index_file = disk.open(DIRECTORY / "i", create=True)
    segment = Segment(100, DIRECTORY / "l", SegmentIndex(DIRECTORY / "i", lambda: index_file))
    segment.file = disk.open(DIRECTORY / "l", create=True)
    segment.file.write([bytes(300)], 0)
    entries = INDEX_ENTRY.pack(0, 100, 7) + INDEX_ENTRY.pack(1, 180, 7)
    segment.extend(entries, 180, 7, 7)
    segment.extend(INDEX_ENTRY.pack(2, 300, 9), 120, 9, 9)
    return segment, disk


def test_a_segment_knows_its_bounds() -> None:
    segment, _ = open_segment()
    facts = segment.facts()
    assert (facts.start_offset, facts.end_offset, facts.size) == (100, 102, 300)
    assert (facts.start_timestamp, facts.end_timestamp) == (7, 9)
    assert not facts.sealed
    assert segment.next_offset == 103


def test_messages_whose_entries_come_later_count_at_once() -> None:
    segment, _ = open_segment()
    segment.extend_later(
        2, lambda: INDEX_ENTRY.pack(3, 400, 11) + INDEX_ENTRY.pack(4, 500, 11), 200, 11
    )
    assert (segment.size, segment.end_timestamp, segment.next_offset) == (500, 11, 105)
    assert segment.index.end_position(4) == 500


def test_the_first_of_them_may_begin_the_segment() -> None:
    segment = Segment(0, DIRECTORY / "l", SegmentIndex(DIRECTORY / "i", lambda: None))  # type: ignore[arg-type,return-value]
    segment.extend_later(1, lambda: INDEX_ENTRY.pack(0, 100, 11), 100, 11)
    assert (segment.start_timestamp, segment.end_timestamp) == (11, 11)


def test_messages_are_given_as_a_range_of_the_open_file() -> None:
    segment, _ = open_segment()
    assert segment.file is not None
    assert segment.part(100, 200) == FileRange(segment.file, 100, 200)
    assert segment.log_path_is_plain


def test_a_sealed_segment_is_read_through_the_shared_descriptors() -> None:
    segment, disk = open_segment()
    segment.file = None
    segment.body = PlainBody(DIRECTORY / "l", 300, Descriptors(disk))
    assert segment.sealed
    assert segment.log_path_is_plain
    part = segment.part(0, 100)
    assert isinstance(part, FileRange)
    assert (part.position, part.length) == (0, 100)
