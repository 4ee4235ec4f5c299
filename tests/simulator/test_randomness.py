"""Streams under one seed are independent and do not depend on the process."""

from random import Random

from borzoi.simulator.randomness import happens, spread, stream


def test_the_same_name_gives_the_same_draws():
    assert [stream(7, "network").random() for _ in range(3)] == [
        stream(7, "network").random() for _ in range(3)
    ]


def test_streams_and_seeds_differ():
    first = {stream(seed, name).random() for seed in (1, 2) for name in ("network", "storage")}
    assert len(first) == 4


def test_an_impossible_fault_draws_nothing():
    random = Random(3)
    before = random.getstate()
    assert not happens(random, 0.0)
    assert random.getstate() == before


def test_a_certain_fault_happens():
    assert happens(Random(3), 1.0)


def test_spread_is_at_least_one_tick_and_has_the_mean():
    random = Random(5)
    drawn = [spread(random, 100) for _ in range(4000)]
    assert min(drawn) >= 1
    assert 90 < sum(drawn) / len(drawn) < 110
