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
ATTEMPTS_MAX = 6


def expected(partition: int) -> list[bytes]:
    return [b"%d:%d:" % (partition, n) + b"x" * 200 for n in range(MESSAGES)]


def start(arguments: list[str], log: Path) -> "subprocess.Popen[str]":
    with log.open("a") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.victim", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
            start_new_session=True,
        )


def batches(folder: Path) -> int:
    """Batches that the queries have planned or committed so far."""
    return sum(
        1 for log in ("offsets", "commits") for _ in folder.glob(f"checkpoint-*/{log}/[0-9]*")
    )


def is_killed(arguments: list[str], log: Path, moments: random.Random) -> bool:
    """Start the program and kill its JVM; False when it ended before by itself.

    One kill in four comes while the queries start, the others so long after the first of them has
    planned or committed a batch.
    """
    process = start(arguments, log)
    assert process.stdout is not None
    try:
        word, _, number = process.stdout.readline().strip().partition(" ")
        if word != "jvm":
            return False
        before, until = batches(log.parent), time.monotonic() + PATIENCE_SECONDS
        is_early, delay = moments.random() < 0.25, moments.uniform(0, 4)
        while not is_early and batches(log.parent) == before and process.poll() is None:
            assert time.monotonic() < until, "the queries do not begin"
            time.sleep(0.02)
        time.sleep(delay)
        if process.poll() is not None:
            return False
        os.kill(int(number), signal.SIGKILL)
        return True
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def run_to_end(arguments: list[str], log: Path) -> None:
    """Until it ends well: Spark gives its Python workers ten seconds to start, which a busy machine
    may not keep, and such an end is a crash like the others."""
    for _ in range(ATTEMPTS_MAX):
        process = start(arguments, log)
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
        if process.returncode == 0:
            assert out.endswith("finished\n")
            return
    raise AssertionError(log.read_text()[-5000:])


def places(table: "object") -> list[tuple[int, int]]:
    columns = [table.column(name).to_pylist() for name in ("partition", "offset")]  # type: ignore[attr-defined]
    return sorted(zip(*columns, strict=True))


@pytest.mark.spark
@pytest.mark.slow
def test_kills_lose_and_double_nothing(
    server: RunningServer, servers: str, broker: Broker, topic: str, tmp_path: Path
) -> None:
    target = f"{topic}-copy"
    copies = (target, f"{target}-bulk")
    for name in copies:
        broker.ensure_topic(name, PARTITIONS)
    for partition in range(PARTITIONS):
        fill(broker, topic, partition, expected(partition))
    common = [servers, topic, target, str(tmp_path), str(server.directory)]
    moments = random.Random(SEED)
    log = tmp_path / "victim.log"
    killed = attempts = 0
    while killed < KILLS and attempts < 2 * KILLS + ATTEMPTS_MAX:
        attempts += 1
        killed += is_killed([*common, "500"], log, moments)
    between = batches(tmp_path)
    run_to_end([*common, "100000"], log)
    print(f"{killed} kills in {attempts} runs, {between} batches planned or committed by then")
    assert killed

    for name in copies:
        for partition in range(PARTITIONS):
            payloads = [message.payload for message in stored(broker, name, partition)]
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
