"""Which segments to delete. Pure: decisions are made here and carried out elsewhere.

A log may only lose its head, so every decision is a number of segments from the oldest on, and it
never reaches the open segment.
"""

from collections.abc import Sequence

from borzoi.model.limits import NEVER, SERVER_DEFAULT, UNLIMITED
from borzoi.model.value import Value
from borzoi.storage.segment import SegmentFacts


def deletable(segments: Sequence[SegmentFacts], *, barrier: int | None) -> int:
    """How many of the oldest segments may be deleted at all.

    With a barrier, the lowest stored offset, a segment with messages after it has to stay.
    """
    count = 0
    for segment in segments[:-1]:
        if not segment.sealed or (barrier is not None and segment.end_offset > barrier):
            break
        count += 1
    return count


def expired(segments: Sequence[SegmentFacts], *, now: int, expiry: int) -> int:
    """How many of the oldest segments hold only messages older than `expiry` µs."""
    assert expiry != SERVER_DEFAULT, "a topic's expiry is resolved before it gets here"
    if expiry == NEVER:
        return 0
    count = 0
    for segment in segments[:-1]:
        if not segment.sealed or segment.end_timestamp + expiry > now:
            break
        count += 1
    return count


def shrunk_below(topic_size_max: int) -> int:
    """Return the target size of a topic, which leaves some space for new messages."""
    return topic_size_max * 9 // 10


class PartitionFacts(Value):
    """What the size of a topic is decided from, for one of its partitions."""

    segments: Sequence[SegmentFacts]
    barrier: int | None = None


def oversized(
    partitions: Sequence[PartitionFacts], *, topic_size: int, topic_size_max: int
) -> list[int]:
    """Return how many segments each partition has to delete so that the topic is below nine tenths.

    The oldest segment of them all goes first. `topic_size` counts all partitions of the topic,
    also those that other shards own and that are not among `partitions`.
    """
    assert topic_size_max != SERVER_DEFAULT, "a topic's size is resolved before it gets here"
    counts = [0] * len(partitions)
    if topic_size_max == UNLIMITED:
        return counts
    threshold = shrunk_below(topic_size_max)
    limits = [deletable(facts.segments, barrier=facts.barrier) for facts in partitions]
    while topic_size >= threshold:
        candidates = [
            (facts.segments[counts[number]].start_timestamp, number)
            for number, facts in enumerate(partitions)
            if counts[number] < limits[number]
        ]
        if not candidates:
            break
        _, number = min(candidates)
        topic_size -= partitions[number].segments[counts[number]].size
        counts[number] += 1
    return counts
