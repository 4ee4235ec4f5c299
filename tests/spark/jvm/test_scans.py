"""Scans inside the JVM, beside the same scans by the Python reader."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import fill
from tests.support.record_strategies import messages
from tests.support.segment_files import write_segment
from tests.support.server import RunningServer

from borzoi.model.topics import Compression
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.records.compression import compress_frames, cut
from borzoi.records.message import Message
from borzoi.spark.broker import Broker, name_parts
from borzoi.spark.options import COLUMNS
from borzoi.spark.segments import partition_directory

pytestmark = pytest.mark.spark

Change = Callable[[Path], object]


def plan_of(frame: DataFrame) -> str:
    """The plan, made now: `collect` of the same frame uses it."""
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return plan


def is_columnar(frame: DataFrame) -> bool:
    return "ColumnarToRow" in plan_of(frame)


def bytes_from_python(frame: DataFrame) -> int:
    """How much the workers returned, as the plan of a query that has run tells."""
    plan = frame._jdf.queryExecution().executedPlan()
    if plan.nodeName() == "AdaptiveSparkPlan":
        plan = plan.executedPlan()
    sent: int = leaf_of(plan).metrics().apply("pythonDataReceived").value()
    return sent


def leaf_of(plan: Any) -> Any:
    """The scan below all else; the stages of an adaptive plan hide it."""
    leaf = plan.collectLeaves().apply(0)
    return leaf_of(leaf.plan()) if "QueryStage" in leaf.nodeName() else leaf


class Topic:
    """A data directory at rest, and its scans on both ways."""

    def __init__(self, spark: SparkSession, data: Path) -> None:
        self.spark = spark
        self.data = data

    def segments(self, partition: int = 0) -> Path:
        return partition_directory(self.data, 0, 0, partition)

    def frame(self, jvm: str, **options: Any) -> DataFrame:
        given = {"segments": "direct-only", "dataDirectory": str(self.data), "subscribe": "0/0"}
        reader = self.spark.read.format("borzoi").options(**given | options, jvm=jvm)
        return reader.load()

    def rows(self, change: Callable[[DataFrame], DataFrame] | None = None, **options: Any) -> Any:
        """What the JVM reads, which is what Python reads."""
        frames = [self.frame(jvm, **options) for jvm in ("auto", "off")]
        assert [is_columnar(frame) for frame in frames] == [True, False]
        ours, theirs = frames if change is None else map(change, frames)
        found = ours.collect()
        assert found == theirs.collect()
        assert bytes_from_python(ours) == 0
        return found


@pytest.fixture
def stored(spark: SparkSession, tmp_path: Path) -> Topic:
    return Topic(spark, tmp_path / "data of größe 1")


def write_three(stored: Topic, size: int = 300, count: int = 2500) -> int:
    """Three segments of messages of many sizes; returns how many messages there are."""
    drawn = random.Random(7)
    end = 0
    for _ in range(3):
        batch = [
            Message(drawn.randbytes(drawn.randrange(size)), 0, bytes(0 if n % 3 else 1 + n % 50))
            for n in range(count)
        ]
        end = write_segment(stored.segments(), end, [batch])
    return end


class Drawn(NamedTuple):
    """A topic, and what is read of it."""

    partitions: list[list[list[list[Message]]]]
    columns: list[str]
    low: int
    high: int


@st.composite
def topics(draw: DrawFn) -> Drawn:
    """Partitions of segments of batches of messages, with columns and a range of offsets."""
    batches = st.lists(st.lists(messages(), min_size=1, max_size=6), min_size=1, max_size=3)
    segments = st.lists(batches, min_size=1, max_size=3)
    partitions = draw(st.lists(segments, min_size=1, max_size=2))
    columns = draw(st.permutations(COLUMNS))[: draw(st.integers(1, len(COLUMNS)))]
    low, high = sorted(draw(st.tuples(st.integers(0, 30), st.integers(0, 30))))
    return Drawn(partitions, columns, low, high + 1)


@pytest.mark.parametrize("examples", [6, pytest.param(150, marks=pytest.mark.slow)])
def test_any_topic_reads_as_python_reads_it(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, examples: int
) -> None:
    @settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples)
    @given(topics())
    def reads_alike(drawn: Drawn) -> None:
        compare(Topic(spark, tmp_path_factory.mktemp("any")), drawn)

    reads_alike()


def compare(stored: Topic, drawn: Drawn) -> None:
    """Write the partitions, and read the range on both ways."""
    ends = []
    for number, segments in enumerate(drawn.partitions):
        end = 0
        for segment in segments:
            end = write_segment(stored.segments(number), end, segment)
        ends.append(end)
    start = {f"{number}": min(drawn.low, end - 1) for number, end in enumerate(ends)}
    stop = {f"{n}": max(start[f"{n}"] + 1, min(drawn.high, end)) for n, end in enumerate(ends)}
    options = {
        "columns": ",".join(drawn.columns),
        "startingOffsets": json.dumps(start),
        "endingOffsets": json.dumps(stop),
    }
    # Python's datetime ends with the year 9999, clients' timestamps do not.
    values = [f"unix_micros({n})" if n.endswith("timestamp") else n for n in drawn.columns]
    rows = stored.rows(lambda frame: frame.selectExpr(*values), **options)
    assert len(rows) == sum(stop[key] - start[key] for key in start)


def test_messages_of_all_sizes_in_several_segments_and_tasks(stored: Topic) -> None:
    sizes = [0, 1, 12, 13, 100_000, 700_000, 5_000_000, 3]
    end = 0
    for part in (sizes, [7] * 9000, list(reversed(sizes))):
        end = write_segment(stored.segments(), end, [[Message(bytes([n % 7]) * n) for n in part]])
    for tasks in ("1", "5"):
        rows = stored.rows(minPartitions=tasks, columns="offset,id,headers,payload")
        assert [row.offset for row in rows] == list(range(end))
        assert [len(row.payload) for row in rows] == sizes + [7] * 9000 + list(reversed(sizes))


def test_filters_limits_and_columns_above_the_scan(stored: Topic) -> None:
    end = write_three(stored)
    some = stored.rows(lambda frame: frame.filter("offset >= 2400 and offset < 2600"))
    assert [row.offset for row in some] == list(range(2400, 2600))
    assert stored.rows(lambda frame: frame.filter("length(payload) = 5").select("offset"))
    assert len(stored.rows(lambda frame: frame.limit(10))) == 10
    (total,) = stored.rows(lambda frame: frame.selectExpr("count(*)", "sum(length(payload))"))
    assert total[0] == end
    headers = stored.rows(lambda frame: frame.selectExpr("count_if(length(headers) > 0) n"))
    assert headers[0].n == 3 * 834


def test_offsets_and_times_come_from_the_index_alone(stored: Topic) -> None:
    end = write_three(stored)
    frame = stored.frame("auto", columns="timestamp,partition,offset,topic")
    assert is_columnar(frame)
    for log in stored.segments().glob("*.log"):
        log.write_bytes(b"")
    rows = frame.collect()
    assert [row.offset for row in rows] == list(range(end))
    assert {(row.partition, row.topic) for row in rows} == {(0, "0")}


def test_a_schema_of_nullable_columns(stored: Topic) -> None:
    write_three(stored, count=50)
    reader = stored.spark.read.format("borzoi").schema("payload binary, origin_timestamp timestamp")
    options = {"segments": "direct-only", "dataDirectory": str(stored.data), "subscribe": "0/0"}
    found = reader.options(**options).load()
    assert is_columnar(found)
    assert found.collect() == reader.options(**options, jvm="off").load().collect()


def without_the_second(directory: Path) -> None:
    (directory / f"{2500:020}.log").unlink()


def without_the_index(directory: Path) -> None:
    (directory / f"{2500:020}.index").unlink()


def cut_short(directory: Path) -> None:
    log = directory / f"{2500:020}.log"
    log.write_bytes(log.read_bytes()[:-100])


def with_a_message_of_two_gigabytes(directory: Path) -> None:
    """In the last entry of an index, which a reader must not believe."""
    index = directory / f"{5000:020}.index"
    index.write_bytes(index.read_bytes()[:-12] + (2**31 - 1).to_bytes(4, "little") + bytes(8))


def with_a_wrong_offset(directory: Path) -> None:
    log = directory / f"{5000:020}.log"
    content = bytearray(log.read_bytes())
    content[24] ^= 1
    log.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_the_second, "segment 2500 is missing"),
        (without_the_index, "the index of segment 2500 is missing"),
        (cut_short, "do not end with their"),
        (with_a_message_of_two_gigabytes, "do not end with their"),
        (with_a_wrong_offset, "found offset 5001 in place of 5000"),
    ],
)
def test_what_changed_after_planning_fails_as_python_says(
    stored: Topic, change: Change, message: str
) -> None:
    write_three(stored)
    frames = [stored.frame(jvm) for jvm in ("auto", "off")]
    assert [is_columnar(frame) for frame in frames] == [True, False]
    change(stored.segments())
    for frame in frames:
        with pytest.raises(Exception, match=message):
            frame.collect()


def test_a_segment_that_is_compressed_after_planning_is_read_by_python(stored: Topic) -> None:
    end = write_three(stored)
    expected = stored.rows()
    frame = stored.frame("auto")
    assert is_columnar(frame)
    write_compressed(stored.segments() / f"{2500:020}.log")
    assert frame.collect() == expected
    assert len(expected) == end
    assert bytes_from_python(frame) > 0


def write_compressed(log: Path) -> None:
    frames = compress_frames(Compression.GZIP, cut(log.read_bytes(), 1024), 1024)
    log.with_suffix(".log.gz").write_bytes(b"".join(frames))
    log.unlink()


# ---- beside a server ----------------------------------------------------------------------------

PAYLOADS = [b"%d" % n + b"x" * 400 for n in range(6000)]


class Served:
    """A topic of the server, with sealed segments and an open one."""

    def __init__(self, spark: SparkSession, servers: str, topic: str, data: Path) -> None:
        self._spark = spark
        self._options = {"servers": servers, "subscribe": topic, "dataDirectory": str(data)}

    def frame(self, jvm: str, **options: str) -> DataFrame:
        """A frame whose plan is made."""
        given = self._options | options
        frame = self._spark.read.format("borzoi").options(**given, jvm=jvm).load()
        assert is_columnar(frame) == (jvm == "auto")
        return frame


@pytest.fixture
def served(
    spark: SparkSession, server: RunningServer, servers: str, broker: Broker, topic: str
) -> Served:
    fill(broker, topic, 1, PAYLOADS)
    return Served(spark, servers, topic, server.directory)


def test_the_open_segment_comes_from_the_server_in_the_same_scan(served: Served) -> None:
    rows = served.frame("auto").collect()
    assert [row.payload for row in rows] == PAYLOADS
    assert rows == served.frame("off").collect()


def test_a_directory_that_is_gone_when_its_tasks_run_is_read_through_the_server(
    served: Served, server: RunningServer, tmp_path: Path
) -> None:
    copy = tmp_path / "data"
    shutil.copytree(server.directory, copy)
    frame = served.frame("auto", dataDirectory=str(copy))
    shutil.rmtree(copy)
    assert [row.payload for row in frame.collect()] == PAYLOADS


def test_retention_between_planning_and_reading_is_named_or_passed_over(
    served: Served, broker: Broker, topic: str
) -> None:
    strict = [served.frame(jvm) for jvm in ("auto", "off")]
    lenient = [served.frame(jvm, failOnDataLoss="false") for jvm in ("auto", "off")]
    broker.call(DeleteSegments(*name_parts(topic), 1, 1))
    for frame in strict:
        with pytest.raises(Exception, match=r"\[1\] lost messages: wanted 0 to"):
            frame.collect()
    found, expected = (frame.collect() for frame in lenient)
    assert found == expected
    assert 0 < len(found) < len(PAYLOADS)
    assert found[-1].payload == PAYLOADS[-1]
