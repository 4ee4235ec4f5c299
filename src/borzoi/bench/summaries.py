"""From samples to the figures of a report. Pure.

Throughput counts payload bytes in megabytes of 10^6: bytes per sampling bucket, smoothed by a
moving average, and the mean of those points. An actor's percentiles interpolate between its raw
latencies. For a group of actors, `average_*` are means over its actors, as the published load
generator reports them, and `pooled_*` are percentiles over all their latencies together.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from borzoi.bench.histogram import Histogram
from borzoi.bench.plan import Role
from borzoi.bench.samples import Measured
from borzoi.model.value import Value

PERCENTILES: Final = {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "p999": 99.9, "p9999": 99.99}
DISTRIBUTION_BINS: Final = 50
MEGABYTE: Final = 1e6
MILLISECOND_NS: Final = 1e6

Points = list[dict[str, float]]
Series = NDArray[np.float64]


class ActorSummary(Value):
    """One actor's figures and series."""

    role: Role
    id: int
    summary: dict[str, Any]
    megabytes: Series
    messages: Series
    latency: Series
    histogram: Histogram


def rounded(value: float) -> float:
    return round(float(value), 3)


def actor_summary(
    one: Measured, kind: str, *, sampling_seconds: float, window: int
) -> ActorSummary:
    samples = one.samples
    seconds = float(samples["elapsed_ns"].max()) / 1e9 if len(samples) else 0.0
    buckets = _buckets(samples, sampling_seconds)
    count = int(buckets.max()) + 1 if len(samples) else 0
    payload = np.bincount(buckets, samples["payload_bytes"], count) if count else np.zeros(0)
    messages = np.bincount(buckets, samples["messages"], count) if count else np.zeros(0)
    megabytes = _smoothed(payload / sampling_seconds / MEGABYTE, window)
    message_rate = _smoothed(messages / sampling_seconds, window)
    latency = _smoothed(_bucket_means(samples, buckets, count), window)
    latencies = samples["latency_ns"] / MILLISECOND_NS
    summary: dict[str, Any] = {
        "benchmark_kind": kind,
        "actor_kind": one.role.value,
        "actor_id": one.id,
        "total_time_secs": rounded(seconds),
        "total_user_data_bytes": int(samples["payload_bytes"].sum()),
        "total_bytes": int(samples["total_bytes"].sum()),
        "total_messages": int(samples["messages"].sum()),
        "total_message_batches": len(samples),
        "throughput_megabytes_per_second": rounded(_mean(megabytes)),
        "throughput_messages_per_second": rounded(_mean(message_rate)),
    }
    for name, percent in PERCENTILES.items():
        found = float(np.percentile(latencies, percent)) if len(latencies) else 0.0
        summary[f"{name}_latency_ms"] = rounded(found)
    summary["avg_latency_ms"] = rounded(_mean(latencies))
    summary["median_latency_ms"] = summary["p50_latency_ms"]
    summary |= _spread(latency)
    return ActorSummary(
        one.role,
        one.id,
        summary,
        megabytes,
        message_rate,
        latency,
        Histogram.of(samples["latency_ns"].astype(np.int64)),
    )


def group_summary(kind: str, actors: Sequence[ActorSummary]) -> dict[str, Any]:
    """The figures of several actors together."""
    each = [actor.summary for actor in actors]

    def over(key: str) -> Series:
        return np.array([summary[key] for summary in each], np.float64)

    pooled = pooled_histogram(actors)
    megabytes = over("throughput_megabytes_per_second")
    messages = over("throughput_messages_per_second")
    summary: dict[str, Any] = {
        "kind": kind,
        "total_throughput_megabytes_per_second": rounded(megabytes.sum()),
        "total_throughput_messages_per_second": rounded(messages.sum()),
        "average_throughput_megabytes_per_second": rounded(_mean(megabytes)),
        "average_throughput_messages_per_second": rounded(_mean(messages)),
    }
    for name in PERCENTILES:
        summary[f"average_{name}_latency_ms"] = rounded(_mean(over(f"{name}_latency_ms")))
    for name, percent in PERCENTILES.items():
        summary[f"pooled_{name}_latency_ms"] = rounded(pooled.percentile(percent) / MILLISECOND_NS)
    summary["average_latency_ms"] = rounded(_mean(over("avg_latency_ms")))
    summary["average_median_latency_ms"] = rounded(_mean(over("median_latency_ms")))
    summary["min_latency_ms"] = rounded(over("min_latency_ms").min(initial=np.inf))
    summary["max_latency_ms"] = rounded(over("max_latency_ms").max(initial=0.0))
    summary["std_dev_latency_ms"] = rounded(_mean(over("std_dev_latency_ms")))
    return summary


