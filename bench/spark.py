"""What Spark costs: scans, archives, copies, micro-batches, on two cores.

Ratios compare with Spark reading the same rows from uncompressed Parquet in the same run. CPU
seconds are those of the JVM and its Python workers together; they move less than the clock does.
The cost of an archive is that of the bytes beyond a small one: a query starts half a dozen Python
processes, which is 2 to 3 CPU seconds however much it reads. `BORZOI_BENCH_MIB` is the size of the
log of each message size (1024 unless given), `BORZOI_SPARK_BENCH` the pieces to run, such as
``scan,copy``, out of scan, archive, copy and latency. `BORZOI_SPARK_DATA` is a directory that keeps
the logs and the Parquet files from one run to the next; `BORZOI_SPARK_BENCH=data` only makes them.
`BORZOI_SPARK_SIZES` are the message sizes, 1024 and 100 unless given.
"""

import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.server import running_server

from borzoi.model.partitioning import Partitioning
from borzoi.records.arrow import DEFAULT_COLUMNS, encode, record_batch, requests, schema_of
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
#: Of an archive: in the first two the JVM still compiles as much as the whole archive costs.
WARM_UP = 3
PIECES = ("scan", "archive", "copy", "latency")
WANTED = tuple(os.environ.get("BORZOI_SPARK_BENCH", ",".join(PIECES)).split(","))
SIZES = os.environ.get("BORZOI_SPARK_SIZES", "1024,100").split(",")
KEPT = os.environ.get("BORZOI_SPARK_DATA")
#: Of the scan. The other Parquet files have all columns.
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


