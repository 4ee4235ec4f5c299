"""Bytes and bounds by index, against the files themselves."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.segment_files import FIRST_TIME, STEP, write_segment

from borzoi.records.message import Message
from borzoi.spark.locating import Locator, ends_between
from borzoi.spark.offsets import PartitionKey, Position, Range
from borzoi.spark.options import ConnectionOptions, SourceOptions
from borzoi.spark.plan import SplitLimits
from borzoi.spark.segments import SealedSegment

KEY = PartitionKey("1/2", 0)
SIZES = [10, 200, 0, 50, 1000, 3, 77, 5, 500, 12]


def located(data: Path) -> Locator:
    """Ten messages of known sizes in two segments."""
    directory = data / "streams/1/topics/2/partitions/0"
    messages = [[Message(b"x" * size)] for size in SIZES]
    write_segment(directory, 0, messages[:6])
    write_segment(directory, 6, messages[6:])
    options = SourceOptions(
        ConnectionOptions("nowhere:1"), ("1/2",), segments="direct-only", data_directory=data
    )
    locator = Locator(options)
    locator.extents()
    return locator


def test_sizes_are_exact(tmp_path: Path) -> None:
    locator = located(tmp_path)
    for start in range(10):
        for end in range(start, 11):
            assert locator.size(KEY, start, end) == sum(64 + s for s in SIZES[start:end])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 9), st.integers(1, 3000))
def test_the_offset_after_some_bytes_is_the_last_that_fits(
    tmp_path: Path, start: int, size: int
) -> None:
    locator = located(tmp_path)
    expected, left = start, size
    while expected < 10 and 64 + SIZES[expected] <= left:
        left -= 64 + SIZES[expected]
        expected += 1
    found = locator.offset_after(KEY, start, size)
    assert min(found, 10) == max(start + 1, expected)


def test_a_directory_says_what_it_holds(tmp_path: Path) -> None:
    locator = located(tmp_path)
    extent = locator.known_extents()[KEY]
    assert (extent.earliest, extent.latest) == (0, 10)
    assert locator.find_time(KEY, FIRST_TIME + 3 * STEP) == 3
    assert locator.find_time(KEY, FIRST_TIME + 99 * STEP) is None
    assert locator.timestamp_at(KEY, 7) == FIRST_TIME + STEP
    assert locator.timestamp_at(KEY, 99) is None
    assert locator.changed(KEY, Position(8, 1, FIRST_TIME + STEP)) is None
    assert "written again" in (locator.changed(KEY, Position(8, 1, 5)) or "")
    splits = locator.plan([Range(KEY, 0, 10)], SplitLimits(1 << 20))
    assert [(each.start, each.end) for each in splits] == [(0, 10)]
    locator.store("nobody", {})
    locator.close()


def test_ends_begin_where_the_range_does(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, [[Message(b"x" * size)] for size in SIZES])
    begin, ends = ends_between(SealedSegment(tmp_path, 0, 10), 1, 3)
    assert (begin, ends.tolist()) == (74, [74 + 264, 74 + 264 + 64])