def pooled_histogram(actors: Sequence[ActorSummary]) -> Histogram:
    return sum((actor.histogram for actor in actors), Histogram())


def distribution(actors: Sequence[ActorSummary]) -> dict[str, Any]:
    """50 bins up to 1.5 × p99, and the log-normal curve through the same latencies."""
    pooled = pooled_histogram(actors)
    curve = pooled.curve()
    if not curve:
        return {"bins": [], "log_normal": {"mu": 0.0, "sigma": 0.0}, "percentiles": {}}
    values = np.array([value for _, value in curve]) / MILLISECOND_NS
    weights = pooled.counts[np.flatnonzero(pooled.counts)].astype(np.float64)
    low = float(values.min())
    high = max(1.5 * pooled.percentile(99) / MILLISECOND_NS, low + 1e-6)
    counts, edges = np.histogram(values, DISTRIBUTION_BINS, (low, high), weights=weights)
    logs = np.log(np.maximum(values, 1e-6))
    mu = float(np.average(logs, weights=weights))
    sigma = float(np.sqrt(np.average((logs - mu) ** 2, weights=weights)))
    return {
        "bins": [
            {"edge_ms": rounded(edge), "count": int(count), "density": rounded(density)}
            for edge, count, density in zip(
                edges[:-1],
                counts,
                counts / (weights.sum() * (edges[1] - edges[0])),
                strict=True,
            )
        ],
        "log_normal": {"mu": rounded(mu), "sigma": rounded(sigma)},
        "percentiles": {
            f"p{percent:02d}_ms": rounded(pooled.percentile(percent) / MILLISECOND_NS)
            for percent in (5, 50, 95, 99)
        },
    }


def points(series: Series, sampling_seconds: float) -> dict[str, Points]:
    return {
        "points": [
            {"time_s": rounded((index + 1) * sampling_seconds), "value": rounded(value)}
            for index, value in enumerate(series)
        ]
    }


def combined(parts: Sequence[Series], *, mean: bool = False) -> Series:
    """Series of several actors added up, or averaged where they exist, bucket by bucket."""
    length = max((len(part) for part in parts), default=0)
    total, count = np.zeros(length), np.zeros(length)
    for part in parts:
        total[: len(part)] += part
        count[: len(part)] += 1
    return total / np.maximum(count, 1) if mean else total


def _buckets(samples: NDArray[np.void], sampling_seconds: float) -> NDArray[np.int64]:
    width = int(sampling_seconds * 1e9)
    buckets: NDArray[np.int64] = np.maximum(samples["elapsed_ns"] // width, 0).astype(np.int64)
    return buckets


def _bucket_means(samples: NDArray[np.void], buckets: NDArray[np.int64], count: int) -> Series:
    """Mean latency in ms of the batches of each bucket; an empty bucket repeats the one before."""
    if not count:
        return np.zeros(0)
    sums = np.bincount(buckets, samples["latency_ns"] / MILLISECOND_NS, count)
    counts = np.bincount(buckets, minlength=count)
    filled = np.flatnonzero(counts)
    means = sums[filled] / counts[filled]
    latest = np.searchsorted(filled, np.arange(count), side="right") - 1
    return means[np.maximum(latest, 0)]


def _smoothed(series: Series, window: int) -> Series:
    """The mean of up to `window` buckets that end at each one."""
    if not len(series):
        return series
    sums = np.cumsum(np.insert(series, 0, 0.0))
    ends = np.arange(1, len(series) + 1)
    starts = np.maximum(ends - max(1, window), 0)
    means: Series = (sums[ends] - sums[starts]) / (ends - starts)
    return means


def _spread(latency: Series) -> dict[str, float]:
    if not len(latency):
        return {"min_latency_ms": 0.0, "max_latency_ms": 0.0, "std_dev_latency_ms": 0.0}
    return {
        "min_latency_ms": rounded(latency.min()),
        "max_latency_ms": rounded(latency.max()),
        "std_dev_latency_ms": rounded(latency.std()),
    }


def _mean(values: Series) -> float:
    return float(values.mean()) if len(values) else 0.0
