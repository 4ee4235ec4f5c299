"""What has to be archived, and what may be deleted afterwards. Pure."""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence

from borzoi.archive.markers import SegmentMarker
from borzoi.storage.segment import SegmentFacts


def wanted(segments: Sequence[SegmentFacts]) -> list[SegmentFacts]:
    """Return the segments that belong in an archive: sealed, and not empty."""
    return [facts for facts in segments if facts.sealed and facts.size]


def pending(
    segments: Sequence[SegmentFacts], archived: Mapping[int, SegmentMarker]
) -> list[SegmentFacts]:
    """Return the segments that are not archived yet, oldest first."""
    return [facts for facts in wanted(segments) if not _is_archived(facts, archived)]


def archived_head(segments: Sequence[SegmentFacts], archived: Mapping[int, SegmentMarker]) -> int:
    """Return how many of the oldest segments may be deleted without losing a message."""
    count = 0
    for facts in segments:
        if not facts.sealed or (facts.size and not _is_archived(facts, archived)):
            break
        count += 1
    return count


def is_same_life(segments: Sequence[SegmentFacts], archived: Mapping[int, SegmentMarker]) -> bool:
    """Whether these segments continue the archived ones, or belong to a purged partition that
    restarted at offset 0.

    `archived` has at least the markers that `needed_markers` names.
    """
    starts = sorted(archived)
    for facts in wanted(segments):
        marker = archived.get(facts.start_offset)
        if marker is not None and not marker.describes(facts):
            return False
        above = bisect_right(starts, facts.start_offset)
        if above < len(starts):
            after = archived[starts[above]]
            overlaps = facts.end_offset >= after.start_offset
            if overlaps or facts.end_timestamp > after.start_timestamp:
                return False
    return True


def needed_markers(segments: Sequence[SegmentFacts], listed: Collection[int]) -> set[int]:
    """Return the markers that decide whether these segments continue the archived ones: their
    own, and for a segment without one, the next above."""
    starts = {facts.start_offset for facts in wanted(segments)}
    needed = starts.intersection(listed)
    if len(needed) < len(starts):
        ordered = sorted(listed)
        for start in starts - needed:
            above = bisect_right(ordered, start)
            needed.update(ordered[above : above + 1])
    return needed


def superseded(indexes: Sequence[int], *, keep: int) -> list[int]:
    """Return the metadata copies to delete so that the `keep` newest stay."""
    return sorted(indexes)[: max(len(indexes) - keep, 0)]


def _is_archived(facts: SegmentFacts, archived: Mapping[int, SegmentMarker]) -> bool:
    marker = archived.get(facts.start_offset)
    return marker is not None and marker.describes(facts)
