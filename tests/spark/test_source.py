"""The source: driven as Spark drives it, against a real server, and by Spark itself."""

import pickle
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import StructType
from tests.spark.conftest import fill
from tests.support.server import RunningServer

from borzoi.protocol.commands.partitions import CreatePartitions
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.topics import DeleteTopic, PurgeTopic
from borzoi.spark.broker import Broker, close_brokers_of_worker, name_parts
from borzoi.spark.offsets import DataLoss, PartitionKey
from borzoi.spark.options import InvalidOption, source_options
from borzoi.spark.plan import Split, Window
from borzoi.spark.rows import spark_schema
from borzoi.spark.source import (
    BorzoiDataSource,
    BorzoiStreamReader,
    FilteringReader,
    PlainBorzoiDataSource,
    narrowed_by,
)

PAYLOAD = b"x" * 400


def numbered(partition: int, count: int, first: int = 0) -> list[bytes]:
    return [b"%d:%d:" % (partition, n) + PAYLOAD for n in range(first, first + count)]


def reader(servers: str, topic: str, **options: str) -> FilteringReader:
    parsed = source_options({"servers": servers, "subscribe": topic} | options)
    return FilteringReader(spark_schema(parsed), parsed)


OPENED: list[BorzoiStreamReader] = []


def stream(servers: str, topic: str, **options: str) -> BorzoiStreamReader:
    parsed = source_options({"servers": servers, "subscribe": topic} | options)
    OPENED.append(BorzoiStreamReader(spark_schema(parsed), parsed))
    return OPENED[-1]


def read_to_the_end(
    servers: str, broker: Broker, topic: str, **options: str
) -> tuple[BorzoiStreamReader, dict[str, Any]]:
    """A query that has planned 50 messages of partition 0."""
    fill(broker, topic, 0, numbered(0, 50))
    read = stream(servers, topic, **options)
    return read, read.latestOffset(read.initialOffset(), ReadAllAvailable())


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    """Spark stops its readers, and its workers end."""
    yield
    while OPENED:
        OPENED.pop().stop()
    close_brokers_of_worker()


def table_of(read: Any, partitions: Any) -> pa.Table:
    """What tasks would read; the reader travels to them as Spark sends it."""
    copy = pickle.loads(pickle.dumps(read))
    batches = [batch for partition in partitions for batch in copy.read(partition)]
    return pa.Table.from_batches(batches) if batches else pa.table({"payload": []})


def payloads(read: Any, partitions: Any) -> list[bytes]:
    return table_of(read, partitions).column("payload").to_pylist()


def batches_of(read: BorzoiStreamReader, limit: ReadLimit) -> Iterator[list[bytes]]:
    """Micro-batches until nothing is left, as Spark asks for them."""
    start = read.initialOffset()
    while (end := read.latestOffset(start, limit)) != start:
        yield payloads(read, read.partitions(start, end))
        start = end


@pytest.mark.parametrize("segments", ["server", "auto", "direct"])
def test_every_message_is_read_once_from_segments_and_from_the_server(
    server: RunningServer, servers: str, broker: Broker, topic: str, segments: str
) -> None:
    for partition in range(3):
        fill(broker, topic, partition, numbered(partition, 4000))
    read = reader(servers, topic, segments=segments, dataDirectory=str(server.directory))
    partitions = read.partitions()
    is_direct = [bool(each.value.pieces) for each in partitions]
    assert any(is_direct) == (segments != "server")
    assert not all(is_direct), "the open segment is read through the server"
    table = table_of(read, partitions)
    assert sorted(table.column("payload").to_pylist()) == sorted(
        payload for partition in range(3) for payload in numbered(partition, 4000)
    )
    places = list(zip(*(table.column(n).to_pylist() for n in ("partition", "offset")), strict=True))
    assert places == [(p, n) for p in range(3) for n in range(4000)]


