"""A pipeline from its file to its results, on a real session and a real server."""

import json
import os
import signal
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.spark.conftest import fill
from tests.spark.pipelines.orders import FOLDER, is_bad, payload, totals
from tests.spark.test_sink import everything, stored
from tests.support.server import RunningServer

from borzoi.records.message import Message
from borzoi.spark.broker import Broker
from borzoi.spark.jobs import replay_dead_letters
from borzoi.spark.offsets import PartitionKey
from borzoi.spark.options import ConnectionOptions
from borzoi.spark.pipelines.planning import plan_pipeline, reset_pipeline, status_of
from borzoi.spark.pipelines.reading import load_pipeline
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


def example_file(folder: Path, servers: str, stream: str, data: Path) -> Path:
    """The example, for a server, a stream and a directory of the test."""
    text = (FOLDER / "orders.toml").read_text()
    text = text.replace("127.0.0.1:8090", servers).replace("shop/", f"{stream}/")
    text = text.replace('start = "earliest"', f'start = "earliest"\ndata_directory = "{data}"')
    text = text.replace("64 MiB", "1 MiB" if MESSAGES < 100_000 else "64 MiB")
    path = folder / "orders.toml"
    path.write_text(text)
    return path


class Collected:
    def __init__(self) -> None:
        self.reports: list[Report] = []

    def show(self, report: Report) -> None:
        self.reports.append(report)

    def close(self) -> None:
        self.is_closed = True


def check_totals(broker: Broker, topic: str) -> None:
    expected = totals(MESSAGES)
    found = [json.loads(each) for each in everything(broker, topic)]
    got = {
        (each["minute"][:16], each["country"]): (each["orders"], each["total"]) for each in found
    }
    assert len(got) == len(found), "every window once"
    last = max(minute for minute, _ in expected)
    assert {key for key in expected if key[0] < last} - got.keys() <= {
        key for key in expected if key[0] >= max(m for m, _ in got)
    }, "only windows that the watermark has not closed are missing"
    assert all(got[key] == pytest.approx(expected[key]) for key in got)
    assert len(got) > 0


def check_letters(letters: list[Message], orders: str) -> None:
    headers = {key.value: value.value for key, value in letters[0].headers.items()}
    assert headers["source"] == orders
    assert headers["step"] == "orders"
    reasons = {
        str(value.value)
        for each in letters
        for key, value in each.headers.items()
        if key.value == "error"
    }
    assert reasons == {"the payload is not JSON of the declared columns", "not met: amount >= 0"}


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
    path = example_file(tmp_path, servers, stream, server.directory)
    pipeline = load_pipeline(path)
    planned = plan_pipeline(pipeline, 0)
    assert {each.sink: each.messages for each in planned} == {"lake": MESSAGES, "totals": MESSAGES}
    display = Collected()
    assert run_pipeline(spark, pipeline, [display]) == (OK, "finished")

    good = [n for n in range(MESSAGES) if not is_bad(n)]
    lake = str(tmp_path / "run" / "lake" / "orders")
    table = DeltaTable(lake)
    assert sorted(table.to_pyarrow_table(columns=["id"]).column("id").to_pylist()) == good

    check_totals(broker, f"{stream}/orders_per_minute")
    bad = [n for n in range(MESSAGES) if is_bad(n)]
    letters = stored(broker, f"{stream}/orders_dead", 0)
    assert sorted(each.payload for each in letters) == sorted(payload(n) for n in bad)
    check_letters(letters, orders)

    size = sum(len(payload(n)) for n in range(MESSAGES))
    assert sum(each.bytes for each in display.reports if each.query == "lake") == size
    assert {each.query for each in display.reports} == {"lake", "totals", "dead-letters"}
    assert [each.lag for each in status_of(pipeline)] == [0, 0]
    for partition in range(2):
        assert broker.stored_offset("spark-orders", PartitionKey(orders, partition)) is not None

    again = run_pipeline(spark, pipeline)
    assert again == (OK, "finished")
    assert DeltaTable(lake).version() == table.version()
    assert len(stored(broker, f"{stream}/orders_dead", 0)) == len(bad)

    host = ConnectionOptions(servers)
    before = sum(each.latest for each in broker.extents([orders]).values())
    assert replay_dead_letters(host, f"{stream}/orders_dead") == len(bad)
    assert replay_dead_letters(host, f"{stream}/orders_dead") == 0
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
