"""The topic sink: what a task sends, what a second attempt leaves out, what Spark makes of it."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.spark.conftest import fill

from borzoi.model.errors import TopicNotFound
from borzoi.model.partitioning import partition_for_key
from borzoi.records.message import Message, decode_messages
from borzoi.records.user_headers import user_headers
from borzoi.spark.broker import Broker, close_brokers_of_worker
from borzoi.spark.offsets import PartitionKey
from borzoi.spark.options import ConnectionOptions, InvalidOption, SinkOptions, sink_options
from borzoi.spark.reconcile import Doubt
from borzoi.spark.sink import (
    BatchTopicWriter,
    Sender,
    StreamTopicWriter,
    check_schema,
    target_partitions,
    way_of_ids,
)
from borzoi.spark.targets import Attempt, Written


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_brokers_of_worker()


def stored(broker: Broker, topic: str, partition: int) -> list[Message]:
    extent = broker.extents([topic])[PartitionKey(topic, partition)]
    found: list[Message] = []
    while len(found) < extent.latest:
        run = broker.run(PartitionKey(topic, partition), len(found), 100_000)
        found += decode_messages(run.buffer)
    return found


def everything(broker: Broker, topic: str) -> list[bytes]:
    partitions = range(len(broker.extents([topic])))
    return [m.payload for partition in partitions for m in stored(broker, topic, partition)]


def rows(first: int, count: int, partition: int = 0) -> pa.RecordBatch:
    """Rows as a map-only query over a topic has them."""
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(numbers, pa.int64()),
            "payload": pa.array([b"%d:%d" % (partition, n) for n in numbers]),
        }
    )


def attempt(epoch: int, run: str = "run-1", number: int = 0, task: int = 0) -> Attempt:
    return Attempt("query", run, epoch, task, number)


def send(
    broker: Broker, topic: str, tried: Attempt, *batches: pa.RecordBatch, way: str = "lineage"
) -> Written:
    options = SinkOptions(ConnectionOptions("unused"), topic=topic, orphan_grace=1000)
    sender = Sender(broker, options, way, tried)
    for batch in batches:
        sender.write(batch)
    return sender.result()


def commit(servers: str, topic: str, epoch: int, *messages: Written) -> None:
    schema = StructType().add("payload", "binary").add("offset", "long").add("partition", "integer")
    options = sink_options({"servers": servers, "topic": topic})
    StreamTopicWriter(schema, options).commit(list(messages), epoch)


def test_rows_arrive_in_their_partition_and_order(broker: Broker, topic: str) -> None:
    done = send(broker, topic, attempt(0), rows(0, 100, 0), rows(0, 50, 1))
    assert (done.rows, done.skipped) == (150, 0)
    assert [m.payload for m in stored(broker, topic, 0)] == [b"0:%d" % n for n in range(100)]
    assert [m.payload for m in stored(broker, topic, 1)] == [b"1:%d" % n for n in range(50)]


def test_a_second_attempt_sends_only_what_is_missing(broker: Broker, topic: str) -> None:
    """The first attempt died after 30 of 100 rows."""
    send(broker, topic, attempt(0), rows(0, 30))
    again = send(broker, topic, attempt(0, number=1), rows(0, 100))
    assert (again.rows, again.skipped) == (70, 30)
    assert [m.payload for m in stored(broker, topic, 0)] == [b"0:%d" % n for n in range(100)]


def test_a_new_run_finds_what_the_old_one_sent(servers: str, broker: Broker, topic: str) -> None:
    first = send(broker, topic, attempt(0), rows(0, 50))
    commit(servers, topic, 0, first)
    send(broker, topic, attempt(1), rows(50, 20))
    again = send(broker, topic, attempt(1, run="run-2"), rows(50, 50))
    assert (again.rows, again.skipped) == (30, 20)
    commit(servers, topic, 1, again)
    third = send(broker, topic, attempt(2, run="run-2"), rows(100, 10))
    assert (third.rows, third.skipped) == (10, 0)
    assert [m.payload for m in stored(broker, topic, 0)] == [b"0:%d" % n for n in range(110)]


def test_at_least_once_writes_no_markers(servers: str, broker: Broker, topic: str) -> None:
    done = send(broker, topic, attempt(0), rows(0, 5), way="none")
    send(broker, topic, attempt(0, number=1), rows(0, 5), way="none")
    assert len(stored(broker, topic, 0)) == 10
    StreamTopicWriter(
        StructType().add("payload", "binary"), sink_options({"servers": servers, "topic": topic})
    ).commit([done, None], 0)
    assert broker.topic(f"{topic.partition('/')[0]}/__borzoi_spark") is None


def test_keys_go_where_the_server_would_send_them(broker: Broker, topic: str) -> None:
    keys = ["a", "b", "c", "a"]
    batch = pa.RecordBatch.from_pydict({"key": keys, "payload": keys})
    send(broker, topic, attempt(0), batch, way="position")
    for partition in range(3):
        expected = [k.encode() for k in keys if partition_for_key(k.encode(), 3) == partition]
        assert [m.payload for m in stored(broker, topic, partition)] == expected


def test_headers_times_and_ids_travel(broker: Broker, topic: str) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "payload": pa.array([b"x"]),
            "id": pa.array([(77).to_bytes(16, "big")]),
            "headers": pa.array([[("k", "v")]], pa.map_(pa.string(), pa.string())),
            "origin_timestamp": pa.array([123], pa.timestamp("us", tz="UTC")),
            "partition": pa.array([1], pa.int32()),
        }
    )
    send(broker, topic, attempt(0), batch, way="column")
    (found,) = stored(broker, topic, 1)
    assert (found.id, found.origin_timestamp) == (77, 123)
    assert found.headers == user_headers({"k": "v"})


def test_rows_choose_their_topic(broker: Broker, topic: str) -> None:
    other = f"{topic}2"
    broker.ensure_topic(other, 1)
    batch = pa.RecordBatch.from_pydict({"topic": [topic, other, topic], "payload": ["a", "b", "c"]})
    sender = Sender(broker, SinkOptions(ConnectionOptions("unused")), "position", attempt(0))
    sender.write(batch)
    assert sorted(sender.result().topics) == sorted([topic, other])
    assert sorted(everything(broker, topic)) == [b"a", b"c"]
    assert everything(broker, other) == [b"b"]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"partition": [5], "payload": ["a"]}, "has 5; the topic has 3"),
        ({"key": [None], "payload": ["a"]}, "key is null"),
        ({"partition": [None], "payload": ["a"]}, "partition is null"),
    ],
)
def test_rows_that_cannot_be_placed_are_refused(columns: dict[str, list], sentence: str) -> None:
    with pytest.raises(InvalidOption, match=sentence):
        target_partitions(pa.RecordBatch.from_pydict(columns), 3, None)


def test_a_missing_topic_is_named_or_made(broker: Broker, topic: str) -> None:
    absent = f"{topic}-absent"
    with pytest.raises(TopicNotFound, match="createPartitions"):
        send(broker, absent, attempt(0), rows(0, 1))
    options = SinkOptions(ConnectionOptions("unused"), topic=absent, create_partitions=2)
    sender = Sender(broker, options, "lineage", attempt(0))
    sender.write(rows(0, 1))
    assert len(broker.extents([absent])) == 2


@pytest.mark.parametrize(
    ("columns", "options", "way"),
    [
        ("payload", {}, "none"),
        ("payload id", {}, "column"),
        ("payload id partition offset", {}, "lineage"),
        ("payload __partition __offset", {}, "lineage"),
        ("payload", {"idempotence": "position"}, "position"),
    ],
)
def test_the_safest_way_to_ids_is_chosen(columns: str, options: dict[str, str], way: str) -> None:
    schema = StructType()
    for name in columns.split():
        schema = schema.add(name, "binary")
    assert way_of_ids(schema, sink_options({"topic": "a/b"} | options)) == way


def test_schemas_that_are_no_messages_are_refused() -> None:
    payload = StructType().add("payload", "binary")
    with pytest.raises(InvalidOption, match="column payload"):
        check_schema(StructType().add("value", "binary"), sink_options({"topic": "a/b"}))
    with pytest.raises(InvalidOption, match="option topic is missing"):
        check_schema(payload, sink_options({}))
    with pytest.raises(InvalidOption, match="needs the columns id"):
        check_schema(payload, sink_options({"topic": "a/b", "idempotence": "column"}))
    by_key = sink_options({"topic": "a/b", "idempotence": "key", "idColumns": "k"})
    with pytest.raises(InvalidOption, match="'k', which is not a column"):
        check_schema(payload, by_key)
    with pytest.raises(InvalidOption, match="mode append"):
        BatchTopicWriter(payload, sink_options({"topic": "a/b"}), overwrite=True)
    assert Doubt.NONE.value == "none"


# ---- with Spark ---------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("plane", ["row", "bulk"])
def test_spark_copies_a_topic_exactly_once_over_restarts(
    spark: SparkSession,
    servers: str,
    reading: dict[str, str],
    broker: Broker,
    topic: str,
    tmp_path: Path,
    plane: str,
) -> None:
    """The last commit of the checkpoint is lost once: its epoch runs again and sends nothing."""
    reading |= {"maxOffsetsPerTrigger": "1600", "keepOrder": "true", "plane": plane}
    writing = (reading if plane == "bulk" else {}) | {"servers": servers}
    target = f"{topic}-copy"
    broker.ensure_topic(target, 3)
    for partition in range(3):
        fill(broker, topic, partition, [b"%d:%d" % (partition, n) for n in range(1000)])
    for _ in range(2):
        query = (
            spark.readStream.format("borzoi")
            .options(**reading)
            .load()
            .writeStream.format("borzoi")
            .options(**writing, topic=f"{topic}-copy", orphanGrace="10ms")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        newest = max(
            (tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda p: int(p.name)
        )
        newest.unlink()
    for partition in range(3):
        expected = [b"%d:%d" % (partition, n) for n in range(1000)]
        assert [m.payload for m in stored(broker, target, partition)] == expected


@pytest.mark.spark
def test_spark_writes_a_frame_into_a_topic(
    spark: SparkSession, servers: str, broker: Broker, topic: str
) -> None:
    frame = spark.range(1000).selectExpr("string(id) payload", "string(id % 7) key")
    frame.write.format("borzoi").options(servers=servers, topic=topic).mode("append").save()
    found = everything(broker, topic)
    assert sorted(map(int, found)) == list(range(1000))