def test_splits_are_cut_and_counted(
    server: RunningServer, servers: str, broker: Broker, topic: str
) -> None:
    fill(broker, topic, 0, numbered(0, 6000))
    options = {"dataDirectory": str(server.directory), "assign": f'{{"{topic}": [0]}}'}
    for more in ({"maxRecordsPerPartition": "500"}, {"minPartitions": "7"}):
        parsed = source_options({"servers": servers} | options | more)
        read = FilteringReader(spark_schema(parsed), parsed)
        partitions = read.partitions()
        assert len(partitions) >= 7
        assert payloads(read, partitions) == numbered(0, 6000)


def test_bounds_by_offset_and_time(servers: str, broker: Broker, topic: str) -> None:
    fill(broker, topic, 1, numbered(1, 10))
    middle = broker.timestamp_at(PartitionKey(topic, 1), 9)
    fill(broker, topic, 1, numbered(1, 10, 10))
    assert middle is not None
    by_offset = reader(servers, topic, startingOffsets='{"1": 3}', endingOffsets='{"1": 5}')
    assert payloads(by_offset, by_offset.partitions()) == numbered(1, 2, 3)
    by_time = reader(servers, topic, startingTimestamp=str(middle + 1))
    assert payloads(by_time, by_time.partitions()) == numbered(1, 10, 10)
    until = reader(servers, topic, endingTimestamp=str(middle + 1))
    assert payloads(until, until.partitions()) == numbered(1, 10)
    recent = reader(servers, topic, startingTimestamp="-1h", columns="payload")
    assert len(payloads(recent, recent.partitions())) == 20


def test_filters_narrow_what_is_read(servers: str, broker: Broker, topic: str) -> None:
    for partition in range(3):
        fill(broker, topic, partition, numbered(partition, 100))
    read = reader(servers, topic)
    filters = [EqualTo(("partition",), 1), GreaterThanOrEqual(("offset",), 90)]
    assert list(read.pushFilters(filters)) == filters, "Spark checks them again"
    assert payloads(read, read.partitions()) == numbered(1, 10, 90)


@pytest.mark.parametrize(
    ("pushed", "window"),
    [
        (GreaterThan(("offset",), 5), Window(offset_low=6)),
        (LessThan(("offset",), 5), Window(offset_high=5)),
        (LessThanOrEqual(("offset",), 5), Window(offset_high=6)),
        (EqualTo(("offset",), 5), Window(offset_low=5, offset_high=6)),
        (In(("offset",), (9, 5)), Window(offset_low=5, offset_high=10)),
        (In(("partition",), (1, 2)), Window(partitions=frozenset({1, 2}))),
        (
            GreaterThanOrEqual(("timestamp",), datetime(1970, 1, 1, 0, 0, 1, 5, UTC)),
            Window(time_low=1_000_005),
        ),
        (EqualTo(("payload",), b""), Window()),
        (IsNotNull(("offset",)), Window()),
        (GreaterThan(("partition",), 1), Window()),
    ],
)
def test_each_filter_becomes_a_window(pushed: Any, window: Window) -> None:
    assert narrowed_by(Window(), pushed) == window


@pytest.fixture
def copy(server: RunningServer, broker: Broker, topic: str, tmp_path: Path) -> Path:
    """The data directory, copied with 6000 messages in partition 0."""
    fill(broker, topic, 0, numbered(0, 6000))
    return Path(shutil.copytree(server.directory, tmp_path / "data"))


def test_a_segment_that_is_gone_when_its_task_runs_is_read_through_the_server(
    servers: str, topic: str, copy: Path
) -> None:
    """The directory vanishes after planning, as on a machine that does not share the disk."""
    read = reader(servers, topic, dataDirectory=str(copy))
    partitions = read.partitions()
    assert any(each.value.pieces for each in partitions)
    shutil.rmtree(copy)
    assert payloads(read, partitions) == numbered(0, 6000)


def test_a_directory_of_another_server_is_not_believed(
    servers: str, topic: str, copy: Path
) -> None:
    for log in copy.rglob("*.log"):
        damaged = bytearray(log.read_bytes())
        if damaged:
            damaged[8:24] = bytes(16)
            log.write_bytes(damaged)
    read = reader(servers, topic, dataDirectory=str(copy))
    partitions = read.partitions()
    assert not any(each.value.pieces for each in partitions)
    assert payloads(read, partitions) == numbered(0, 6000)
    with pytest.raises(InvalidOption, match="does not belong to the server"):
        reader(servers, topic, dataDirectory=str(copy), segments="direct").partitions()


