"""A server that restarts under a reader and under a sender."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from tests.spark.conftest import fill
from tests.spark.test_sink import attempt, rows, send, stored
from tests.support.server import RunningServer, running_server

from borzoi.spark.broker import Broker, close_brokers_of_worker
from borzoi.spark.options import ConnectionOptions, source_options
from borzoi.spark.rows import spark_schema
from borzoi.spark.source import BorzoiStreamReader


@pytest.fixture
def own_server() -> Iterator[RunningServer]:
    with running_server({"SYSTEM_SEGMENT_SIZE": "1 MiB"}) as started:
        yield started
    close_brokers_of_worker()


def address(server: RunningServer) -> str:
    host, port = server.tcp_address
    return f"{host}:{port}"


@pytest.mark.parametrize("is_crash", [False, True])
def test_planner_and_tasks_go_on_after_a_restart(own_server: RunningServer, is_crash: bool) -> None:
    broker = Broker(ConnectionOptions(address(own_server)))
    broker.ensure_topic("s/t", 1)
    fill(broker, "s/t", 0, [b"%d" % n for n in range(100)])
    options = source_options({"servers": address(own_server), "subscribe": "s/t"})
    reader = BorzoiStreamReader(spark_schema(options), options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    (partition,) = reader.partitions(start, end)
    assert sum(batch.num_rows for batch in reader.read(partition)) == 100
    if is_crash:
        own_server.kill()
    else:
        own_server.stop()
    own_server.start()
    assert sum(batch.num_rows for batch in reader.read(partition)) == 100
    fill(broker, "s/t", 0, [b"new"])
    later = reader.latestOffset(end, ReadAllAvailable())
    (partition,) = reader.partitions(end, later)
    assert sum(batch.num_rows for batch in reader.read(partition)) == 1
    reader.stop()
    broker.close()


def test_a_crashed_server_has_what_a_second_attempt_leaves_out(own_server: RunningServer) -> None:
    broker = Broker(ConnectionOptions(address(own_server)))
    broker.ensure_topic("s/t", 1)
    send(broker, "s/t", attempt(0), rows(0, 60))
    own_server.kill()
    own_server.start()
    again = send(broker, "s/t", attempt(0, number=1), rows(0, 100))
    assert (again.rows, again.skipped) == (40, 60)
    assert [m.payload for m in stored(broker, "s/t", 0)] == [b"0:%d" % n for n in range(100)]
    broker.close()


@pytest.mark.spark
@pytest.mark.slow
def test_a_running_query_survives_restarts_of_the_server(
    spark: SparkSession, own_server: RunningServer, tmp_path: Path
) -> None:
    servers = address(own_server)
    broker = Broker(ConnectionOptions(servers))
    for name in ("s/in", "s/out"):
        broker.ensure_topic(name, 1)
    query = (
        spark.readStream.format("borzoi")
        .options(servers=servers, subscribe="s/in")
        .load()
        .writeStream.format("borzoi")
        .options(servers=servers, topic="s/out")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    sent: list[bytes] = []
    try:
        for turn in range(3):
            payloads = [b"%d:%d" % (turn, n) for n in range(2000)]
            fill(broker, "s/in", 0, payloads)
            sent += payloads
            if turn == 1:
                own_server.kill()
            else:
                own_server.stop()
            own_server.start()
        query.processAllAvailable()
    finally:
        query.stop()
    assert [m.payload for m in stored(broker, "s/out", 0)] == sent
    broker.close()
