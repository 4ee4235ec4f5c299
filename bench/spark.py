"""What Spark costs: scans, archives, copies, micro-batches, on two cores.

Ratios compare with Spark reading the same rows from uncompressed Parquet in the same run. CPU
seconds are those of the JVM and its Python workers together; they move less than the clock does.
The cost of an archive is that of the bytes beyond a small one: a query starts half a dozen Python
processes, which is 2 to 3 CPU seconds however much it reads. `BORZOI_BENCH_MIB` is the size of the
log of each message size (1024 unless given).
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.server import running_server

from borzoi.model.partitioning import Partitioning
from borzoi.records.arrow import encode, record_batch, requests
from borzoi.records.batch import index_entries, receive, stamp
from borzoi.records.columnar import run_of
from borzoi.records.fresh_ids import FreshIds
from borzoi.spark.broker import Broker
from borzoi.spark.options import ConnectionOptions
from borzoi.spark.session import session

MIB = 1 << 20
GIB = 1 << 30
LOG_MIB = int(os.environ.get("BORZOI_BENCH_MIB", "1024"))
#: Of the small archive.
SMALL_MIB = 16
PARTITIONS = 4
ROUNDS = 3
COLUMNS = ("offset", "timestamp", "payload")
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int) -> float:
    """CPU time of a process and all its descendants, those that ended included."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(int(fields[at]) for at in (11, 12, 13, 14))
    total = 0
    for process in used:
        at = process
        while at not in (0, root):
            at = parents.get(at, 0)
        total += used[process] if at == root else 0
    return total / TICKS


