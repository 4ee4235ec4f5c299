"""Message ids are functions of where a row comes from."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.spark.ids import Keys, Lineage, ids_of_words, position_ids, topic_hashes
from borzoi.spark.options import InvalidOption

rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=60).map(sorted)


def lineage(sources: list[tuple[int, int]], cut: int) -> list[bytes]:
    """Ids of the rows, handed over in two batches."""
    maker = Lineage("query")
    found: list[bytes] = []
    for part in (sources[:cut], sources[cut:]):
        partitions = np.array([p for p, _ in part], np.int64)
        offsets = np.array([o for _, o in part], np.int64)
        hashes = topic_hashes("query", None, len(part))
        found += maker.ids(hashes, partitions, offsets).tolist()
    return found


@given(rows, st.integers(0, 60))
def test_lineage_is_unique_and_does_not_depend_on_batches(
    sources: list[tuple[int, int]], cut: int
) -> None:
    whole = lineage(sources, len(sources))
    assert len(set(whole)) == len(whole)
    assert lineage(sources, cut) == whole


def test_lineage_tells_queries_and_topics_apart() -> None:
    names = pa.array(["a/b", "a/c", "a/b"])
    hashes = topic_hashes("q", names, 3).tolist()
    assert hashes[0] == hashes[2] != hashes[1]
    assert topic_hashes("other", names, 3)[0] != hashes[0]
    assert max(hashes) < 2**32


def test_lineage_has_room_for_so_many_partitions_and_rows() -> None:
    one = np.array([0], np.uint64)
    with pytest.raises(InvalidOption, match="partitions up to"):
        Lineage("q").ids(one, np.array([1 << 20]), np.array([0]))
    many = np.zeros(4097, np.int64)
    with pytest.raises(InvalidOption, match="4096 rows"):
        Lineage("q").ids(many.astype(np.uint64), many, many)


def test_the_number_is_read_most_significant_first() -> None:
    (found,) = ids_of_words(np.array([1], np.uint64), np.array([2], np.uint64)).tolist()
    assert int.from_bytes(found, "little") == 1 << 64 | 2


def test_positions_are_unique_over_epochs_tasks_and_rows() -> None:
    found = set()
    for epoch in (0, 1):
        for task in (0, 1):
            for first in (0, 100):
                found |= set(position_ids("q", epoch, task, first, 100).tolist())
    assert len(found) == 800
    with pytest.raises(InvalidOption, match="room for"):
        position_ids("q", 0, 1 << 16, 0, 1)


def test_keys_make_the_same_id_again_and_only_for_the_same_row() -> None:
    columns = [pa.array(["a", "a", "b", "b"]), pa.array([1, 2, 1, 1])]
    first = Keys("q", 0).ids(columns).tolist()
    assert len(set(first)) == 4
    maker = Keys("q", 0)
    halves = [maker.ids([c[:3] for c in columns]), maker.ids([c[3:] for c in columns])]
    assert [each for half in halves for each in half.tolist()] == first
    assert set(Keys("q", 1).ids(columns).tolist()).isdisjoint(first)
    assert len(Keys("q", 0).ids([pa.array([], pa.string())])) == 0
