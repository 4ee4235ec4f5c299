"""Jobs that need no query, and those that do."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import fill
from tests.spark.test_sink import everything, stored
from tests.support.server import RunningServer

from borzoi.spark.broker import Broker
from borzoi.spark.jobs import (
    copying_pipeline,
    ingest,
    replay,
    replay_dead_letters,
    splits_of,
    stats,
    top_values,
    verify,
)
from borzoi.spark.options import ConnectionOptions, InvalidOption, source_options
from borzoi.spark.pacing import SendRate
from borzoi.spark.pipelines.running import OK, run_pipeline


def test_verify_reads_all_and_names_what_is_damaged(
    server: RunningServer, servers: str, broker: Broker, topic: str, tmp_path: Path
) -> None:
    fill(broker, topic, 0, [b"x" * 400] * 6000)
    options = {"servers": servers, "subscribe": topic}
    sound = verify(options, workers=1)
    assert sum(each.messages for each in sound) == 6000
    assert [each.fault for each in sound if each.fault] == []
    copy = tmp_path / "data"
    shutil.copytree(server.directory, copy)
    stream, details = broker.stream_id(topic), broker.topic(topic)
    assert details is not None
    folder = copy / "streams" / f"{stream}" / "topics" / f"{details.id}" / "partitions" / "0"
    log = min(folder.glob("*.log"))
    damaged = bytearray(log.read_bytes())
    damaged[464 * 3 + 100] ^= 1
    log.write_bytes(damaged)
    at_rest = {
        "subscribe": f"{stream}/{details.id}",
        "segments": "direct-only",
        "dataDirectory": str(copy),
        "maxBytesPerPartition": "512 KiB",
    }
    found = verify(at_rest, workers=2)
    faults = [each.fault for each in found if each.fault]
    assert len(found) > 2
    assert len(faults) == 1
    assert "the checksum of message 3 is wrong" in faults[0]
    assert len(splits_of(source_options(at_rest))) == len(found)


def test_stats_count_without_reading(reading: dict[str, str], broker: Broker, topic: str) -> None:
    fill(broker, topic, 1, [b'{"country": "AT"}'] * 2 + [b'{"country": "CH"}', b"junk", b"[]"])
    empty, full, _ = stats(reading)
    assert (empty.messages, empty.first_time) == (0, None)
    assert full.messages == 5
    assert full.bytes > 5 * 64
    assert full.first_time is not None
    assert full.last_time is not None
    assert full.first_time <= full.last_time
    assert top_values(reading, "country", 5) == [("AT", 2), ("CH", 1)]


def test_letters_without_a_source_need_a_target(servers: str, broker: Broker, topic: str) -> None:
    fill(broker, topic, 0, [b"a", b"b"])
    with pytest.raises(InvalidOption, match="does not say where it came from"):
        replay_dead_letters(ConnectionOptions(servers), topic)
    target = f"{topic}-again"
    broker.ensure_topic(target, 1)
    slept: list[float] = []
    rate = SendRate(10, clock=lambda: 0.0, sleep=slept.append)
    assert replay_dead_letters(ConnectionOptions(servers), topic, target, rate) == 2
    assert slept == [0.1], "one message in each request, the second a tenth of a second later"
    assert replay_dead_letters(ConnectionOptions(servers), topic, target) == 0
    assert everything(broker, target) == [b"a", b"b"]


@pytest.mark.spark
def test_copies_change_the_number_of_partitions_and_keep_the_order(
    spark: SparkSession, servers: str, broker: Broker, topic: str, tmp_path: Path
) -> None:
    for partition in range(3):
        fill(broker, topic, partition, [b"%d:%d" % (partition, n) for n in range(500)])
    target = f"{topic}-two"
    pipeline = copying_pipeline(
        "repartition",
        topic,
        server={"address": servers},
        source={},
        sink={"topic": target, "create_partitions": 2},
        checkpoint=tmp_path / "checkpoint",
    )
    assert run_pipeline(spark, pipeline)[0] == OK
    found = [[m.payload for m in stored(broker, target, p)] for p in range(2)]
    assert found[1] == [b"1:%d" % n for n in range(500)]
    for source in (0, 2):
        mine = [each for each in found[0] if each.startswith(b"%d:" % source)]
        assert mine == [b"%d:%d" % (source, n) for n in range(500)]


@pytest.mark.spark
def test_files_are_ingested_and_ranges_replayed(
    spark: SparkSession, servers: str, broker: Broker, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "rows.json").write_text("".join(f'{{"n": {n}}}\n' for n in range(20)))
    writer = {"servers": servers, "topic": topic}
    assert ingest(spark, "json", str(tmp_path / "rows.json"), key="n", options=writer) == 20
    assert sorted(everything(broker, topic)) == sorted(b'{"n":%d}' % n for n in range(20))
    target = f"{topic}-replayed"
    reader = {"servers": servers, "subscribe": topic, "startingTimestamp": "-1h"}
    again = {"servers": servers, "topic": target, "createPartitions": "1"}
    assert replay(spark, reader, again) == 20
    assert sorted(everything(broker, target)) == sorted(everything(broker, topic))
    slow = f"{topic}-slow"
    assert replay(spark, reader, again | {"topic": slow}, rate=100) == 20
    assert sorted(everything(broker, slow)) == sorted(everything(broker, topic))
    appended = Counter(message.timestamp for message in stored(broker, slow, 0))
    assert max(appended.values()) <= 10, "a tenth of a second in each request"
    assert max(appended) - min(appended) > 50_000