def test_a_directory_at_rest_needs_no_server(
    server: RunningServer, servers: str, broker: Broker, topic: str
) -> None:
    fill(broker, topic, 0, numbered(0, 5000))
    stream_id, details = broker.stream_id(topic), broker.topic(topic)
    assert details is not None
    options = {
        "subscribe": f"{stream_id}/{details.id}",
        "segments": "direct-only",
        "dataDirectory": str(server.directory),
        "servers": "127.0.0.1:1",
    }
    parsed = source_options(options | {"columns": "offset,timestamp"})
    read = FilteringReader(spark_schema(parsed), parsed)
    rows = table_of(read, read.partitions())
    sealed = rows.num_rows
    assert rows.column("offset").to_pylist() == list(range(sealed))
    assert 1000 < sealed <= 5000, "the index of the open segment lags by up to 4096 entries"
    named = source_options(options | {"subscribe": "a/b"})
    with pytest.raises(InvalidOption, match="ids and no names"):
        FilteringReader(spark_schema(named), named).partitions()


@pytest.mark.parametrize("limit", [ReadMaxRows(700), ReadMaxBytes(300_000), ReadAllAvailable()])
def test_a_stream_reads_everything_within_its_limits(
    server: RunningServer, servers: str, broker: Broker, topic: str, limit: ReadLimit
) -> None:
    for partition in range(3):
        fill(broker, topic, partition, numbered(partition, 1000 * partition + 10))
    read = stream(servers, topic, dataDirectory=str(server.directory))
    found = list(batches_of(read, limit))
    if isinstance(limit, ReadMaxRows):
        assert all(len(batch) <= 700 for batch in found)
    if isinstance(limit, ReadMaxBytes):
        assert len(found) > 3
        assert all(sum(map(len, batch)) <= 300_000 for batch in found)
    everything = [payload for batch in found for payload in batch]
    for partition in range(3):
        mine = [each for each in everything if each.startswith(b"%d:" % partition)]
        assert mine == numbered(partition, 1000 * partition + 10), "in order"


def test_a_stream_reads_segments_and_tail_of_a_partition_in_one_task(
    server: RunningServer, servers: str, broker: Broker, topic: str
) -> None:
    fill(broker, topic, 0, numbered(0, 6000))
    for columns in ("payload", "offset"):
        read = stream(servers, topic, dataDirectory=str(server.directory), columns=columns)
        start = read.initialOffset()
        (one,) = read.partitions(start, read.latestOffset(start, ReadAllAvailable()))
        assert one.value.pieces
        assert one.value.pieces[-1].end < one.value.end
        expected = numbered(0, 6000) if columns == "payload" else list(range(6000))
        assert table_of(read, [one]).column(columns).to_pylist() == expected
    cut = stream(servers, topic, minPartitions="4", dataDirectory=str(server.directory))
    start = cut.initialOffset()
    assert len(cut.partitions(start, cut.latestOffset(start, ReadAllAvailable()))) >= 4


def test_limits_of_the_options_reach_the_engine(servers: str, topic: str) -> None:
    assert stream(servers, topic).getDefaultReadLimit() == ReadAllAvailable()
    rows = stream(servers, topic, maxOffsetsPerTrigger="5").getDefaultReadLimit()
    assert rows == ReadMaxRows(5)
    size = stream(servers, topic, maxBytesPerTrigger="1 MiB").getDefaultReadLimit()
    assert size == ReadMaxBytes(1 << 20)


def test_few_messages_wait(servers: str, broker: Broker, topic: str) -> None:
    fill(broker, topic, 0, numbered(0, 5))
    read = stream(servers, topic, minOffsetsPerTrigger="10", maxOffsetsPerTrigger="100")
    start = read.initialOffset()
    assert read.latestOffset(start, ReadMaxRows(100)) == start
    fill(broker, topic, 1, numbered(1, 5))
    assert read.latestOffset(start, ReadMaxRows(100)) != start


