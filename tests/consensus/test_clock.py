"""Marzullo's agreement, and the clocks outside of it (T2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.consensus.clock import TOLERANCE_US, ClockSample, agreements, outside_us

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("intervals", "needed", "shared"),
    [
        ([(0, 10)], 1, [(0, 10)]),
        ([(0, 10), (5, 15)], 2, [(5, 10)]),
        ([(0, 10), (10, 15)], 2, [(10, 10)]),
        ([(0, 10), (11, 15)], 2, []),
        ([(0, 10), (11, 15)], 1, [(0, 10), (11, 15)]),
        ([(8, 12), (11, 13), (14, 15)], 2, [(11, 12)]),
        ([(8, 12), (11, 13), (10, 12)], 2, [(11, 12)]),
        ([(0, 9), (1, 2), (4, 6)], 2, [(1, 2), (4, 6)]),
        ([(0, 9), (1, 8), (2, 3), (4, 5), (20, 30)], 3, [(2, 3), (4, 5)]),
    ],
)
def test_the_interval_that_most_clocks_share(intervals, needed, shared):
    assert agreements(intervals, needed) == shared


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=7),
    st.integers(1, 7),
)
def test_an_agreement_is_shared_by_as_many_as_any_point_is(drawn, needed):
    intervals = [(low, low + length) for low, length in drawn]
    depths = {
        point: sum(low <= point <= high for low, high in intervals) for point in range(-1, 45)
    }
    deepest = max(depths.values())
    within = {
        point for low, high in agreements(intervals, needed) for point in range(low, high + 1)
    }
    expected = {point for point, depth in depths.items() if depth == deepest}
    assert within == (expected if deepest >= needed else set())


def at(seconds: float, *, error: float = 0.0, tick: int = 0) -> ClockSample:
    return ClockSample(int((seconds - error) * SECOND), int((seconds + error) * SECOND), tick)


@pytest.mark.parametrize(
    ("own", "peers", "outside"),
    [
        (0, [], False),
        (0, [None, None], False),
        (30, [at(0), at(0.2)], True),
        (9, [at(0), at(0.2)], False),
        (-30, [at(0), at(0.2)], True),
        # One peer alone proves nothing: it may be the one that is wrong.
        (30, [at(0), None], False),
        (30, [at(0)], False),
        # The others do not agree with each other.
        (30, [at(0), at(-30)], False),
        # Two against two.
        (30, [at(0), at(0), at(30)], False),
        (30, [at(0), at(0), None], True),
        (30, [at(0), at(0), at(0), at(30)], True),
        # A slow answer leaves room for doubt.
        (30, [at(0), at(0, error=40)], False),
        (30, [at(0), at(0), at(0, error=60), None], True),
    ],
)
def test_a_clock_is_outside_when_at_least_half_agree_without_it(own, peers, outside):
    error = outside_us(int(own * SECOND), [None, *peers], 10, 100)
    assert (error > 0) is outside


def test_the_error_is_the_distance_to_the_agreement():
    assert outside_us(30 * SECOND, [None, at(0), at(0)], 0, 100) == 30 * SECOND
    assert outside_us(TOLERANCE_US, [None, at(0), at(0)], 0, 100) == 0
    assert outside_us(TOLERANCE_US + 1, [None, at(0), at(0)], 0, 100) == TOLERANCE_US + 1


@given(
    st.integers(-40, 40),
    st.lists(st.tuples(st.integers(-40, 40), st.integers(0, 30)), max_size=5),
)
def test_the_error_is_what_the_agreement_alone_says(own, peers):
    """Also when all clocks agree, which is found without a search."""
    samples = [None, *(at(seconds, error=error) for seconds, error in peers)]
    here, slack = own * SECOND, TOLERANCE_US // 2
    intervals = [(one.low - slack, one.high + slack) for one in samples if one is not None]
    shared = agreements([*intervals, (here - slack, here + slack)], (len(samples) + 1) // 2)
    distances = [max(low - here, here - high, 0) for low, high in shared]
    beyond = min(distances, default=0)
    assert outside_us(here, samples, 0, 100) == (beyond + slack if beyond > slack else 0)


def test_old_samples_say_nothing():
    samples = [None, at(0, tick=10), at(0, tick=10)]
    assert outside_us(30 * SECOND, samples, 110, 100)
    assert not outside_us(30 * SECOND, samples, 111, 100)
