"""A pipeline from its file to its results, on a real session and a real server."""

import json
import os
import signal
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.spark.conftest import fill
from tests.spark.pipelines.orders import is_bad, payload, totals
from tests.spark.test_sink import everything, stored
from tests.support.server import RunningServer

from borzoi.spark.broker import Broker
from borzoi.spark.jobs import replay_dead_letters
from borzoi.spark.offsets import Key
from borzoi.spark.options import Connection
from borzoi.spark.pipelines.model import load_pipeline
from borzoi.spark.pipelines.planning import plan_pipeline, reset_pipeline, status_of
from borzoi.spark.pipelines.running import (
    DATA_LOSS,
    FAILED,
    OK,
    SINK_REFUSED,
    Interruption,
    outcome_of,
    run_pipeline,
    sentence_of,
)
from borzoi.spark.progress import Report

#: A million in the tier `spark`, few in the fast tier.
MESSAGES = int(os.environ.get("BORZOI_SPARK_MESSAGES", "24000"))

FILE = """
[pipeline]
name = "orders"
checkpoint = "checkpoint"
trigger = "available-now"

[server]
address = "{servers}"

[source.orders]
subscribe = "{stream}/orders"
start = "earliest"
max_offsets_per_trigger = {per_trigger}
data_directory = "{data}"
format = {{ json = "id long, user long, amount double, country string, at timestamp" }}
on_error = "dead_letter"

[[step]]
name = "clean"
from = "orders"
sql = '''select id, sha2(string(user), 256) user, amount, country, at, _meta
from orders where amount > 0'''

[[step]]
name = "per_minute"
from = "clean"
sql = '''select date_format(window.start, "yyyy-MM-dd'T'HH:mm") minute, country,
count(*) n, sum(amount) total from clean group by window(at, '1 minute'), country'''
watermark = {{ column = "at", delay = "30 seconds" }}

[sink.lake]
from = "clean"
table = {{ delta = "lake/orders", partition_by = ["country"] }}

[sink.totals]
from = "per_minute"
topic = "{stream}/totals"
key = "country"
create_partitions = 2

[dead_letter]
topic = "{stream}/dead"
"""


class Collected:
    def __init__(self) -> None:
        self.reports: list[Report] = []

    def show(self, report: Report) -> None:
        self.reports.append(report)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.spark
def test_totals_are_those_of_a_plain_program_and_bad_records_are_dead_letters(
    spark: SparkSession,
    server: RunningServer,
    servers: str,
    broker: Broker,
    topic: str,
    tmp_path: Path,
) -> None:
    stream = topic.partition("/")[0]
    orders = f"{stream}/orders"
    broker.ensure_topic(orders, 2)
    # Two partitions in step with each other, so that no order is later than the watermark allows.
    for first in range(0, MESSAGES, 10_000):
        numbers = range(first, min(first + 10_000, MESSAGES))
        for partition in range(2):
            fill(broker, orders, partition, [payload(n) for n in numbers if n % 2 == partition])
    path = tmp_path / "orders.toml"
    path.write_text(
        FILE.format(
            servers=servers,
            stream=stream,
            data=server.directory,
            per_trigger=max(10_000, MESSAGES // 4),
        )
    )
    pipeline = load_pipeline(path)
    planned = plan_pipeline(pipeline, 0)
    assert {each.sink: each.messages for each in planned} == {"lake": MESSAGES, "totals": MESSAGES}
    display = Collected()
    assert run_pipeline(spark, pipeline, [display]) == (OK, "finished")

    good = [n for n in range(MESSAGES) if not is_bad(n) and n * 37 % 500 > 0]
    table = DeltaTable(str(tmp_path / "lake" / "orders"))
    assert sorted(table.to_pyarrow_table(columns=["id"]).column("id").to_pylist()) == good

    expected = totals(MESSAGES)
    found = [json.loads(each) for each in everything(broker, f"{stream}/totals")]
    got = {(each["minute"], each["country"]): (each["n"], each["total"]) for each in found}
    assert len(got) == len(found), "every window once"
    last = max(minute for minute, _ in expected)
    assert {key for key in expected if key[0] < last} - got.keys() <= {
        key for key in expected if key[0] >= max(m for m, _ in got)
    }, "only windows that the watermark has not closed are missing"
    assert all(got[key] == pytest.approx(expected[key]) for key in got)
    assert len(got) > 0

    bad = [n for n in range(MESSAGES) if is_bad(n)]
    letters = stored(broker, f"{stream}/dead", 0)
    assert sorted(each.payload for each in letters) == sorted(payload(n) for n in bad)
    headers = {key.value: value.value for key, value in letters[0].headers.items()}
    assert headers["source"] == orders
    assert headers["step"] == "orders"
    assert "not JSON" in str(headers["error"])

    assert {each.query for each in display.reports} == {"lake", "totals", "dead-letters"}
    assert [each.lag for each in status_of(pipeline)] == [0, 0]
    for partition in range(2):
        assert broker.stored_offset("spark-orders", Key(orders, partition)) is not None

    again = run_pipeline(spark, pipeline)
    assert again == (OK, "finished")
    assert DeltaTable(str(tmp_path / "lake" / "orders")).version() == table.version()
    assert len(stored(broker, f"{stream}/dead", 0)) == len(bad)

    host = Connection(servers)
    before = sum(each.latest for each in broker.extents([orders]).values())
    assert replay_dead_letters(host, f"{stream}/dead") == len(bad)
    assert replay_dead_letters(host, f"{stream}/dead") == 0
    assert sum(each.latest for each in broker.extents([orders]).values()) == before + len(bad)
    assert reset_pipeline(pipeline)
    assert not reset_pipeline(pipeline)


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        (
            "[STREAM_FAILED] x\nTraceback\nborzoi.spark.offsets.DataLoss: a/b[0] was purged",
            DATA_LOSS,
            "a/b[0] was purged",
        ),
        (
            'File "sink.py"\nborzoi.model.errors.TopicNotFound: there is no topic a/b',
            SINK_REFUSED,
            "there is no topic a/b",
        ),
        ("[DIVIDE_BY_ZERO] Division by zero", FAILED, "[DIVIDE_BY_ZERO] Division by zero"),
        ("", FAILED, "the query failed without a reason"),
    ],
)
def test_a_failure_becomes_a_code_and_a_sentence(text: str, code: int, sentence: str) -> None:
    assert outcome_of(text) == (code, sentence)
    assert sentence_of(text) == sentence


def test_interruptions_are_counted_and_the_handlers_given_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    interruption = Interruption()
    restore = interruption.install()
    try:
        signal.raise_signal(signal.SIGINT)
        assert interruption.count == 1
    finally:
        restore()
    assert signal.getsignal(signal.SIGINT) is before