def test_available_now_ends_where_the_topic_ended_at_the_start(
    servers: str, broker: Broker, topic: str
) -> None:
    fill(broker, topic, 0, numbered(0, 10))
    read = stream(servers, topic)
    read.prepareForTriggerAvailableNow()
    fill(broker, topic, 0, numbered(0, 10, 10))
    assert list(batches_of(read, ReadMaxRows(100))) == [numbered(0, 10)]


def test_partitions_that_are_added_are_read_from_their_start(
    servers: str, broker: Broker, topic: str
) -> None:
    read, end = read_to_the_end(servers, broker, topic)
    broker.call(CreatePartitions(*name_parts(topic), 1))
    fill(broker, topic, 3, numbered(3, 7))
    later = read.latestOffset(end, ReadAllAvailable())
    assert payloads(read, read.partitions(end, later)) == numbered(3, 7)


def test_retention_that_overtakes_the_query_is_named_or_passed_over(
    servers: str, broker: Broker, topic: str
) -> None:
    fill(broker, topic, 0, numbered(0, 6000))
    strict = stream(servers, topic)
    start = strict.initialOffset()
    first = strict.latestOffset(start, ReadMaxRows(10))
    broker.call(DeleteSegments(*name_parts(topic), 0, 1))
    kept = broker.extents([topic])[PartitionKey(topic, 0)].earliest
    assert kept > 10
    with pytest.raises(
        DataLoss, match=rf"\[0\] lost messages .* wanted from offset 10 on, .* {kept} to 5999"
    ):
        strict.latestOffset(first, ReadAllAvailable())
    with pytest.raises(DataLoss, match="retention"):
        strict.partitions(start, first)
    lenient = stream(servers, topic, failOnDataLoss="false")
    end = lenient.latestOffset(first, ReadAllAvailable())
    assert payloads(lenient, lenient.partitions(first, end)) == numbered(0, 6000 - kept, kept)


def test_messages_that_vanish_between_planning_and_reading_are_named(
    servers: str, broker: Broker, topic: str
) -> None:
    fill(broker, topic, 0, numbered(0, 6000))
    for strict in ("true", "false"):
        read = reader(servers, topic, failOnDataLoss=strict)
        partitions = read.partitions()
        if strict == "true":
            broker.call(DeleteSegments(*name_parts(topic), 0, 1))
            with pytest.raises(DataLoss, match="wanted 0 to 5999"):
                payloads(read, partitions)
    planned = Split(PartitionKey(topic, 0), 0, 6000, 0)
    lenient = reader(servers, topic, failOnDataLoss="false")
    kept = broker.extents([topic])[PartitionKey(topic, 0)].earliest
    partitions[0].value = planned
    assert payloads(lenient, partitions[:1]) == numbered(0, 6000 - kept, kept)


@pytest.mark.parametrize(
    ("end_of", "at_first", "filled_again"),
    [
        (PurgeTopic, "was purged", "purged and written again"),
        (DeleteTopic, "no longer exists", "deleted and created again"),
    ],
)
def test_a_topic_that_ended_is_noticed_also_after_it_was_filled_again(
    servers: str, broker: Broker, topic: str, end_of: Any, at_first: str, filled_again: str
) -> None:
    read, end = read_to_the_end(servers, broker, topic)
    broker.call(end_of(*name_parts(topic)))
    with pytest.raises(DataLoss, match=at_first):
        read.latestOffset(end, ReadAllAvailable())
    broker.ensure_topic(topic, 3)
    fill(broker, topic, 0, numbered(0, 80))
    with pytest.raises(DataLoss, match=filled_again):
        read.latestOffset(end, ReadAllAvailable())
    lenient = stream(servers, topic, failOnDataLoss="false")
    later = lenient.latestOffset(end, ReadAllAvailable())
    assert payloads(lenient, lenient.partitions(end, later)) == numbered(0, 80)


