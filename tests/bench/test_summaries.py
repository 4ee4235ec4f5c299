import numpy as np
import pytest

from borzoi.bench.plan import Role
from borzoi.bench.samples import SAMPLE_DTYPE, Measured, Recorder
from borzoi.bench.summaries import (
    actor_summary,
    combined,
    distribution,
    group_summary,
    points,
)

MS = 1_000_000


def measured(latencies_ms: list[float], *, every_ms: int = 10, actor: int = 1) -> Measured:
    recorder = Recorder()
    for number, latency in enumerate(latencies_ms, start=1):
        elapsed = number * every_ms * MS - 1
        recorder.rows.append((elapsed, int(latency * MS), 10, 1000, 1640))
    return Measured(Role.PRODUCER, actor, recorder.columns())


def summary(one: Measured, window: int = 1):
    return actor_summary(one, "pinned_producer", sampling_seconds=0.01, window=window)


def test_an_actors_figures():
    found = summary(measured([1, 2, 3, 4])).summary
    assert found["total_messages"] == 40
    assert found["total_user_data_bytes"] == 4000
    assert found["total_bytes"] == 6560
    assert found["total_message_batches"] == 4
    assert found["total_time_secs"] == 0.04
    # 1000 bytes in each bucket of 10 ms.
    assert found["throughput_megabytes_per_second"] == pytest.approx(0.1)
    assert found["throughput_messages_per_second"] == pytest.approx(1000)
    assert found["p50_latency_ms"] == 2.5
    assert found["p9999_latency_ms"] == pytest.approx(4, abs=0.001)
    assert (found["min_latency_ms"], found["max_latency_ms"]) == (1, 4)
    assert found["std_dev_latency_ms"] == pytest.approx(np.std([1, 2, 3, 4]), abs=0.001)


def test_a_moving_average_smooths_over_what_is_there():
    found = summary(measured([2, 4, 6]), window=2)
    assert list(found.latency) == [2, 3, 5]


def test_an_empty_bucket_repeats_the_latency_before_it():
    one = measured([5, 9], every_ms=30)
    assert list(summary(one).latency) == [5, 5, 5, 5, 5, 9]


def test_pooled_percentiles_are_not_the_mean_of_percentiles():
    quick = summary(measured([1] * 99, actor=1))
    slow = summary(measured([101], actor=2))
    found = group_summary("producers", [quick, slow])
    assert found["average_p50_latency_ms"] == 51
    assert found["pooled_p50_latency_ms"] == pytest.approx(1, rel=0.01)
    assert found["pooled_p9999_latency_ms"] == pytest.approx(101, rel=0.01)
    assert found["total_throughput_messages_per_second"] == pytest.approx(2000)
    assert found["average_throughput_messages_per_second"] == pytest.approx(1000)


def test_an_actor_without_samples_has_zeros():
    nothing = Measured(Role.CONSUMER, 1, np.zeros(0, SAMPLE_DTYPE))
    found = summary(nothing)
    assert found.summary["p99_latency_ms"] == 0
    assert distribution([found])["bins"] == []


def test_the_distribution_counts_every_latency_below_its_end():
    found = distribution([summary(measured([1, 1, 2, 3]))])
    assert len(found["bins"]) == 50
    assert sum(row["count"] for row in found["bins"]) == 4
    assert found["percentiles"]["p50_ms"] == pytest.approx(1, rel=0.01)
    assert found["log_normal"]["sigma"] > 0


def test_series_of_actors_are_added_or_averaged():
    parts = [np.array([1.0, 2.0]), np.array([3.0])]
    assert list(combined(parts)) == [4, 2]
    assert list(combined(parts, mean=True)) == [2, 2]
    assert points(np.array([1.23456]), 0.01) == {"points": [{"time_s": 0.01, "value": 1.235}]}
