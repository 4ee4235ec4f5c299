"""The text is read back with the parser of the people who scrape it."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from borzoi.telemetry.durations import Durations
from borzoi.telemetry.exposition import (
    Family,
    counter,
    counters,
    gauge,
    gauges,
    histogram,
    openmetrics,
)


def read_back(*families: Family) -> dict[str, object]:
    text = openmetrics(families).decode()
    assert text.endswith("# EOF\n")
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_plain_numbers_are_read_back() -> None:
    found = read_back(gauge("streams", "how many", 3), counter("calls", "since the start", 7))
    assert found["streams"].samples[0].value == 3  # type: ignore[attr-defined]
    assert found["calls"].samples[0].name == "calls_total"  # type: ignore[attr-defined]


def test_labels_may_hold_any_text() -> None:
    names = ['a "quoted" name', "back\\slash", "two\nlines", "", "ünïcödé"]
    values = [([("stream", name)], number) for number, name in enumerate(names)]
    for family in (gauges("g", "m", values), counters("g", "m", values)):
        found = read_back(family)["g"]
        assert [one.labels["stream"] for one in found.samples] == names  # type: ignore[attr-defined]


def test_a_histogram_is_whole() -> None:
    durations = Durations()
    for nanoseconds in (1_000, 1_000_000, 10**12):
        durations.observe(nanoseconds)
    found = read_back(histogram("took_seconds", "m", [([("command", "ping")], durations)]))
    samples = found["took_seconds"].samples  # type: ignore[attr-defined]
    by_name = {one.name: one.value for one in samples if "le" not in one.labels}
    assert by_name == {"took_seconds_sum": 1000.001001, "took_seconds_count": 3}
    buckets = [one for one in samples if one.name == "took_seconds_bucket"]
    assert (buckets[0].value, buckets[-2].value, buckets[-1].value) == (1, 2, 3)
    assert buckets[-1].labels == {"command": "ping", "le": "+Inf"}