def own_cpu_seconds(process: int) -> float:
    """CPU time of a process without its children."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Cost(NamedTuple):
    """What some work took: seconds, those of the JVM's processors, those of the Python workers'."""

    wall: float
    jvm: float
    python: float

    @property
    def cpu(self) -> float:
        return self.jvm + self.python

    def beyond(self, other: Self) -> Self:
        return type(self)(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))

    def per(self, gib: float) -> str:
        return f"{self.jvm / gib:.2f} + {self.python / gib:.2f} CPU-s/GiB"


def least(costs: Sequence[Cost]) -> Cost:
    """The least of each part."""
    return Cost(*(min(part) for part in zip(*costs, strict=True)))


class Data(NamedTuple):
    """Messages of one size: a data directory, the same rows as Parquet, and how many there are."""

    directory: Path
    #: COLUMNS, and all columns.
    parquet: Path
    full_parquet: Path
    rows: int

    @property
    def gib(self) -> float:
        return sum(path.stat().st_size for path in self.directory.rglob("*.log")) / GIB


def write_partition(root: Path, partition: int, size: int, total: int) -> int:
    """A segment of messages of one size, an open one behind it, and the same rows as Parquet."""
    directory = root / "data" / "streams/0/topics/0/partitions" / f"{partition}"
    directory.mkdir(parents=True)
    new_ids = FreshIds(random.Random(size).randbytes)
    rows = max(1, 4 * MIB // (size + 64))
    payloads = pa.array([os.urandom(size // 2).hex().encode()[:size] for _ in range(rows)])
    offset = position = 0
    with (
        (directory / f"{0:020}.log").open("wb") as log,
        (directory / f"{0:020}.index").open("wb") as index,
        parquet_writer(root / "parquet" / f"{partition}.parquet", COLUMNS) as three,
        parquet_writer(root / "full" / f"{partition}.parquet", DEFAULT_COLUMNS) as full,
    ):
        while position < total:
            encoded = encode(payloads)
            (request,) = requests(encoded, bytes_max=GIB, count_max=rows)
            view = memoryview(bytearray(request.messages))
            batch = receive(view, memoryview(request.indexes), rows)
            timestamp = 10**15 + offset
            stamp(batch, base_offset=offset, timestamp=timestamp, new_ids=new_ids)
            log.write(batch.messages)
            place = {"relative_offset": offset, "position": position, "timestamp": timestamp}
            index.write(index_entries(batch, **place))
            table = record_batch(run_of(batch.messages), constants={"partition": partition})
            three.write_batch(table.select(COLUMNS))
            full.write_batch(table)
            offset, position = offset + rows, position + batch.size
    (directory / f"{offset:020}.log").touch()
    (directory / f"{offset:020}.index").touch()
    return offset


def parquet_writer(path: Path, columns: Sequence[str]) -> pq.ParquetWriter:
    path.parent.mkdir(parents=True, exist_ok=True)
    return pq.ParquetWriter(path, schema_of(columns), compression="none", use_dictionary=False)


@contextmanager
def data(size: int, mebibytes: int = LOG_MIB) -> Iterator[Data]:
    """Messages of one size; kept for the next run if there is a directory for it."""
    with ExitStack() as stack:
        if KEPT is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="borzoi-bench-"))
            root = Path(folder)
        else:
            root = Path(KEPT) / f"{size}-{mebibytes}"
        counted = root / "rows"
        if not counted.exists():
            shutil.rmtree(root, ignore_errors=True)
            each = mebibytes * MIB // PARTITIONS
            rows = sum(write_partition(root, number, size, each) for number in range(PARTITIONS))
            counted.write_text(f"{rows}")
        yield Data(root / "data", root / "parquet", root / "full", int(counted.read_text()))


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

    def measured(self, work: Callable[[], Any]) -> Cost:
        """What the work takes: JVM and Python workers apart."""
        cpu, own = cpu_seconds(self.jvm), own_cpu_seconds(self.jvm)
        began = time.perf_counter()
        work()
        wall = time.perf_counter() - began
        jvm = own_cpu_seconds(self.jvm) - own
        return Cost(wall, jvm, cpu_seconds(self.jvm) - cpu - jvm)

    def best(self, work: Callable[[], Any], rounds: int = ROUNDS, warm_up: int = 1) -> Cost:
        """The least of each cost in some rounds, after those that warm up."""
        for _ in range(warm_up):
            work()
        found = [self.measured(work) for _ in range(rounds)]
        return least(found)

    def check(self, name: str, value: float, goal: float, *, is_least: bool, unit: str) -> None:
        holds = value >= goal if is_least else value <= goal
        sign = ">=" if is_least else "<="
        print(f"  {'ok  ' if holds else 'MISS'} {name}: {value:.2f} {unit} (goal {sign} {goal})")
        if not holds:
            self.failed.append(name)


def scan(
    bench: Bench, folder: Path, columns: Sequence[str], jvm: str = "auto"
) -> Callable[[], None]:
    def work() -> None:
        frame = bench.spark.read.format("borzoi").options(
            subscribe="0/0",
            segments="direct-only",
            dataDirectory=str(folder),
            columns=",".join(columns),
            jvm=jvm,
        )
        frame.load().write.format("noop").mode("overwrite").save()

    return work


def scan_parquet(bench: Bench, folder: Path) -> Callable[[], None]:
    def work() -> None:
        frame = bench.spark.read.parquet(str(folder))
        frame.write.format("noop").mode("overwrite").save()

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
    with data(size) as made:
        if "scan" in WANTED:
            measure_scan(bench, name, made, scan_goal)
        if "archive" in WANTED:
            measure_archive(bench, name, size, made, cpu_goal)


def measure_archive(bench: Bench, name: str, size: int, made: Data, goal: float) -> None:
    """All of a topic as compressed Parquet, on both planes; a small topic tells the fixed cost."""
    with data(size, SMALL_MIB) as little, tempfile.TemporaryDirectory() as out:
        gib = made.gib - little.gib
        works = {
            plane: [archive(bench, each.directory, plane, Path(out)) for each in (made, little)]
            for plane in ("bulk", "row")
        }
        for work in works["bulk"] * WARM_UP + works["row"]:
            work()
        rounds = [
            {plane: [bench.measured(work) for work in works[plane]] for plane in works}
            for _ in range(2)
        ]
    large, small = (
        {plane: least([each[plane][at] for each in rounds]) for plane in works} for at in (0, 1)
    )
    beyond = {plane: large[plane].beyond(small[plane]) for plane in large}
    for plane, cost in beyond.items():
        print(
            f"  {name}: archive on the {plane} plane {large[plane].wall:.1f} s, {cost.per(gib)} "
            f"(JVM + Python) beside {small[plane].cpu:.1f} CPU-s for a small query"
        )
    bulk, row = (beyond[plane].cpu / gib for plane in ("bulk", "row"))
    bench.check(f"{name} archive", bulk, goal, is_least=False, unit="CPU-s/GiB")
    bench.check(f"{name} bulk against row", bulk / row, 0.4, is_least=False, unit="x")


def measure_scan(bench: Bench, name: str, made: Data, goal: float) -> None:
    """Three columns of a topic and of Parquet, then all of them, in turns; and three by Python."""
    works = (
        scan(bench, made.directory, COLUMNS),
        scan_parquet(bench, made.parquet),
        scan(bench, made.directory, DEFAULT_COLUMNS),
        scan_parquet(bench, made.full_parquet),
        scan(bench, made.directory, COLUMNS, jvm="off"),
    )
    found = [[bench.best(work, 2, warm) for work in works] for warm in (2, 0, 0)]
    costs = [least(each) for each in zip(*found, strict=True)]
    three, parquet, seven, full_parquet, by_python = costs
    for kind, own, beside in (
        ("3 columns", three, parquet),
        ("7 columns", seven, full_parquet),
        ("3 columns by Python", by_python, parquet),
    ):
        print(
            f"  {name}, {kind}: scan {made.gib * GIB / own.wall / 1e6:.0f} MB/s, "
            f"{own.wall:.2f} s, {made.rows / own.wall / 1e6:.2f} M rows/s, {own.per(made.gib)} "
            f"(JVM + Python); Parquet {beside.wall:.2f} s, {beside.per(made.gib)}: "
            f"{beside.wall / own.wall:.2f} x"
        )
    ratio = parquet.wall / three.wall
    bench.check(f"{name} scan against Parquet", ratio, goal, is_least=True, unit="x")


def measure_copying(bench: Bench) -> None:
    """Topic to topic through a server on both planes, and how long a micro-batch takes."""
    with running_server({"SYSTEM_SEGMENT_SIZE": "64 MiB"}) as server:
        host, port = server.tcp_address
        servers = f"{host}:{port}"
        broker = Broker(ConnectionOptions(servers))
        broker.ensure_topic("s/in", 2)
        encoded = encode(pa.array([os.urandom(512).hex().encode()] * 1000))
        (request,) = requests(encoded, bytes_max=GIB, count_max=1000)
        copies = max(2, LOG_MIB * MIB // len(request.messages))
        for number in range(copies):
            broker.send("s/in", Partitioning.partition(number % 2), request)
        reading = {"servers": servers, "subscribe": "s/in", "dataDirectory": str(server.directory)}
        size = copies * len(request.messages)
        with tempfile.TemporaryDirectory(prefix="borzoi-bench-") as folder:
            for plane in ("row", "bulk") if "copy" in WANTED else ():
                broker.ensure_topic(f"s/{plane}", 2)
                copy(bench, plane, reading, size, folder, server.process.pid)
            if "latency" in WANTED:
                measure_latency(bench, broker, request, reading, folder)
        broker.close()


def copy(
    bench: Bench, plane: str, reading: dict[str, str], size: int, folder: str, server: int
) -> None:
    """One copy of the whole topic, in one batch; the goal is that of the bulk plane."""
    more = {"plane": "bulk", "keepOrder": "true"} if plane == "bulk" else {}
    frame = bench.spark.readStream.format("borzoi").options(**reading | more).load()
    if plane == "row":
        frame = frame.select("partition", "offset", "payload")
    options = (reading | more if plane == "bulk" else {}) | {"servers": reading["servers"]}
    writer = frame.writeStream.format("borzoi").options(**options, topic=f"s/{plane}")
    writer = writer.option("checkpointLocation", f"{folder}/{plane}").trigger(availableNow=True)
    queries: list[Any] = []

    def work() -> None:
        queries.append(writer.start())
        queries[0].awaitTermination()

    before = own_cpu_seconds(server)
    cost = bench.measured(work)
    served = own_cpu_seconds(server) - before
    took = max(p["durationMs"]["addBatch"] for p in queries[0].recentProgress) / 1000
    gib = size / GIB
    print(
        f"  copy, {plane} plane: whole query {cost.wall:.1f} s, its batch {took:.1f} s, "
        f"{cost.per(gib)} (JVM + Python), server {served / gib:.2f} CPU-s/GiB"
    )
    if plane == "bulk":
        bench.check("copy at 1 KiB", size / took / 1e6, 250, is_least=True, unit="MB/s")
    else:
        print(f"       copy at 1 KiB, row plane: {size / took / 1e6:.0f} MB/s")


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
    if WANTED == ("data",):
        for size in SIZES:
            for mebibytes in (LOG_MIB, SMALL_MIB):
                with data(int(size), mebibytes) as made:
                    print(f"  {made.rows} messages of {size} bytes in {made.directory}")
        return 0
    bench = Bench()
    try:
        bench.check("first result", bench.start_seconds, 15, is_least=False, unit="s")
        if {"scan", "archive"} & set(WANTED):
            if "1024" in SIZES:
                measure_reading(bench, 1024, "1 KiB", 1.0, 2.5)
            if "100" in SIZES:
                measure_reading(bench, 100, "100 B", 0.9, 4.5)
        if {"copy", "latency"} & set(WANTED):
            measure_copying(bench)
    finally:
        bench.spark.stop()
    return len(bench.failed)


if __name__ == "__main__":
    sys.exit(main())
