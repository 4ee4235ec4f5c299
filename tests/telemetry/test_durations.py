from hypothesis import given
from hypothesis import strategies as st

from borzoi.telemetry.durations import BOUNDS_SECONDS, Durations


def test_nothing_took_no_time() -> None:
    durations = Durations()
    assert (durations.count, durations.total_ns) == (0, 0)
    assert durations.cumulative() == [0] * len(BOUNDS_SECONDS)


@given(st.lists(st.integers(0, 2**63), max_size=50))
def test_each_bucket_counts_what_is_below_its_bound(taken: list[int]) -> None:
    durations = Durations()
    for nanoseconds in taken:
        durations.observe(nanoseconds)
    assert durations.count == len(taken)
    assert durations.total_ns == sum(taken)
    for bound, below in zip(BOUNDS_SECONDS, durations.cumulative(), strict=True):
        assert below == sum(nanoseconds < round(bound * 1e9) for nanoseconds in taken)


def test_bounds_reach_from_microseconds_to_many_seconds() -> None:
    assert BOUNDS_SECONDS[0] < 1e-5
    assert BOUNDS_SECONDS[-1] > 15
