"""Damage must hit what is checked, or the comparison of the two paths says nothing."""

import random
from collections import Counter

from tests.support.accelerators import (
    damaged_requests,
    numbered_ids,
    said_of,
    sound_request,
    without_accelerator,
)

from borzoi.records import batch, fresh_ids


def test_without_it_there_is_none_until_the_end() -> None:
    was = batch.native, fresh_ids.native
    with without_accelerator():
        assert (batch.native, fresh_ids.native) == (None, None)
    assert (batch.native, fresh_ids.native) == was


def test_what_is_not_damaged_is_sound() -> None:
    draw = random.Random(1)
    assert all(isinstance(said_of(sound_request(draw))[0], list) for _ in range(50))


def test_damage_is_of_every_kind_and_spares_some() -> None:
    first = [said_of(request)[0] for request in damaged_requests(3000, 1)]
    faults = Counter(said[0].__name__ if isinstance(said, tuple) else "none" for said in first)
    assert len(faults) == 9, faults  # all but the two that take a large message
    assert min(faults["none"], faults.total() - faults["none"]) > 500


def test_the_same_seed_gives_the_same_damage() -> None:
    assert list(damaged_requests(20, 3)) == list(damaged_requests(20, 3))


def test_ids_differ_however_they_are_asked_for() -> None:
    new_ids = numbered_ids()
    assert new_ids(1) + new_ids(2) == numbered_ids()(3)
