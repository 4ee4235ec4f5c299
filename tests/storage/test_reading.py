from pathlib import Path

from tests.support.lenient import LenientMedium

from borzoi.storage.reading import SLICE_BYTES, FileRange, FileSlices, Reading


def test_a_reading_is_its_ranges_and_then_its_tail(tmp_path: Path) -> None:
    file = LenientMedium().open(tmp_path / "f", create=True)
    file.write([b"0123456789"], 0)
    reading = Reading(7, 3, [FileRange(file, 2, 3), FileRange(file, 8, 1)], [memoryview(b"abc")])
    assert reading.materialise() == b"2348abc"
    assert reading.size == 7
    assert reading.last_offset == 9


def test_messages_that_were_left_out_still_count_for_the_last_offset() -> None:
    assert Reading(10, 2, left_out=3).last_offset == 14


def test_a_range_keeps_its_file_open(tmp_path: Path) -> None:
    medium = LenientMedium()
    part = FileRange(medium.open(tmp_path / "f", create=True), 0, 0)
    medium.unlink(tmp_path / "f")
    assert part.file.size() == 0


def test_bytes_behind_those_that_are_made_are_read_a_slice_at_a_time(tmp_path: Path) -> None:
    file = LenientMedium().open(tmp_path / "f", create=True)
    content = bytes(range(256)) * (SLICE_BYTES // 100)
    file.write([content], 0)
    part = FileRange(file, 5, len(content) - 5)
    reading = Reading(0, 2, tail=[memoryview(b"abc"), FileSlices(part)])
    assert reading.size == 3 + part.length
    assert reading.must_be_checked
    assert not Reading(0, 1, [part], [memoryview(b"abc")]).must_be_checked
    chunks = list(reading.chunks())
    assert max(map(len, chunks)) == SLICE_BYTES
    assert b"".join(chunks) == b"abc" + content[5:]
    assert list(reading.checks()) == []
