"""Published metrics, read with the parser of Prometheus' own client."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families

#: A name and its labels.
Series = tuple[str, tuple[tuple[str, str], ...]]


def series(name: str, /, **labels: str) -> Series:
    return name, tuple(sorted(labels.items()))


def samples_in(text: bytes) -> dict[Series, float]:
    return {
        series(sample.name, **sample.labels): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }
