"""Two reports side by side. Pure: documents in, rows out."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from borzoi.model.errors import InvalidFormat

#: Key of a group's summary, its label, and whether more is better.
FIGURES: Final = (
    ("total_throughput_megabytes_per_second", "MB/s", True),
    ("total_throughput_messages_per_second", "messages/s", True),
    ("pooled_p50_latency_ms", "p50 ms", False),
    ("pooled_p99_latency_ms", "p99 ms", False),
    ("pooled_p999_latency_ms", "p99.9 ms", False),
)
#: Reports of other generators have no pooled percentiles; theirs are means over actors.
FALLBACK: Final = "average_"


class Difference(NamedTuple):
    """One figure in both reports."""

    group: str
    figure: str
    before: float
    after: float
    more_is_better: bool

    @property
    def ratio(self) -> float | None:
        return None if not self.before else self.after / self.before

    @property
    def is_better(self) -> bool | None:
        """None within 2 %, which is noise."""
        ratio = self.ratio
        if ratio is None or abs(ratio - 1) <= 0.02:
            return None
        return (ratio > 1) is self.more_is_better


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    """The figures of every group that both reports have."""
    first_groups, second_groups = _summaries(before), _summaries(after)
    shared = [name for name in first_groups if name in second_groups]
    if not shared:
        raise InvalidFormat("the two reports have no group of actors in common")
    for group in shared:
        first, second = first_groups[group], second_groups[group]
        for key, label, more_is_better in FIGURES:
            yield Difference(
                group, label, _figure(first, key), _figure(second, key), more_is_better
            )


def _summaries(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    try:
        return {group["summary"]["kind"]: group["summary"] for group in report["group_metrics"]}
    except (KeyError, TypeError) as fault:
        raise InvalidFormat(f"this is not a report of a bench: {fault!r} is missing") from fault


def _figure(summary: Mapping[str, Any], key: str) -> float:
    value = summary.get(key, summary.get(key.replace("pooled_", FALLBACK), 0.0))
    return float(value)
