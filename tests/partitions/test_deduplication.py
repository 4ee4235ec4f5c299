import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from borzoi.partitions.deduplication import Deduplicator

MINUTE = 60_000_000


def ids(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(16, "little") for number in numbers)


def kept(mask, count: int) -> list[bool]:
    return [True] * count if mask is None else mask.tolist()


def test_a_batch_of_new_ids_is_admitted_whole():
    assert Deduplicator(100, MINUTE).admit(ids(1, 2, 3), now=0) is None


def test_an_id_seen_before_is_dropped_and_its_neighbours_stay():
    seen = Deduplicator(100, MINUTE)
    seen.admit(ids(1, 2), now=0)
    assert kept(seen.admit(ids(3, 1, 4, 2), now=1), 4) == [True, False, True, False]


def test_inside_one_batch_the_first_one_wins():
    seen = Deduplicator(100, MINUTE)
    assert kept(seen.admit(ids(5, 5, 6, 5), now=0), 4) == [True, False, True, False]


def test_a_batch_of_duplicates_only_keeps_nothing():
    seen = Deduplicator(100, MINUTE)
    seen.admit(ids(1, 2), now=0)
    assert kept(seen.admit(ids(1, 2), now=1), 2) == [False, False]
    assert kept(seen.admit(ids(2), now=1), 1) == [False]


def test_zero_asks_for_an_id_and_is_never_a_duplicate():
    seen = Deduplicator(100, MINUTE)
    assert seen.admit(ids(0, 0, 0), now=0) is None
    assert seen.admit(ids(0, 1, 0), now=0) is None
    assert kept(seen.admit(ids(0, 1, 0), now=0), 3) == [True, False, True]
    assert len(seen) == 1


def test_an_id_expires_after_its_time_even_when_it_was_repeated():
    seen = Deduplicator(100, MINUTE)
    seen.admit(ids(1), now=0)
    assert kept(seen.admit(ids(1), now=MINUTE - 1), 1) == [False]
    assert kept(seen.admit(ids(1), now=MINUTE), 1) == [True]


def test_without_expiry_age_does_not_matter():
    seen = Deduplicator(100, 0)
    seen.admit(ids(1), now=0)
    assert kept(seen.admit(ids(1), now=10**18), 1) == [False]


def test_the_oldest_ids_make_room_when_there_are_too_many():
    seen = Deduplicator(3, 0)
    seen.admit(ids(1, 2, 3, 4, 5), now=0)
    assert len(seen) == 3
    assert kept(seen.admit(ids(1), now=0), 1) == [True]
    assert kept(seen.admit(ids(5), now=0), 1) == [False]


def test_without_a_bound_everything_is_kept():
    seen = Deduplicator(0, 0)
    seen.admit(np.arange(1, 5001).astype("<u8").repeat(2).tobytes(), now=0)
    assert len(seen) == 5000


def test_a_batch_that_was_not_stored_can_be_sent_again():
    seen = Deduplicator(100, MINUTE)
    seen.admit(ids(1, 2), now=0)
    seen.withdraw(ids(1, 2))
    assert seen.admit(ids(1, 2), now=1) is None
    # And its second life lasts as long as any other, although the first one's place goes first.
    assert kept(seen.admit(ids(1), now=MINUTE), 1) == [False]
    assert kept(seen.admit(ids(1), now=MINUTE + 1), 1) == [True]


def test_what_the_log_holds_is_remembered_unless_it_is_too_old():
    seen = Deduplicator(100, MINUTE)
    seen.warm(ids(1, 2, 3), np.array([5, 5, 100], dtype=np.uint64), now=MINUTE + 50)
    assert len(seen) == 1
    assert kept(seen.admit(ids(1, 2, 3), now=MINUTE + 60), 3) == [True, True, False]
    assert kept(seen.admit(ids(3), now=MINUTE + 100), 1) == [True]


def test_warming_with_a_repeated_id_keeps_it_once():
    seen = Deduplicator(100, 0)
    seen.warm(ids(1, 1, 2), [7, 7, 7], now=8)
    assert len(seen) == 2


def test_after_a_purge_every_id_is_new():
    seen = Deduplicator(100, MINUTE)
    seen.admit(ids(1), now=0)
    seen.clear()
    assert len(seen) == 0
    assert seen.admit(ids(1), now=1) is None
    assert kept(seen.admit(ids(1), now=2), 1) == [False]


def test_columns_of_numpy_and_views_are_read_alike():
    for column in (
        np.frombuffer(ids(1, 2), dtype=np.uint8).reshape(2, 16),
        np.frombuffer(ids(1, 2), dtype="V16"),
        memoryview(bytearray(ids(1, 2))),
    ):
        assert Deduplicator(10, 0).admit(column, now=0) is None


@given(st.integers(0, 2**32), st.integers(0, 8), st.integers(0, 6))
def test_it_agrees_with_a_list_of_what_was_accepted(seed, max_entries, expiry):
    """The model: (id, accepted at) in order of acceptance; nothing clever."""
    draws = random.Random(seed)
    seen, now = Deduplicator(max_entries, expiry), 0
    model: list[tuple[int, int]] = []
    for _ in range(30):
        now += draws.randrange(3)
        model = [(key, at) for key, at in model if not expiry or at + expiry > now]
        batch = [draws.randrange(7) for _ in range(draws.randrange(1, 5))]
        before, accepted, expected = {key for key, _ in model}, [], []
        for key in batch:
            is_new = key == 0 or (key not in before and key not in accepted)
            expected.append(is_new)
            if is_new and key:
                accepted.append(key)
        assert kept(seen.admit(ids(*batch), now=now), len(batch)) == expected
        model += [(key, now) for key in accepted]
        if max_entries:
            model = model[-max_entries:]
        assert len(seen) == len(model)
