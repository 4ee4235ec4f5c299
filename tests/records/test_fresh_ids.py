"""Ids for messages that came without one."""

import os
import random
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.accelerators import needs_accelerator, without_accelerator

from borzoi.records import accelerator
from borzoi.records.fresh_ids import BLOCK, FreshIds, as_uuids, mixed_words

pytestmark = pytest.mark.usefixtures("both_ways")

#: Portions on both sides of a block.
PORTIONS = st.lists(st.sampled_from([0, 1, 2, 3, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK]))


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


@given(PORTIONS)
def test_no_id_is_given_twice_however_they_are_asked_for(counts: list[int]) -> None:
    fresh = FreshIds(random.Random(7).randbytes)
    ids: list[bytes] = []
    for count in counts:
        given_now = split(fresh(count))
        assert len(given_now) == count
        ids += given_now
    assert len(set(ids)) == len(ids)


@given(PORTIONS)
def test_the_same_entropy_gives_the_same_ids_in_whatever_portions(counts: list[int]) -> None:
    fresh, other = (FreshIds(random.Random(3).randbytes) for _ in range(2))
    assert b"".join([fresh(count) for count in counts]) == other(sum(counts))


@needs_accelerator
@given(PORTIONS)
def test_python_goes_on_where_the_accelerator_stopped_and_the_other_way_round(
    counts: list[int],
) -> None:
    fresh, other = (FreshIds(random.Random(3).randbytes) for _ in range(2))
    ids = b""
    for number, count in enumerate(counts):
        if number % 2:
            ids += fresh(count)
        else:
            with without_accelerator():
                ids += fresh(count)
    assert ids == other(sum(counts))


def splitmix64(state: int) -> int:
    """The published generator, one number at a time."""
    mask = 2**64 - 1
    word = state & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return word ^ (word >> 31)


def published_words(entropy: bytes, count: int) -> list[int]:
    start, change = (int.from_bytes(entropy[at : at + 8], "little") for at in (0, 8))
    golden = 0x9E3779B97F4A7C15
    return [splitmix64(start + number * golden) ^ change for number in range(count)]


@given(st.binary(min_size=16, max_size=16), st.integers(1, 40))
def test_words_are_those_of_a_mixed_counter_changed_by_the_rest_of_the_entropy(
    entropy: bytes, count: int
) -> None:
    start, change = (int.from_bytes(entropy[at : at + 8], "little") for at in (0, 8))
    assert mixed_words(start, change, count).tolist() == published_words(entropy, count)


@given(st.binary(min_size=16, max_size=16), st.integers(0, 41))
def test_ids_are_two_words_each(entropy: bytes, count: int) -> None:
    words = np.array(published_words(entropy, 2 * count), np.uint64)
    assert FreshIds(lambda wanted: entropy[:wanted])(count) == as_uuids(words)


def test_every_bit_of_mixed_words_is_set_about_half_of_the_time() -> None:
    start, change = (int.from_bytes(os.urandom(8), "little") for _ in range(2))
    words = mixed_words(start, change, 2 * BLOCK)
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 128)
    shares = bits.mean(axis=0)
    assert abs(shares - 0.5).max() < 0.06
    assert len(set(map(bytes, words.reshape(-1, 2)))) == BLOCK


def test_each_block_starts_from_entropy_of_its_own() -> None:
    fresh = FreshIds(os.urandom)
    ids = split(fresh(BLOCK) + fresh(BLOCK) + fresh(BLOCK + 1))
    assert len(set(ids)) == 3 * BLOCK + 1


@pytest.mark.parametrize(
    ("counts", "blocks"), [([1, BLOCK - 1], 1), ([BLOCK - 1, 2], 2), ([BLOCK + 5, 1], 2)]
)
def test_a_block_serves_until_it_is_used_up(counts: list[int], blocks: int) -> None:
    drawn: list[int] = []

    def entropy(count: int) -> bytes:
        drawn.append(count)
        return random.Random(len(drawn)).randbytes(count)

    fresh = FreshIds(entropy)
    for count in counts:
        fresh(count)
    assert drawn == [16] * blocks


def test_ids_given_before_stay_as_they_are() -> None:
    fresh = FreshIds(os.urandom)
    first = fresh(BLOCK)
    kept = bytes(first)
    fresh(BLOCK)
    assert first == kept


@needs_accelerator
def test_the_accelerator_knows_where_a_block_ends() -> None:
    assert accelerator.native is not None
    fresh = FreshIds(os.urandom)
    fresh(1)
    with pytest.raises(ValueError, match=f"has {BLOCK - 1} ids left, not {BLOCK}"):
        accelerator.native.uuids(fresh.generator, BLOCK)
    assert len(accelerator.native.uuids(fresh.generator, BLOCK - 1)) == 16 * (BLOCK - 1)
