"""Positions, bounds and limits: arithmetic without a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.spark.offsets import (
    DataLoss,
    Extent,
    PartitionKey,
    Position,
    Range,
    admit_bytes,
    admit_rows,
    from_json,
    is_worth_a_batch,
    lag,
    lost,
    ranges,
    resolve,
    to_json,
    total,
)
from borzoi.spark.option_values import Moment
from borzoi.spark.options import Bound, InvalidOption

A, B = PartitionKey("s/t", 0), PartitionKey("s/t", 1)
EXTENTS = {A: Extent(10, 100, 7, 50), B: Extent(0, 20, 7, 50)}

lags = st.dictionaries(
    st.builds(PartitionKey, st.sampled_from(["a/b", "a/c"]), st.integers(0, 5)),
    st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
    min_size=1,
)


def never(key: PartitionKey, micros: int) -> int | None:
    return None


def test_positions_survive_the_checkpoint() -> None:
    positions = {A: Position(5, 7, 9), PartitionKey("other/topic", 3): Position(2**40, 1)}
    assert from_json(to_json(positions)) == positions


def test_offsets_of_another_version_are_refused() -> None:
    with pytest.raises(DataLoss, match="version 2"):
        from_json({"v": 2})


def test_words_and_numbers_say_where_to_start() -> None:
    assert resolve(Bound("earliest"), EXTENTS, now=0, find_time=never) == {A: 10, B: 0}
    assert resolve(Bound("latest"), EXTENTS, now=0, find_time=never) == {A: 100, B: 20}
    bound = Bound(offsets={"": {0: 50, 1: -1}})
    assert resolve(bound, EXTENTS, now=0, find_time=never) == {A: 50, B: 20}
    bound = Bound(offsets={"s/t": {0: -2}})
    assert resolve(bound, EXTENTS, now=0, find_time=never) == {A: 10, B: 0}


def test_times_are_looked_up_in_each_partition() -> None:
    asked = []

    def find(key: PartitionKey, micros: int) -> int | None:
        asked.append((key, micros))
        return 42 if key == A else None

    bound = Bound(moment=Moment(100, is_relative=True))
    assert resolve(bound, EXTENTS, now=1000, find_time=find) == {A: 42, B: 20}
    assert asked == [(A, 900), (B, 900)]
    some = Bound(moments={"s/t": {0: 5}})
    assert resolve(some, EXTENTS, now=0, find_time=find) == {A: 42, B: 0}
    strict = Bound(moments={"s/t": {1: 5}}, is_error_when_too_new=True)
    with pytest.raises(InvalidOption, match=r"s/t\[1\] has no message"):
        resolve(strict, EXTENTS, now=0, find_time=find)


def test_offsets_for_topics_that_are_not_read_are_refused() -> None:
    with pytest.raises(InvalidOption, match="not subscribed"):
        resolve(Bound(offsets={"x/y": {0: 1}}), EXTENTS, now=0, find_time=never)
    several = EXTENTS | {PartitionKey("s/u", 0): Extent(0, 1, 1)}
    with pytest.raises(InvalidOption, match="ambiguous"):
        resolve(Bound(offsets={"": {0: 1}}), several, now=0, find_time=never)


@given(lags, st.integers(1, 3000))
def test_a_batch_takes_its_share_of_every_partition(
    spans: dict[PartitionKey, tuple[int, int]], rows_max: int
) -> None:
    start = {key: first for key, (first, _) in spans.items()}
    end = {key: first + more for key, (first, more) in spans.items()}
    admitted = admit_rows(start, end, rows_max)
    taken = {key: admitted[key] - start[key] for key in spans}
    waiting = sum(more for _, more in spans.values())
    assert sum(taken.values()) == min(rows_max, waiting)
    for key, (_, more) in spans.items():
        assert 0 <= taken[key] <= more
        if waiting > rows_max:
            assert abs(taken[key] - more * rows_max / waiting) < 1


@given(lags, st.integers(1, 100_000))
def test_a_batch_of_bytes_moves_and_stays_within_what_is_there(
    spans: dict[PartitionKey, tuple[int, int]], bytes_max: int
) -> None:
    size = 100
    start = {key: first for key, (first, _) in spans.items()}
    end = {key: first + more for key, (first, more) in spans.items()}
    sizes = {key: more * size for key, (_, more) in spans.items()}

    def after(key: PartitionKey, first: int, share: int) -> int:
        return max(first + 1, first + share // size)

    admitted = admit_bytes(start, end, bytes_max, after, sizes)
    taken = sum(admitted[key] - start[key] for key in spans)
    assert all(start[key] <= admitted[key] <= end[key] for key in spans)
    if any(sizes.values()):
        assert taken > 0
    # About: a partition whose share is less than a message still takes one.
    assert taken * size <= bytes_max + len(spans) * size


def test_few_messages_wait_for_more_but_not_forever() -> None:
    assert is_worth_a_batch(1, None, 0, 100)
    assert is_worth_a_batch(5, 5, 0, 100)
    assert not is_worth_a_batch(4, 5, 99, 100)
    assert is_worth_a_batch(4, 5, 100, 100)


@pytest.mark.parametrize(
    ("position", "extent", "reason"),
    [
        (Position(50, 7), Extent(10, 100, 7), None),
        (Position(100, 7), Extent(10, 100, 7), None),
        (
            Position(5, 7),
            Extent(10, 100, 7),
            "retention: wanted from offset 5 on, the server keeps 10 to 99",
        ),
        (Position(101, 7), Extent(10, 100, 7), "was purged: wanted from offset 101"),
        (Position(1, 7), Extent(0, 0, 7), "keeps nothing, its next offset is 0"),
        (Position(50, 7), Extent(10, 100, 8), "deleted and created again"),
        (Position(50, 7), None, "no longer exists"),
    ],
)
def test_what_is_gone_is_named(
    position: Position, extent: Extent | None, reason: str | None
) -> None:
    found = lost(A, position, extent)
    assert found is None if reason is None else found is not None and reason in found


def test_ranges_cover_new_and_recreated_partitions_from_their_first_message() -> None:
    start = {A: Position(50, 7)}
    end = {A: Position(80, 7), B: Position(20, 7)}
    assert ranges(start, end, EXTENTS) == [Range(A, 50, 80), Range(B, 0, 20)]
    recreated = {A: Position(30, 9)}
    assert ranges(start, recreated, {A: Extent(0, 30, 9)}) == [Range(A, 0, 30)]
    assert ranges({A: Position(5, 7)}, {A: Position(60, 7)}, EXTENTS) == [Range(A, 10, 60)]
    assert ranges(start, end, {}) == []
    assert total([Range(A, 0, 3), Range(B, 5, 6)]) == 4


def test_lag_counts_what_was_not_read() -> None:
    assert lag({A: Position(40, 1)}, {A: Position(100, 1), B: Position(5, 1)}) == {A: 60, B: 5}