def test_processed_offsets_are_stored_for_others_to_see(
    servers: str, broker: Broker, topic: str
) -> None:
    read, end = read_to_the_end(servers, broker, topic, consumerName="spark-test")
    read.commit(end)
    assert broker.stored_offset("spark-test", PartitionKey(topic, 0)) == 49
    assert broker.stored_offset("spark-test", PartitionKey(topic, 1)) is None
    read.stop()


def test_a_topic_that_is_not_there_is_named(servers: str) -> None:
    with pytest.raises(InvalidOption, match="no topic 'absent/topic'"):
        reader(servers, "absent/topic").partitions()


def test_columns_and_types_that_do_not_fit_are_refused(servers: str, topic: str) -> None:
    source = PlainBorzoiDataSource({"servers": servers, "subscribe": topic})
    schema = source.schema()
    assert isinstance(schema, StructType)
    assert type(source.reader(schema)) is not FilteringReader
    assert type(BorzoiDataSource(source.options).reader(schema)) is FilteringReader
    with pytest.raises(InvalidOption, match="no column 'surprise'"):
        source.reader(schema.add("surprise", "integer"))


# ---- with Spark ---------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_reads_a_topic_as_a_table(
    spark: SparkSession, reading: dict[str, str], servers: str, broker: Broker, topic: str
) -> None:
    for partition in range(3):
        fill(broker, topic, partition, numbered(partition, 2000))
    frame = spark.read.format("borzoi").options(**reading).load()
    assert frame.count() == 6000
    some = frame.filter("partition = 2 and offset between 1990 and 1994")
    rows = some.orderBy("offset").select("offset", "payload").collect()
    assert [bytes(row.payload) for row in rows] == numbered(2, 5, 1990)
    plain = {"servers": servers, "subscribe": topic}
    narrow = spark.read.format("borzoi").options(**plain)
    small = narrow.schema("offset long, timestamp timestamp").load()
    assert small.agg({"offset": "max"}).collect()[0][0] == 1999
    plain |= {"payloadFormat": "string", "headers": "map"}
    text = spark.read.format("borzoi").options(**plain).load()
    assert text.schema["headers"].dataType.simpleString() == "map<string,string>"
    assert text.filter("payload like '1:7:%'").count() == 1


@pytest.mark.spark
def test_spark_reads_json_payloads_as_columns_in_batches_and_streams(
    spark: SparkSession, servers: str, broker: Broker, topic: str, tmp_path: Path
) -> None:
    orders = [b'{"id": %d, "offset": %d, "tags": ["a"]}' % (n, n * 2) for n in range(500)]
    fill(broker, topic, 0, [*orders[:250], b"junk", *orders[250:]])
    options = {
        "servers": servers,
        "subscribe": topic,
        "payloadFormat": "json",
        "payloadSchema": "id long, offset int comment 'of, the shop', tags array<string>",
    }
    frame = spark.read.format("borzoi").options(**options).load()
    assert frame.columns == [
        *("partition", "timestamp", "origin_timestamp", "headers"),
        *("id", "offset", "tags", "_corrupt"),
    ]
    assert frame.schema["offset"].dataType.simpleString() == "int"
    assert [row.offset for row in frame.filter("id >= 248 and id < 252").collect()] == [
        *(496, 498, 500, 502)
    ]
    assert [row.id for row in frame.filter("offset >= 990").collect()] == [495, 496, 497, 498, 499]
    assert frame.filter("_corrupt is not null").select("_corrupt", "id").collect() == [
        ("junk", None)
    ]
    query = (
        spark.readStream.format("borzoi")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "rows"))
    assert rows.selectExpr("count(*)", "count(_corrupt)", "sum(id)").collect() == [
        (501, 1, sum(range(500)))
    ]


@pytest.mark.spark
def test_a_view_in_sql_keeps_its_options(
    spark: SparkSession, servers: str, broker: Broker, topic: str
) -> None:
    fill(broker, topic, 0, numbered(0, 25))
    spark.sql(
        "create or replace temporary view events using borzoi "
        f"options (servers '{servers}', subscribe '{topic}')"
    )
    assert spark.sql("select count(*) from events").collect()[0][0] == 25
