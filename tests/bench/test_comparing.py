import pytest

from borzoi.bench.comparing import compare
from borzoi.model.errors import InvalidFormat


def report(rate: float, p50: float, **more: float) -> dict:
    summary = {
        "kind": "producers",
        "total_throughput_megabytes_per_second": rate,
        "total_throughput_messages_per_second": rate * 1000,
        "average_p50_latency_ms": p50,
        **more,
    }
    return {"group_metrics": [{"summary": summary}]}


def test_more_throughput_and_less_latency_are_better():
    found = {one.figure: one for one in compare(report(100, 2.0), report(150, 1.0))}
    assert found["MB/s"].ratio == 1.5
    assert found["MB/s"].is_better is True
    assert found["p50 ms"].ratio == 0.5
    assert found["p50 ms"].is_better is True
    worse = {one.figure: one for one in compare(report(100, 1.0), report(50, 2.0))}
    assert worse["MB/s"].is_better is False
    assert worse["p50 ms"].is_better is False


def test_a_small_difference_is_noise_and_a_missing_figure_has_no_ratio():
    found = {one.figure: one for one in compare(report(100, 1.0), report(101, 1.0))}
    assert found["MB/s"].is_better is None
    assert found["p99 ms"].ratio is None


def test_pooled_figures_win_over_averages():
    pooled = {"pooled_p50_latency_ms": 3.0}
    (found,) = [
        one for one in compare(report(1, 1, **pooled), report(1, 2)) if one.figure == "p50 ms"
    ]
    assert (found.before, found.after) == (3.0, 2.0)


def test_what_is_no_report_is_refused():
    with pytest.raises(InvalidFormat, match="not a report"):
        list(compare({}, report(1, 1)))
    with pytest.raises(InvalidFormat, match="in common"):
        list(compare({"group_metrics": []}, report(1, 1)))
