"""Families of numbers as OpenMetrics text. Pure.

::

    # HELP borzoi_connections open connections
    # TYPE borzoi_connections gauge
    borzoi_connections{transport="tcp"} 3
    # EOF
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from borzoi.model.value import Value
from borzoi.telemetry.durations import BOUNDS_SECONDS, Durations

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Labels: TypeAlias = Sequence[tuple[str, str]]
Number: TypeAlias = int | float

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class MetricSample(Value):
    value: Number
    labels: Labels = ()
    #: The suffix of the family's name: `_total`, `_sum`, `_count`, `_bucket`.
    suffix: str = ""


class Family(Value):
    """Numbers of one name and one meaning."""

    name: str
    kind: str
    meaning: str
    samples: Sequence[MetricSample]
    #: `merged` takes the minimum of several processes, not the sum.
    is_least: bool = False


def gauge(name: str, meaning: str, value: Number, *, is_least: bool = False) -> Family:
    return Family(name, "gauge", meaning, (MetricSample(value),), is_least)


def gauges(name: str, meaning: str, values: Iterable[tuple[Labels, Number]]) -> Family:
    return Family(name, "gauge", meaning, [MetricSample(value, labels) for labels, value in values])


def counter(name: str, meaning: str, value: Number) -> Family:
    return Family(name, "counter", meaning, (MetricSample(value, suffix="_total"),))


def counters(name: str, meaning: str, values: Iterable[tuple[Labels, Number]]) -> Family:
    samples = [MetricSample(value, labels, "_total") for labels, value in values]
    return Family(name, "counter", meaning, samples)


def histogram(name: str, meaning: str, values: Iterable[tuple[Labels, Durations]]) -> Family:
    """Durations in seconds."""
    samples: list[MetricSample] = []
    for labels, durations in values:
        count = durations.count
        for bound, below in zip(BOUNDS_SECONDS, durations.cumulative(), strict=True):
            samples.append(MetricSample(below, [*labels, ("le", repr(bound))], "_bucket"))
        samples.append(MetricSample(count, [*labels, ("le", "+Inf")], "_bucket"))
        samples.append(MetricSample(durations.total_ns / 1e9, labels, "_sum"))
        samples.append(MetricSample(count, labels, "_count"))
    return Family(name, "histogram", meaning, samples)


def merged(processes: Iterable[Iterable[Family]]) -> list[Family]:
    """Merge the families of several processes: samples with the same name and labels are added."""
    families: dict[str, Family] = {}
    values: dict[str, dict[tuple[str, Labels], Number]] = {}
    for process in processes:
        for family in process:
            families.setdefault(family.name, family)
            found = values.setdefault(family.name, {})
            for sample in family.samples:
                # Decoded from another process, labels are lists.
                key = (sample.suffix, tuple((label, text) for label, text in sample.labels))
                known = found.get(key)
                if known is None:
                    found[key] = sample.value
                else:
                    both = (known, sample.value)
                    found[key] = min(both) if family.is_least else sum(both)
    return [
        Family(
            family.name,
            family.kind,
            family.meaning,
            [
                MetricSample(value, labels, suffix)
                for (suffix, labels), value in values[family.name].items()
            ],
            family.is_least,
        )
        for family in families.values()
    ]


def openmetrics(families: Iterable[Family]) -> bytes:
    """Return the text of a scrape."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.meaning}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [_line(family.name, sample) for sample in family.samples]
    lines.append("# EOF\n")
    return "\n".join(lines).encode()


def _line(name: str, sample: MetricSample) -> str:
    labels = ""
    if sample.labels:
        pairs = (f'{label}="{text.translate(_ESCAPES)}"' for label, text in sample.labels)
        labels = "{" + ",".join(pairs) + "}"
    return f"{name}{sample.suffix}{labels} {sample.value}"
