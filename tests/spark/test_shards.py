"""A server of several shards: all of them are read directly, and written to by both sinks."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import fill
from tests.spark.test_copying import copy, ranges
from tests.spark.test_sink import attempt, send, stored
from tests.spark.test_source import reader
from tests.support.server import RunningServer, running_server

from borzoi.spark.broker import Broker, close_brokers_of_worker
from borzoi.spark.options import ConnectionOptions

SHARDS = 3
PARTITIONS = 6


@pytest.fixture(scope="module")
def sharded() -> Iterator[RunningServer]:
    settings = {"SYSTEM_SEGMENT_SIZE": "1 MiB", "SYSTEM_SHARDING_CPU_ALLOCATION": str(SHARDS)}
    with running_server(settings) as started:
        yield started
    close_brokers_of_worker()


def expected(partition: int) -> list[bytes]:
    return [b"%d:%d:" % (partition, n) + b"x" * 400 for n in range(4000)]


@pytest.fixture(scope="module")
def address(sharded: RunningServer) -> str:
    """Of a server whose topic s/in has messages in every partition."""
    host, port = sharded.tcp_address
    broker = Broker(ConnectionOptions(f"{host}:{port}"))
    broker.ensure_topic("s/in", PARTITIONS)
    for partition in range(PARTITIONS):
        fill(broker, "s/in", partition, expected(partition))
    broker.close()
    return f"{host}:{port}"


def check_copy(address: str, topic: str) -> None:
    broker = Broker(ConnectionOptions(address))
    for partition in range(PARTITIONS):
        assert [m.payload for m in stored(broker, topic, partition)] == expected(partition)
    broker.close()


def test_direct_reads_and_both_sinks(sharded: RunningServer, address: str) -> None:
    read = reader(address, "s/in", segments="direct", dataDirectory=str(sharded.directory))
    partitions = read.partitions()
    assert sum(bool(each.value.pieces) for each in partitions) == PARTITIONS
    batches = [batch for each in partitions for batch in read.read(each)]
    assert sum(batch.num_rows for batch in batches) == PARTITIONS * 4000
    broker = Broker(ConnectionOptions(address))
    for topic in ("s/rows", "s/bulk"):
        broker.ensure_topic(topic, PARTITIONS)
    columns = ["partition", "offset", "payload"]
    rows = [pa.RecordBatch.from_arrays([b.column(c) for c in columns], columns) for b in batches]
    assert send(broker, "s/rows", attempt(0), *rows).rows == PARTITIONS * 4000
    found = ranges(address, "s/in", segments="direct", dataDirectory=str(sharded.directory))
    assert copy(broker, address, "s/bulk", attempt(0), *found).rows == PARTITIONS * 4000
    again = copy(broker, address, "s/bulk", attempt(0, number=1), *found)
    assert (again.rows, again.skipped) == (0, PARTITIONS * 4000)
    broker.close()
    for topic in ("s/rows", "s/bulk"):
        check_copy(address, topic)


@pytest.mark.spark
@pytest.mark.slow
def test_spark_copies_a_topic(
    spark: SparkSession, sharded: RunningServer, address: str, tmp_path: Path
) -> None:
    reading = {"servers": address, "subscribe": "s/in", "dataDirectory": str(sharded.directory)}
    query = (
        spark.readStream.format("borzoi")
        .options(**reading)
        .load()
        .writeStream.format("borzoi")
        .options(servers=address, topic="s/spark", createPartitions=str(PARTITIONS))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    check_copy(address, "s/spark")
