"""Ranges become splits: every message once, in order, within the limits."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from borzoi.spark.offsets import PartitionKey, Range
from borzoi.spark.plan import ONE_PER_PARTITION, Split, SplitLimits, Window, plan
from borzoi.spark.segments import SealedSegment

KEY = PartitionKey("s/t", 0)
HERE = Path("p")


def ends_of(segment: SealedSegment, start: int, end: int) -> tuple[int, Any]:
    """Message n of the partition has 100 + n % 7 bytes."""
    sizes = np.array([100 + n % 7 for n in range(segment.base, end)], np.int64)
    ends = np.cumsum(sizes)
    skipped = start - segment.base
    return int(ends[skipped - 1]) if skipped else 0, ends[skipped:]


def planned(wanted: Range, segments: Sequence[SealedSegment], limits: SplitLimits) -> list[Split]:
    return plan(
        [wanted],
        segments_of=lambda _: segments,
        ends_of=ends_of,
        mean_bytes_of=lambda _: 103,
        limits=limits,
    )


@given(
    st.lists(st.integers(1, 60), max_size=6),
    st.integers(0, 30),
    st.integers(0, 400),
    st.integers(50, 5000),
    st.one_of(st.none(), st.integers(1, 50)),
    st.integers(1, 8),
)
def test_splits_hold_every_message_once_and_in_order(
    counts: list[int], start: int, length: int, bytes_max: int, records_max: int | None, least: int
) -> None:
    bases = [0, *np.cumsum(counts).tolist()]
    segments = [SealedSegment(HERE, a, b) for a, b in itertools.pairwise(bases)]
    splits = planned(
        Range(KEY, start, start + length), segments, SplitLimits(bytes_max, records_max, least)
    )
    assert [n for s in splits for n in range(s.start, s.end)] == list(range(start, start + length))
    sealed = bases[-1]
    for split in splits:
        count = split.end - split.start
        assert records_max is None or count <= records_max
        assert count == 1 or split.size <= bytes_max
        assert split.is_tail == (split.start >= sealed)
        in_pieces = [n for piece in split.pieces for n in range(piece.start, piece.end)]
        assert in_pieces == ([] if split.is_tail else list(range(split.start, split.end)))
    if length >= 20 * least and records_max is None:
        assert len(splits) >= min(least, length)


def test_a_stream_has_one_split_for_each_partition() -> None:
    """Two tasks for one partition would write its messages out of order."""
    segments = [SealedSegment(HERE, 0, 10), SealedSegment(HERE, 10, 20)]
    other = PartitionKey("s/t", 1)
    splits = plan(
        [Range(KEY, 5, 30), Range(other, 0, 4)],
        segments_of=lambda key: segments if key == KEY else (),
        ends_of=ends_of,
        mean_bytes_of=lambda _: 1,
        limits=ONE_PER_PARTITION,
    )
    assert [(s.key, s.start, s.end, len(s.pieces)) for s in splits] == [
        (KEY, 5, 30, 2),
        (other, 0, 4, 0),
    ]


def test_small_segments_are_read_by_one_task() -> None:
    segments = [SealedSegment(HERE, n, n + 1) for n in range(50)]
    splits = planned(Range(KEY, 0, 50), segments, SplitLimits(1 << 20))
    assert len(splits) == 1
    assert len(splits[0].pieces) == 50


def test_a_segment_is_cut_into_equal_parts() -> None:
    """A small rest would be a task that keeps one core busy while the others wait."""
    splits = planned(Range(KEY, 0, 1000), [SealedSegment(HERE, 0, 1000)], SplitLimits(50_000))
    sizes = [split.size for split in splits]
    assert len(sizes) == 3
    assert max(sizes) - min(sizes) < 3 * 107


def test_a_gap_between_segments_is_left_to_the_server() -> None:
    segments = [SealedSegment(HERE, 0, 10), SealedSegment(HERE, 20, 30)]
    splits = planned(Range(KEY, 5, 30), segments, SplitLimits(1 << 20))
    assert [(s.start, s.end, s.is_tail) for s in splits] == [(5, 10, False), (10, 30, True)]


def times(key: PartitionKey, micros: int) -> int | None:
    """Message n has the time 10 n; there are 100."""
    found = -(-micros // 10)
    return found if found < 100 else None


def test_a_window_narrows_a_range() -> None:
    span = Range(KEY, 0, 100)
    assert Window().narrowed(span, times) == span
    assert Window().offsets(low=5, high=50).narrowed(span, times) == Range(KEY, 5, 50)
    assert Window().times(low=101, high=205).narrowed(span, times) == Range(KEY, 11, 21)
    assert Window().times(low=9999).narrowed(span, times) == Range(KEY, 100, 100)
    assert Window().times(high=9999).narrowed(span, times) == span
    assert Window().within([1, 2]).narrowed(span, times).end == 0
    both = Window().within([0, 1]).within([0]).offsets(low=7).offsets(low=3, high=20)
    assert both.times(low=0).times(low=100).narrowed(span, times) == Range(KEY, 10, 20)
    assert Window().offsets(low=50, high=10).narrowed(span, times) == Range(KEY, 50, 50)
