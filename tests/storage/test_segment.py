from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.inflated import Inflated

from borzoi.model.errors import StorageFailure
from borzoi.records.validation import INDEX_ENTRY
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.index import SegmentIndex
from borzoi.storage.reading import SLICE_BYTES, FileRange, Produced
from borzoi.storage.segment import MADE_AT_ONCE_BYTES_MAX, PlainBody, Segment

DIRECTORY = Path("/d")


def open_segment() -> tuple[Segment, SimulatedDisk]:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    descriptors = Descriptors(disk)
    index = SegmentIndex(descriptors.created(DIRECTORY, "i"))
    segment = Segment(100, DIRECTORY, index)
    segment.file = descriptors.created(DIRECTORY, "l")
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
    index = SegmentIndex(Descriptors(SimulatedDisk()).file(DIRECTORY, "i"))
    segment = Segment(0, DIRECTORY, index)
    segment.extend_later(1, lambda: INDEX_ENTRY.pack(0, 100, 11), 100, 11)
    assert (segment.start_timestamp, segment.end_timestamp) == (11, 11)


def test_messages_are_given_as_a_range_of_the_open_file() -> None:
    segment, _ = open_segment()
    assert segment.file is not None
    assert segment.part(100, 200) == FileRange(segment.file, 100, 200)
    assert segment.log_path_is_plain


def test_a_sealed_segment_is_read_through_the_same_file() -> None:
    segment, _ = open_segment()
    segment.seal()
    assert segment.sealed
    assert isinstance(segment.body, PlainBody)
    assert segment.log_path_is_plain
    part = segment.part(0, 100)
    assert isinstance(part, FileRange)
    assert (part.position, part.length) == (0, 100)
    assert part.file.read(3, 0) == bytes(3)


def test_a_closed_segment_closes_its_descriptors_even_if_its_bytes_are_held() -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    descriptors = Descriptors(disk)
    segment = Segment(0, DIRECTORY, SegmentIndex(descriptors.created(DIRECTORY, "i")))
    segment.file = descriptors.created(DIRECTORY, "l")
    segment.file.write([bytes(300)], 0)
    segment.index.extend(INDEX_ENTRY.pack(0, 300, 7))
    segment.index.save()
    held = segment.part(0, 300)
    assert isinstance(held, FileRange)
    assert len(descriptors) == 2
    segment.seal()
    segment.close()
    assert len(descriptors) == 0
    with pytest.raises(StorageFailure, match="is closed"):
        held.file.read(1, 0)


def test_a_long_part_that_must_be_made_is_made_while_it_is_sent() -> None:
    segment, _ = open_segment()
    body = Inflated(bytes(range(256)) * (10 * SLICE_BYTES // 256))
    segment.file, segment.body = None, body
    short = segment.part(10, MADE_AT_ONCE_BYTES_MAX)
    assert isinstance(short, memoryview)
    body.parts.clear()
    long = segment.part(10, 5 * SLICE_BYTES)
    assert isinstance(long, Produced)
    assert body.parts == []
    list(long.checks())
    assert sum(length for _, length in body.checked) == long.length == 5 * SLICE_BYTES
    for _ in range(2):
        assert b"".join(long.slices()) == body.plain[10 : 10 + 5 * SLICE_BYTES]
    # Cut where frames begin: none is made twice.
    assert [position % SLICE_BYTES for position, _ in body.parts[1:6]] == [0] * 5
