import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.bench.histogram import BUCKETS, VALUE_MAX, Histogram, bucket_of, value_of

values = st.lists(st.integers(0, VALUE_MAX), min_size=1, max_size=200)


@given(st.integers(0, VALUE_MAX))
def test_a_bucket_stands_for_its_values_within_one_percent(value):
    bucket = int(bucket_of(np.array([value]))[0])
    assert 0 <= bucket < BUCKETS
    assert abs(value_of(bucket) - value) <= max(0.5, value * 0.01)


@given(st.integers(0, VALUE_MAX - 1))
def test_buckets_keep_the_order_of_values(value):
    low, high = bucket_of(np.array([value, value + 1]))
    assert high - low in (0, 1)


@given(values, st.floats(0, 100))
def test_a_percentile_is_near_the_value_of_that_rank(found, percent):
    rank = max(1, int(np.ceil(percent / 100 * len(found) - 1e-9)))
    exact = sorted(found)[rank - 1]
    reported = Histogram.of(np.array(found)).percentile(percent)
    assert reported == pytest.approx(exact, rel=0.01, abs=0.5)


@given(values, values)
def test_histograms_add_up_to_the_histogram_of_all(first, second):
    together = Histogram.of(np.array(first)) + Histogram.of(np.array(second))
    assert (together.counts == Histogram.of(np.array(first + second)).counts).all()


def test_values_beyond_the_range_count_as_the_longest():
    assert Histogram.of(np.array([VALUE_MAX * 4])).percentile(50) == pytest.approx(
        VALUE_MAX, rel=0.01
    )


def test_an_empty_histogram_has_no_percentiles():
    assert Histogram().percentile(99) == 0.0
    assert Histogram().curve() == []


def test_the_curve_rises_to_one_hundred_percent():
    curve = Histogram.of(np.array([1_000, 2_000, 2_000, 900_000])).curve()
    shares = [share for share, _ in curve]
    assert shares == [25.0, 75.0, 100.0]
    assert curve[-1][1] == pytest.approx(900_000, rel=0.01)
