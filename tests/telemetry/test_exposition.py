"""The text is read back with the parser of Prometheus' own client."""

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.support.metrics import samples_in, series

from borzoi.telemetry.durations import Durations
from borzoi.telemetry.exposition import (
    Family,
    counter,
    counters,
    gauge,
    gauges,
    histogram,
    merged,
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


def test_numbers_of_several_processes_are_added_up() -> None:
    fast, slow = Durations(), Durations()
    fast.observe(10_000)
    slow.observe(10_000_000)

    def process(shard: int, durations: Durations, when: int) -> list[Family]:
        return [
            counters("calls", "calls", [([("op", "get")], shard + 1), ([("op", str(shard))], 5)]),
            histogram("seconds", "durations", [((), durations)]),
            gauges("lag", "of each", [((("shard", str(shard)),), shard)]),
            gauge("done", "when all was done", when, is_least=True),
        ]

    # As they come from another process: lists in the place of tuples.
    sent = msgspec.msgpack.encode(process(1, slow, 70))
    other = msgspec.msgpack.decode(sent, type=list[Family])
    both = merged([process(0, fast, 90), other])
    found = samples_in(openmetrics(both))
    assert found[series("calls_total", op="get")] == 3
    assert found[series("calls_total", op="0")] == found[series("calls_total", op="1")] == 5
    assert found[series("seconds_count")] == 2
    assert found[series("seconds_sum")] == pytest.approx(0.01001)
    assert found[series("lag", shard="0")] == 0
    assert found[series("lag", shard="1")] == 1
    assert found[series("done")] == 70
    assert openmetrics(merged([process(0, fast, 90)])) == openmetrics(process(0, fast, 90))
