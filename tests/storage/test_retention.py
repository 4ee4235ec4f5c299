from hypothesis import given
from hypothesis import strategies as st

from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.storage.retention import PartitionFacts, deletable, expired, oversized
from borzoi.storage.segment import SegmentFacts


def segments(*ages: int, size: int = 100) -> list[SegmentFacts]:
    """One segment of ten messages for each (end) timestamp; the last one is open."""
    return [
        SegmentFacts(number * 10, number * 10 + 9, at - 5, at, size, number < len(ages) - 1)
        for number, at in enumerate(ages)
    ]


def test_the_open_segment_is_never_deleted() -> None:
    assert deletable(segments(1), barrier=None) == 0
    assert deletable(segments(1, 2, 3), barrier=None) == 2
    assert expired(segments(1), now=1000, expiry=1) == 0
    assert expired(segments(1, 2, 3), now=1000, expiry=1) == 2
    assert deletable([], barrier=None) == 0


def test_a_barrier_keeps_what_was_not_read_yet() -> None:
    found = segments(1, 2, 3)
    assert deletable(found, barrier=8) == 0
    assert deletable(found, barrier=9) == 1
    assert deletable(found, barrier=18) == 1
    assert deletable(found, barrier=19) == 2
    assert deletable(found, barrier=1000) == 2


def test_a_segment_expires_with_its_last_message() -> None:
    found = segments(100, 200, 300)
    assert expired(found, now=149, expiry=50) == 0
    assert expired(found, now=150, expiry=50) == 1
    assert expired(found, now=250, expiry=50) == 2
    assert expired(found, now=10**9, expiry=NEVER) == 0


def test_a_log_loses_only_its_head() -> None:
    assert expired(segments(100, 900, 200, 1000), now=500, expiry=100) == 1


def test_a_topic_gives_up_its_oldest_segments_at_nine_tenths() -> None:
    first = PartitionFacts(segments(100, 300, 500))
    second = PartitionFacts(segments(200, 400, 600))
    assert oversized([first, second], topic_size=600, topic_size_max=700) == [0, 0]
    assert oversized([first, second], topic_size=630, topic_size_max=700) == [1, 0]
    assert oversized([first, second], topic_size=600, topic_size_max=500) == [1, 1]
    assert oversized([first, second], topic_size=600, topic_size_max=1) == [2, 2]
    assert oversized([first, second], topic_size=600, topic_size_max=UNLIMITED) == [0, 0]


def test_a_held_back_partition_does_not_hold_back_the_others() -> None:
    held = PartitionFacts(segments(100, 300, 500), barrier=3)
    other = PartitionFacts(segments(200, 400, 600))
    assert oversized([held, other], topic_size=600, topic_size_max=1) == [0, 2]


@given(
    st.lists(st.lists(st.integers(10, 1000), max_size=6).map(sorted), max_size=4),
    st.integers(1, 3000),
)
def test_no_more_is_given_up_than_needed(ages: list[list[int]], maximum: int) -> None:
    partitions = [PartitionFacts(segments(*each)) for each in ages]
    total = sum(len(each) for each in ages) * 100
    counts = oversized(partitions, topic_size=total, topic_size_max=maximum)
    left = total - sum(counts) * 100
    threshold = maximum * 9 // 10
    assert all(count <= max(len(each) - 1, 0) for count, each in zip(counts, ages, strict=True))
    if left >= threshold:
        assert counts == [max(len(each) - 1, 0) for each in ages]
    elif sum(counts):
        assert left + 100 >= threshold
