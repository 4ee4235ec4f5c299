"""Copies on the bulk plane: what is stored is sent as it is, each message once."""

import pickle
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.spark.conftest import fill
from tests.spark.test_sink import attempt, everything, stored
from tests.support.server import RunningServer

from borzoi.model.partitioning import Partitioning
from borzoi.records.arrow import encode, requests
from borzoi.records.user_headers import encode_user_headers, user_headers
from borzoi.spark.broker import Broker, close_brokers_of_worker
from borzoi.spark.copying import Copier
from borzoi.spark.jobs import splits_of
from borzoi.spark.options import (
    SINK_ROWS,
    ConnectionOptions,
    InvalidOption,
    SinkOptions,
    bulk_options,
    sink_options,
    source_options,
)
from borzoi.spark.rows import RANGE_SCHEMA
from borzoi.spark.sink import check_schema, way_of_ids
from borzoi.spark.source import BorzoiDataSource, limits_of, range_row
from borzoi.spark.targets import Attempt, Written

SIZES = 1500


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_brokers_of_worker()


def payloads(partition: int, count: int) -> list[bytes]:
    """Of different sizes."""
    return [b"%d:%d:" % (partition, n) + b"x" * (n % SIZES) for n in range(count)]


def ranges(servers: str, topic: str, **more: str) -> list[pa.RecordBatch]:
    options = {"servers": servers, "subscribe": topic, "keepOrder": "true", "plane": "bulk"}
    return [range_row(split) for split in splits_of(source_options(options | more))]


def copy(
    broker: Broker,
    servers: str,
    target: str,
    tried: Attempt | None,
    *rows: pa.RecordBatch,
    way: str = "lineage",
    rate: int | None = None,
) -> Written:
    options = SinkOptions(
        ConnectionOptions(servers), topic=target, orphan_grace=1000, messages_per_second=rate
    )
    source = source_options({"servers": servers, "subscribe": "any/topic"})
    copier = Copier(broker, options, way, tried, source)
    for row in rows:
        copier.write(row)
    return copier.result()


@pytest.mark.parametrize("segments", ["direct", "server"])
def test_messages_travel_whole_and_in_order(
    server: RunningServer, servers: str, broker: Broker, topic: str, segments: str
) -> None:
    target = f"{topic}-copy"
    broker.ensure_topic(target, 3)
    for partition in range(3):
        fill(broker, topic, partition, payloads(partition, 3000))
    rows = ranges(servers, topic, segments=segments, dataDirectory=str(server.directory))
    assert len(rows) == 3
    is_direct = [bool(pickle.loads(row.column("split")[0].as_py()).pieces) for row in rows]
    assert all(is_direct) == (segments == "direct")
    done = copy(broker, servers, target, attempt(0), *rows)
    assert (done.rows, done.skipped) == (9000, 0)
    for partition in range(3):
        found = stored(broker, target, partition)
        assert [each.payload for each in found] == payloads(partition, 3000)
        assert len({each.id for each in found}) == 3000


def test_headers_and_times_of_origin_are_kept_and_ids_when_asked(
    servers: str, broker: Broker, topic: str
) -> None:
    headers = encode_user_headers(user_headers({"k": "v"}))
    encoded = encode(pa.array([b"a", b"bc"]), headers=pa.array([headers, None], pa.binary()))
    (request,) = requests(encoded, bytes_max=1 << 20, count_max=10)
    broker.send(topic, Partitioning.partition(0), request)
    before = stored(broker, topic, 0)
    for way in ("column", "none"):
        target = f"{topic}-{way}"
        broker.ensure_topic(target, 1)
        copy(broker, servers, target, attempt(0), *ranges(servers, topic), way=way)
        after = stored(broker, target, 0)
        assert [each.headers for each in after] == [each.headers for each in before]
        assert [m.origin_timestamp for m in after] == [m.origin_timestamp for m in before]
        same = [m.id for m in after] == [m.id for m in before]
        assert same == (way == "column")


def test_a_second_attempt_sends_only_what_is_missing(
    servers: str, broker: Broker, topic: str
) -> None:
    """The first attempt died after some messages of each partition; the second finds them."""
    target = f"{topic}-copy"
    broker.ensure_topic(target, 2)
    for partition in range(3):
        fill(broker, topic, partition, payloads(partition, 500))
    some = ranges(servers, topic, endingOffsets='{"0": 200, "1": 500, "2": 0}')
    copy(broker, servers, target, attempt(0), *some)
    again = copy(broker, servers, target, attempt(0, number=1), *ranges(servers, topic))
    assert (again.rows, again.skipped) == (800, 700)
    expected = sorted(each for partition in range(3) for each in payloads(partition, 500))
    assert sorted(everything(broker, target)) == expected
    of_first = [m.payload for m in stored(broker, target, 0) if m.payload.startswith(b"0:")]
    assert of_first == payloads(0, 500)


def test_options_of_both_ends_are_checked(servers: str) -> None:
    given = {"servers": servers, "subscribe": "a/b", "topic": "a/c", "keepOrder": "true"}
    mine, source = bulk_options(SINK_ROWS, given)
    assert sink_options(mine).topic == "a/c"
    assert (source.subscribe, source.plane) == (("a/b",), "bulk")
    assert limits_of(source).bytes_max is None
    with pytest.raises(InvalidOption, match="did you mean subscribe"):
        bulk_options(SINK_ROWS, {"subscribed": "a/b"})
    with pytest.raises(InvalidOption, match="keepOrder and minPartitions exclude"):
        source_options({"subscribe": "a/b", "keepOrder": "true", "minPartitions": "2"})
    for refused in ({}, {"topic": "a/c", "idempotence": "position"}):
        with pytest.raises(InvalidOption, match="the bulk plane needs the option topic"):
            check_schema(RANGE_SCHEMA, sink_options(refused))
    assert way_of_ids(RANGE_SCHEMA, sink_options({"topic": "a/c"})) == "lineage"
    source_of = BorzoiDataSource(given)
    assert source_of.streamWriter(RANGE_SCHEMA, overwrite=False) is not None


def test_a_rate_makes_requests_small_and_keeps_them_apart(
    servers: str, broker: Broker, topic: str
) -> None:
    target = f"{topic}-slow"
    broker.ensure_topic(target, 1)
    fill(broker, topic, 0, payloads(0, 250))
    (row,) = ranges(servers, topic)
    copy(broker, servers, target, None, row, way="none", rate=1000)
    found = stored(broker, target, 0)
    assert [message.payload for message in found] == payloads(0, 250)
    appended = Counter(message.timestamp for message in found)
    assert list(appended.values()) == [100, 100, 50], "a tenth of a second in each request"
    # The server stamps a request when it arrives: the first one may have been slow to get there.
    assert max(appended) - min(appended) > 100_000
