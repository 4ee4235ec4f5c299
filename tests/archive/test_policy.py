from borzoi.archive.markers import FileMark, SegmentMarker
from borzoi.archive.policy import archived_head, is_same_life, needed_markers, pending, superseded
from borzoi.storage.segment import SegmentFacts

FILE = FileMark("f", 1, "0")


def facts(start: int, end: int, *, at: int = 0, sealed: bool = True, size: int = 1) -> SegmentFacts:
    return SegmentFacts(start, end, at or start, at + 1 or end, size, sealed)


def marker(of: SegmentFacts) -> SegmentMarker:
    return SegmentMarker(
        start_offset=of.start_offset,
        end_offset=of.end_offset,
        start_timestamp=of.start_timestamp,
        end_timestamp=of.end_timestamp,
        messages_count=1,
        size=of.size,
        log=FILE,
        index=FILE,
        archived_at=0,
        server_version="",
    )


A, B, C = facts(0, 9, at=100), facts(10, 19, at=200), facts(20, 29, at=300)
OPEN = facts(30, 35, at=400, sealed=False)
EMPTY = facts(30, 29, at=300, size=0)


def archived(*segments: SegmentFacts) -> dict[int, SegmentMarker]:
    return {one.start_offset: marker(one) for one in segments}


def test_what_is_sealed_and_not_there_is_pending() -> None:
    assert pending([A, B, C, OPEN], {}) == [A, B, C]
    assert pending([A, B, C, OPEN], archived(B)) == [A, C]
    assert pending([A, EMPTY], {}) == [A]
    other = facts(0, 9, at=900)
    assert pending([other], archived(A)) == [other]


def test_only_the_archived_head_may_be_deleted() -> None:
    segments = [A, B, C, OPEN]
    assert archived_head(segments, {}) == 0
    assert archived_head(segments, archived(B, C)) == 0
    assert archived_head(segments, archived(A, C)) == 1
    assert archived_head(segments, archived(A, B, C)) == 3
    assert archived_head([A, EMPTY, OPEN], archived(A)) == 2
    assert archived_head([facts(0, 9, at=900), B], archived(A, B)) == 0


def test_a_partition_that_began_again_is_noticed() -> None:
    assert is_same_life([A, B, C], archived(A, B))
    assert is_same_life([A, B, C], {})
    assert not is_same_life([facts(0, 9, at=900)], archived(A))
    assert not is_same_life([facts(0, 14, at=900)], archived(B)), "it overlaps"
    assert not is_same_life([facts(0, 9, at=900)], archived(B)), "it is younger than what follows"
    assert is_same_life([A, C], archived(B)), "an upload that failed is made up for"


def test_few_markers_are_enough_to_notice() -> None:
    assert needed_markers([A, B, OPEN], {0, 10, 20}) == {0, 10}
    assert needed_markers([A, B], {10, 20, 40}) == {10}
    assert needed_markers([A], {40, 20}) == {20}
    assert needed_markers([A], set()) == set()


def test_the_newest_copies_are_kept() -> None:
    assert superseded([5, 1, 9], keep=2) == [1]
    assert superseded([5, 1], keep=2) == []
