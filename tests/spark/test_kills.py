"""Spark is killed at random moments; nothing is lost, doubled or out of order."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from tests.spark.conftest import fill
from tests.spark.test_sink import stored
from tests.support.server import RunningServer

from borzoi.spark.broker import Broker
from borzoi.spark.lake.iceberg import IcebergTable
from borzoi.spark.lake.parquet import ParquetTable

KILLS = int(os.environ.get("BORZOI_SPARK_KILLS", "2"))
SEED = int(os.environ.get("BORZOI_SPARK_SEED", "1"))
PARTITIONS = 3
#: In each partition.
MESSAGES = 8000
ROOT = Path(__file__).resolve().parents[2]
#: What an empty run of the program takes on a busy machine, with room to spare.
PATIENCE_SECONDS = 300


def expected(partition: int) -> list[bytes]:
    return [b"%d:%d:" % (partition, n) + b"x" * 200 for n in range(MESSAGES)]


def start(arguments: list[str], log: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.victim", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=log.open("a"),
        text=True,
        start_new_session=True,
    )


def kill_after(arguments: list[str], log: Path, seconds: float) -> bool:
    """Start the program and kill its JVM so long after the queries began; False when it ended."""
    process = start(arguments, log)
    assert process.stdout is not None
    try:
        word, _, number = process.stdout.readline().strip().partition(" ")
        assert word == "jvm", log.read_text()[-3000:]
        time.sleep(seconds)
        is_over = process.poll() is not None
        if not is_over:
            os.kill(int(number), signal.SIGKILL)
        return not is_over
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def run_to_end(arguments: list[str], log: Path) -> None:
    process = start(arguments, log)
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, log.read_text()[-3000:]
    assert out.endswith("finished\n")


def places(table: "object") -> list[tuple[int, int]]:
    columns = [table.column(name).to_pylist() for name in ("partition", "offset")]  # type: ignore[attr-defined]
    return sorted(zip(*columns, strict=True))


@pytest.mark.spark
@pytest.mark.slow
def test_kills_lose_and_double_nothing(
    server: RunningServer, servers: str, broker: Broker, topic: str, tmp_path: Path
) -> None:
    target = f"{topic}-copy"
    broker.ensure_topic(target, PARTITIONS)
    for partition in range(PARTITIONS):
        fill(broker, topic, partition, expected(partition))
    common = [servers, topic, target, str(tmp_path), str(server.directory)]
    moments = random.Random(SEED)
    log = tmp_path / "victim.log"
    killed = 0
    for _ in range(KILLS):
        killed += kill_after([*common, "1500"], log, moments.uniform(0.5, 12))
    run_to_end([*common, "100000"], log)
    print(f"{killed} kills before the end")

    for partition in range(PARTITIONS):
        payloads = [message.payload for message in stored(broker, target, partition)]
        assert payloads == expected(partition)
    everywhere = [(p, n) for p in range(PARTITIONS) for n in range(MESSAGES)]
    parquet, delta = ParquetTable(str(tmp_path / "parquet")), str(tmp_path / "delta")
    iceberg = IcebergTable(str(tmp_path / "iceberg"), "borzoi.messages")
    files = [tmp_path / "parquet" / path for path in sorted(parquet.live_files())]
    assert places(pq.ParquetDataset(files).read(["partition", "offset"])) == everywhere
    wanted = ["partition", "offset"]
    assert places(DeltaTable(delta).to_pyarrow_table(columns=wanted)) == everywhere
    scan = iceberg.table().scan(selected_fields=("partition", "offset"))
    assert places(scan.to_arrow()) == everywhere

    before = (len(parquet.manifests()), DeltaTable(delta).version())
    snapshots = len(iceberg.table().snapshots())
    run_to_end([*common, "100000"], log)
    assert (len(parquet.manifests()), DeltaTable(delta).version()) == before
    assert len(iceberg.table().snapshots()) == snapshots
