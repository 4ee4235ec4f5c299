"""Ids for messages that came without one."""

import os
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from borzoi.records.fresh_ids import BLOCK, WORDS, FreshIds, as_uuids, mixed_words

pytestmark = pytest.mark.usefixtures("both_ways")


def split(ids: bytes) -> list[bytes]:
    return [ids[at : at + 16] for at in range(0, len(ids), 16)]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=2))
def test_any_two_words_make_a_uuid_of_version_4(words: list[int]) -> None:
    made = uuid.UUID(bytes=as_uuids(np.array(words, np.uint64)))
    assert made.version == 4
    assert made.variant == uuid.RFC_4122


def test_all_but_the_six_fixed_bits_are_random() -> None:
    ones = as_uuids(np.full(2, 2**64 - 1, np.uint64))
    zeros = as_uuids(np.zeros(2, np.uint64))
    differing = int.from_bytes(ones, "big") ^ int.from_bytes(zeros, "big")
    assert differing.bit_count() == 122


@given(st.lists(st.sampled_from([0, 1, 3, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])))
def test_no_id_is_given_twice_however_they_are_asked_for(counts: list[int]) -> None:
    fresh = FreshIds(np.random.SFC64(7).random_raw)
    ids: list[bytes] = []
    for count in counts:
        given_now = split(fresh(count))
        assert len(given_now) == count
        ids += given_now
    assert len(set(ids)) == len(ids)


def test_the_same_seed_gives_the_same_ids() -> None:
    first, second = (FreshIds(np.random.SFC64(3).random_raw) for _ in range(2))
    assert first(5) == second(5)


def splitmix64(state: int) -> int:
    """The published generator, one number at a time."""
    mask = 2**64 - 1
    word = state & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return word ^ (word >> 31)


@given(st.binary(min_size=16, max_size=16), st.integers(1, 40))
def test_words_are_those_of_a_mixed_counter_changed_by_the_rest_of_the_entropy(
    entropy: bytes, count: int
) -> None:
    start, change = (int.from_bytes(entropy[at : at + 8], "little") for at in (0, 8))
    golden = 0x9E3779B97F4A7C15
    expected = [splitmix64(start + number * golden) ^ change for number in range(count)]
    assert mixed_words(lambda count: entropy[:count])(count).tolist() == expected


def test_every_bit_of_mixed_words_is_set_about_half_of_the_time() -> None:
    words = mixed_words(os.urandom)(WORDS)
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 128)
    shares = bits.mean(axis=0)
    assert abs(shares - 0.5).max() < 0.06
    assert len(set(map(bytes, words.reshape(-1, 2)))) == BLOCK


def test_each_block_starts_from_entropy_of_its_own() -> None:
    fresh = FreshIds(mixed_words(os.urandom))
    ids = split(fresh(BLOCK) + fresh(BLOCK) + fresh(BLOCK + 1))
    assert len(set(ids)) == 3 * BLOCK + 1


@pytest.mark.parametrize(
    ("counts", "blocks"), [([1, BLOCK - 1], 1), ([BLOCK - 1, 2], 2), ([BLOCK + 5, 1], 2)]
)
def test_a_block_serves_until_too_few_are_left(counts: list[int], blocks: int) -> None:
    drawn: list[int] = []

    def draw(count: int) -> NDArray[np.uint64]:
        drawn.append(count)
        return np.random.SFC64(7).random_raw(count)

    fresh = FreshIds(draw)
    for count in counts:
        fresh(count)
    assert drawn == [WORDS] * blocks


def test_words_drawn_before_are_not_seen_again_in_later_ids() -> None:
    fresh = FreshIds(mixed_words(os.urandom))
    first = fresh(BLOCK)
    kept = bytes(first)
    fresh(BLOCK)
    assert first == kept
