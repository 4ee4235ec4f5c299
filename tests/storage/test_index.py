from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.disk import SimulatedDisk
from tests.support.logs import numbered

from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.records.batch import index_entries
from borzoi.records.validation import INDEX_DTYPE, INDEX_ENTRY
from borzoi.storage.index import SegmentIndex, entries_of, valid_prefix

PATH = Path("/d/0.index")


def new_index() -> SegmentIndex:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    file = disk.open(PATH, create=True)
    return SegmentIndex(file)


def entries(first: int, timestamps: list[int]) -> bytes:
    return b"".join(
        INDEX_ENTRY.pack(number, (number + 1) * 100, timestamp)
        for number, timestamp in enumerate(timestamps, first)
    )


def test_the_recorded_layout() -> None:
    """The two entries of the published test vector."""
    first = numbered([b"hello"], base_offset=0, timestamp=1_700_000_000_000_000)
    assert (
        entries_of(first, relative_offset=0, position=0).hex() == "000000004500000000401e18240a0600"
    )


def test_entries_of_stored_messages_are_those_of_the_append() -> None:
    batch = numbered([b"a", b"bb" * 50, b""] * 5, base_offset=40, timestamp=77)
    assert entries_of(batch, relative_offset=40, position=1000) == index_entries(
        batch, relative_offset=40, position=1000, timestamp=77
    )


@pytest.mark.parametrize(
    "look",
    [
        lambda index: index.end_position(3),
        lambda index: index.first_at_or_after(9, count=4),
        lambda index: index.last_ending_by(350, first=0, last=3),
        lambda index: index.save(),
        lambda index: index.truncate(3),
        lambda index: index.extend(entries(4, [10])),
    ],
)
def test_deferred_entries_are_built_before_they_are_read(
    look: Callable[[SegmentIndex], object],
) -> None:
    early, late = new_index(), new_index()
    early.extend(entries(0, [7, 7]))
    early.extend(entries(2, [8, 9]))
    late.extend_later(2, lambda: entries(0, [7, 7]))
    late.extend_later(2, lambda: entries(2, [8, 9]))
    assert late.count == late.unsaved == late.cached == 4
    assert look(late) == look(early)
    for index in (early, late):
        index.save()
    saved = [index.file.read(1000, 0) for index in (early, late)]
    assert saved[0] == saved[1]


def test_each_entry_is_made_once() -> None:
    index = new_index()
    made = iter([entries(0, [7])])
    index.extend_later(1, lambda: next(made))
    index.gather()
    index.gather()
    assert index.end_position(0) == 100


@pytest.mark.parametrize("keep", [0, 3, 1000])
@pytest.mark.parametrize("save_every", [1, 4, 1000])
def test_entries_are_found_in_memory_and_in_the_file(keep: int, save_every: int) -> None:
    index = new_index()
    for number in range(50):
        index.extend(entries(number, [number * 10]))
        if number % save_every == 0:
            index.save(keep=keep)
    assert index.count == 50
    assert index.end_position(-1) == 0
    assert [index.end_position(number) for number in range(50)] == [
        (number + 1) * 100 for number in range(50)
    ]
    assert [index.first_at_or_after(n * 10, count=50) for n in range(50)] == [*range(50)]
    index.save(keep=keep)
    assert index.cached <= max(2 * keep, 1) or keep >= 50


def test_the_end_of_one_range_is_the_start_of_the_next_without_another_read() -> None:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    index = SegmentIndex(disk.open(PATH, create=True))
    index.extend(entries(0, [1] * 30))
    index.save()
    assert [index.end_position(number) for number in (9, 9, 19, 19, 29)] == [
        1000,
        1000,
        2000,
        2000,
        3000,
    ]
    assert disk.bytes_read == {".index": 3 * INDEX_ENTRY_BYTES}


def test_the_end_that_was_read_last_is_not_remembered_over_a_truncation() -> None:
    index = new_index()
    index.extend(entries(0, [1] * 30))
    index.save()
    assert index.end_position(19) == 2000
    index.truncate(10)
    index.extend(INDEX_ENTRY.pack(10, 1111, 2) * 10)
    index.save()
    assert index.end_position(19) == 1111


def test_saving_up_to_an_entry_leaves_the_others_in_memory() -> None:
    index = new_index()
    index.extend(entries(0, [1] * 10))
    index.save(up_to=4)
    assert (index.saved, index.unsaved) == (4, 6)
    assert index.file.size() == 64
    index.save()
    assert index.file.size() == 160


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=700).map(sorted),
    st.integers(0, 700),
    st.integers(0, 700),
    st.integers(-1, 42),
)
def test_the_first_entry_of_a_time_is_found_among_many(
    timestamps: list[int], saved: int, visible: int, wanted: int
) -> None:
    index = new_index()
    count = min(visible, len(timestamps))
    index.extend(entries(0, timestamps))
    index.save(up_to=min(saved, len(timestamps)))
    expected = sum(timestamp < wanted for timestamp in timestamps[:count])
    assert index.first_at_or_after(wanted, count=count) == expected


