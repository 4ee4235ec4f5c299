import pytest

from borzoi.objectstore.bounds import PartShape, coalesced, exact
from borzoi.objectstore.errors import PartSizeTooSmall, RangeOutOfBounds
from borzoi.objectstore.interface import PART_BYTES_MIN, PARTS_MAX


def test_only_the_last_part_may_be_short() -> None:
    shape = PartShape("k", PART_BYTES_MIN)
    shape.check(PART_BYTES_MIN)
    shape.check(1)
    assert (shape.count, shape.size) == (2, PART_BYTES_MIN + 1)
    with pytest.raises(PartSizeTooSmall):
        shape.check(PART_BYTES_MIN)


def test_parts_are_counted_up_to_the_limit_of_stores() -> None:
    shape = PartShape("k", PART_BYTES_MIN)
    for _ in range(PARTS_MAX):
        shape.check(PART_BYTES_MIN)
    with pytest.raises(RangeOutOfBounds):
        shape.check(PART_BYTES_MIN)


@pytest.mark.parametrize("size", [0, PART_BYTES_MIN - 1])
def test_parts_that_stores_refuse_are_refused_at_once(size: int) -> None:
    with pytest.raises(PartSizeTooSmall):
        PartShape("k", size)


def test_a_short_answer_is_an_error() -> None:
    assert bytes(exact(memoryview(b"abc"), "k", 5, 8)) == b"abc"
    for start, end in ((5, 9), (5, 7), (8, 5), (-1, 2)):
        with pytest.raises(RangeOutOfBounds):
            exact(memoryview(b"abc"), "k", start, end)


@pytest.mark.parametrize(
    ("ranges", "spans"),
    [
        ([], []),
        ([(3, 3)], []),
        ([(0, 5), (10, 12)], [(0, 12)]),
        ([(0, 5), (16, 20)], [(0, 5), (16, 20)]),
        ([(30, 40), (0, 5), (2, 3), (15, 18)], [(0, 18), (30, 40)]),
    ],
)
def test_near_ranges_become_one(
    ranges: list[tuple[int, int]], spans: list[tuple[int, int]]
) -> None:
    assert coalesced(ranges, 10) == spans