def write_partition(directory: Path, parquet: Path, size: int, total: int) -> int:
    """A segment of messages of one size, an open one behind it, and the same rows as Parquet."""
    directory.mkdir(parents=True)
    parquet.parent.mkdir(parents=True, exist_ok=True)
    new_ids = FreshIds(np.random.SFC64(size).random_raw)
    rows = max(1, 4 * MIB // (size + 64))
    payloads = pa.array([os.urandom(size // 2).hex().encode()[:size] for _ in range(rows)])
    offset = position = 0
    writer = None
    with (
        (directory / f"{0:020}.log").open("wb") as log,
        (directory / f"{0:020}.index").open("wb") as index,
    ):
        while position < total:
            encoded = encode(payloads)
            (request,) = requests(encoded, bytes_max=GIB, count_max=rows)
            view = memoryview(bytearray(request.messages))
            batch = receive(view, memoryview(request.indexes), rows)
            stamp(batch, base_offset=offset, timestamp=10**15 + offset, new_ids=new_ids)
            log.write(batch.messages)
            index.write(
                index_entries(
                    batch,
                    relative_offset=offset,
                    position=position,
                    timestamp=10**15 + offset,
                )
            )
            table = record_batch(run_of(batch.messages), COLUMNS)
            writer = writer or pq.ParquetWriter(
                parquet, table.schema, compression="none", use_dictionary=False
            )
            writer.write_batch(table)
            offset, position = offset + rows, position + batch.size
    assert writer is not None
    writer.close()
    (directory / f"{offset:020}.log").touch()
    (directory / f"{offset:020}.index").touch()
    return offset


@contextmanager
def data(size: int, mebibytes: int = LOG_MIB) -> Iterator[tuple[Path, Path, int]]:
    """A data directory, a directory of Parquet, and how many messages each has."""
    with tempfile.TemporaryDirectory(prefix="borzoi-bench-") as folder:
        root, rows = Path(folder), 0
        for partition in range(PARTITIONS):
            rows += write_partition(
                root / "data" / "streams/0/topics/0/partitions" / f"{partition}",
                root / "parquet" / f"{partition}.parquet",
                size,
                mebibytes * MIB // PARTITIONS,
            )
        yield root / "data", root / "parquet", rows


class Bench:
    """Runs work on one session, and says what it took."""

    def __init__(self) -> None:
        began = time.perf_counter()
        self.spark = session("bench", master="local[2,4]", settings={"spark.driver.memory": "2g"})
        self.spark.sparkContext.setLogLevel("OFF")
        self.spark.range(1).count()
        self.start_seconds = time.perf_counter() - began
        self.jvm: int = self.spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        self.failed: list[str] = []

    def best(self, work: Callable[[], Any], rounds: int = ROUNDS) -> tuple[float, float]:
        """Least wall and CPU seconds of some rounds, after one that warms up."""
        work()
        found = []
        for _ in range(rounds):
            cpu, wall = cpu_seconds(self.jvm), time.perf_counter()
            work()
            found.append((time.perf_counter() - wall, cpu_seconds(self.jvm) - cpu))
        return min(each[0] for each in found), min(each[1] for each in found)

    def check(self, name: str, value: float, goal: float, *, is_least: bool, unit: str) -> None:
        holds = value >= goal if is_least else value <= goal
        sign = ">=" if is_least else "<="
        print(f"  {'ok  ' if holds else 'MISS'} {name}: {value:.2f} {unit} (goal {sign} {goal})")
        if not holds:
            self.failed.append(name)


def scan(bench: Bench, folder: Path) -> Callable[[], None]:
    def work() -> None:
        frame = bench.spark.read.format("borzoi").options(
            subscribe="0/0",
            segments="direct-only",
            dataDirectory=str(folder),
            columns=",".join(COLUMNS),
        )
        frame.load().write.format("noop").mode("overwrite").save()

    return work


def archive(bench: Bench, folder: Path, plane: str, out: Path) -> Callable[[], None]:
    reading = {"subscribe": "0/0", "segments": "direct-only", "dataDirectory": str(folder)}

    def work() -> None:
        shutil.rmtree(out, ignore_errors=True)
        frame = bench.spark.readStream.format("borzoi").options(**reading, plane=plane).load()
        if plane == "bulk":
            writer = frame.writeStream.format("borzoi-lake").options(
                **reading, table="parquet", directory=str(out / "table")
            )
        else:
            writer = frame.writeStream.format("parquet").options(
                compression="zstd", path=str(out / "table")
            )
        writer = writer.option("checkpointLocation", str(out / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    return work


def measure_reading(bench: Bench, size: int, name: str, scan_goal: float, cpu_goal: float) -> None:
    with data(size) as (folder, parquet, rows):
        log_bytes = sum(path.stat().st_size for path in folder.rglob("*.log"))
        gib = log_bytes / GIB

        def read_parquet() -> None:
            frame = bench.spark.read.parquet(str(parquet))
            frame.write.format("noop").mode("overwrite").save()

        wall, cpu = bench.best(scan(bench, folder))
        parquet_wall, parquet_cpu = bench.best(read_parquet)
        print(
            f"  {name}: scan {log_bytes / wall / 1e6:.0f} MB/s, {rows / wall / 1e6:.2f} M rows/s, "
            f"{cpu / gib:.2f} CPU-s/GiB; Parquet {rows / parquet_wall / 1e6:.2f} M rows/s, "
            f"{parquet_cpu / gib:.2f} CPU-s/GiB"
        )
        bench.check(
            f"{name} scan against Parquet", parquet_wall / wall, scan_goal, is_least=True, unit="x"
        )
        out = folder.parent / "out"
        large = {plane: cost_of(bench, folder, plane, out) for plane in ("bulk", "row")}
    with data(size, SMALL_MIB) as (folder, _, _):
        gib -= sum(path.stat().st_size for path in folder.rglob("*.log")) / GIB
        out = folder.parent / "out"
        small = {plane: cost_of(bench, folder, plane, out) for plane in ("bulk", "row")}
    bulk, row = ((large[plane] - small[plane]) / gib for plane in ("bulk", "row"))
    print(
        f"  {name}: archive {bulk:.2f} CPU-s/GiB bulk, {row:.2f} row plane, "
        f"beside {small['bulk']:.1f} and {small['row']:.1f} CPU-s for a small query"
    )
    bench.check(f"{name} archive", bulk, cpu_goal, is_least=False, unit="CPU-s/GiB")
    bench.check(f"{name} bulk against row", bulk / row, 0.4, is_least=False, unit="x")


def cost_of(bench: Bench, folder: Path, plane: str, out: Path) -> float:
    return bench.best(archive(bench, folder, plane, out), 2)[1]


def measure_copying(bench: Bench) -> None:
    """Topic to topic through a server, and how long a micro-batch takes."""
    with running_server({"SYSTEM_SEGMENT_SIZE": "64 MiB"}) as server:
        host, port = server.tcp_address
        servers = f"{host}:{port}"
        broker = Broker(ConnectionOptions(servers))
        for name in ("s/in", "s/out"):
            broker.ensure_topic(name, 2)
        encoded = encode(pa.array([os.urandom(512).hex().encode()] * 1000))
        (request,) = requests(encoded, bytes_max=GIB, count_max=1000)
        copies = max(2, LOG_MIB * MIB // len(request.messages))
        for number in range(copies):
            broker.send("s/in", Partitioning.partition(number % 2), request)
        reading = {"servers": servers, "subscribe": "s/in", "dataDirectory": str(server.directory)}
        with tempfile.TemporaryDirectory(prefix="borzoi-bench-") as folder:
            frame = bench.spark.readStream.format("borzoi").options(**reading).load()
            writer = frame.select("partition", "offset", "payload").writeStream.format("borzoi")
            writer = writer.options(servers=servers, topic="s/out")
            writer = writer.option("checkpointLocation", f"{folder}/copy")
            began = time.perf_counter()
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            took = max(p["durationMs"]["addBatch"] for p in query.recentProgress) / 1000
            print(f"  whole query {time.perf_counter() - began:.1f} s, its batch {took:.1f} s")
            speed = copies * len(request.messages) / took / 1e6
            bench.check("copy at 1 KiB", speed, 250, is_least=True, unit="MB/s")
            measure_latency(bench, broker, request, reading, folder)
        broker.close()


def measure_latency(
    bench: Bench, broker: Broker, request: Any, reading: dict[str, str], folder: str
) -> None:
    frame = bench.spark.readStream.format("borzoi").options(**reading, startingOffsets="latest")
    writer = frame.load().writeStream.format("noop").option("checkpointLocation", f"{folder}/fast")
    query = writer.trigger(processingTime="0 seconds").start()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        broker.send("s/in", Partitioning.partition(0), request)
        time.sleep(0.05)
    query.stop()
    batches = [p for p in query.recentProgress if p["numInputRows"]][3:]
    p50 = statistics.median([p["durationMs"]["triggerExecution"] for p in batches])
    bench.check("micro-batch p50", p50, 250, is_least=False, unit="ms")


def main() -> int:
    bench = Bench()
    try:
        bench.check("first result", bench.start_seconds, 15, is_least=False, unit="s")
        measure_reading(bench, 1024, "1 KiB", 1.0, 2.5)
        measure_reading(bench, 100, "100 B", 0.9, 4.5)
        measure_copying(bench)
    finally:
        bench.spark.stop()
    return len(bench.failed)


if __name__ == "__main__":
    sys.exit(main())