@pytest.mark.parametrize("kept", [0, 1000])
def test_a_time_is_found_among_thousands_of_entries_in_the_file(kept: int) -> None:
    timestamps = [number // 7 * 3 for number in range(5000)]
    index = new_index()
    index.extend(entries(0, timestamps))
    index.save(keep=kept)
    assert index.cached == kept
    for wanted in range(timestamps[-1] + 4):
        expected = min(-(-wanted // 3) * 7, 5000)
        assert index.first_at_or_after(wanted, count=5000) == expected
        assert index.first_at_or_after(wanted, count=3000) == min(expected, 3000)


def test_the_last_message_that_fits_is_found() -> None:
    index = new_index()
    index.extend(entries(0, [1] * 20))
    assert index.last_ending_by(1000, first=5, last=19) == 9
    assert index.last_ending_by(1099, first=5, last=19) == 9
    assert index.last_ending_by(599, first=5, last=19) == 4
    assert index.last_ending_by(10_000, first=5, last=19) == 19


@pytest.mark.parametrize("saved", [0, 3, 7, 10])
def test_truncated_entries_are_gone_from_memory_and_file(saved: int) -> None:
    index = new_index()
    index.extend(entries(0, list(range(10))))
    index.save(up_to=saved)
    index.truncate(5)
    assert index.count == 5
    index.extend(entries(5, [100]))
    index.save()
    assert index.file.size() == 96
    assert index.first_at_or_after(4, count=6) == 4
    assert index.first_at_or_after(100, count=6) == 5
    assert index.first_at_or_after(101, count=6) == 6


def damaged(change: str) -> bytes:
    table = np.frombuffer(entries(0, [1] * 8), INDEX_DTYPE).copy()
    match change:
        case "zeros":
            table[5:] = np.zeros(3, INDEX_DTYPE)
        case "number":
            table["offset"][5] = 6
        case "back":
            table["position"][5] = 450
        case "too short":
            table["position"][5] = 563
        case "past the log":
            table["position"][5:] += 1_000_000
    return table.tobytes()


@pytest.mark.parametrize("change", ["zeros", "number", "back", "too short", "past the log"])
def test_an_index_counts_up_to_its_first_impossible_entry(change: str) -> None:
    table = np.frombuffer(damaged(change), INDEX_DTYPE)
    assert valid_prefix(table, first=0, position=0, limit=800) == 5


def test_a_sound_index_counts_whole() -> None:
    table = np.frombuffer(entries(3, [1] * 8), INDEX_DTYPE)
    assert valid_prefix(table, first=3, position=300, limit=1100) == 8
    assert valid_prefix(table, first=3, position=300, limit=1099) == 7
    assert valid_prefix(table[:0], first=0, position=0, limit=0) == 0


@pytest.mark.parametrize("keep", [0, 3, 100])
def test_ends_are_found_in_memory_in_the_file_and_across_both(keep: int) -> None:
    index = new_index()
    index.extend(entries(0, [1] * 20))
    index.save(keep=keep)
    index.extend(entries(20, [2] * 5))
    index.extend_later(1, lambda: entries(25, [3]))
    for first in range(26):
        for last in range(first, 26):
            expected = [(number + 1) * 100 for number in range(first, last + 1)]
            assert index.ends(first, last) == expected
            assert index.span(first, last) == (first * 100, (last + 1) * 100)
            assert index.span(first, first) == (first * 100, (first + 1) * 100)


def test_far_apart_reads_look_both_positions_up_at_once() -> None:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    index = SegmentIndex(disk.open(PATH, create=True))
    index.extend(entries(0, [1] * 1000))
    index.save(keep=0)

    def bytes_read_by(first: int, last: int) -> int:
        before = disk.bytes_read.get(".index", 0)
        assert index.span(first, last) == (first * 100, (last + 1) * 100)
        return disk.bytes_read.get(".index", 0) - before

    assert bytes_read_by(10, 10) == 2 * INDEX_ENTRY_BYTES
    assert bytes_read_by(11, 11) == INDEX_ENTRY_BYTES, "it begins where the last one ended"
    assert bytes_read_by(500, 510) == 12 * INDEX_ENTRY_BYTES
    assert bytes_read_by(10, 900) == 2 * INDEX_ENTRY_BYTES, "what is between is not read"
