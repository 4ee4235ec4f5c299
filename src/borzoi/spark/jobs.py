"""Jobs: pipelines in one line, and the few that need no query at all.

`archive`, `copy`, `repartition` and `replay` are pipelines that read the present messages and end.
Each has its own checkpoint, so an interrupted job continues where it stopped and never touches the
position of another query. `verify` and `stats` read segments or poll; they need no SQL and no JVM,
so they run in their own processes.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from borzoi.model.errors import InvalidBatch, StorageFailure
from borzoi.model.partitioning import Partitioning
from borzoi.records.arrow import encode, requests
from borzoi.records.message import decode_messages
from borzoi.records.user_headers import HeaderValue
from borzoi.spark.broker import Broker
from borzoi.spark.locating import Locator
from borzoi.spark.offsets import DataLoss, PartitionKey
from borzoi.spark.options import ConnectionOptions, InvalidOption, SourceOptions, source_options
from borzoi.spark.pacing import SendRate
from borzoi.spark.pipelines.model import Pipeline
from borzoi.spark.pipelines.reading import pipeline_of
from borzoi.spark.plan import Split
from borzoi.spark.reading import read_runs_of
from borzoi.spark.source import batch_ranges, limits_of


def copying_pipeline(
    name: str,
    topic: str,
    *,
    server: Mapping[str, Any],
    source: Mapping[str, Any],
    sink: Mapping[str, Any],
    checkpoint: Path,
) -> Pipeline:
    """A pipeline from one topic to one sink that ends when everything is read."""
    document = {
        "pipeline": {"name": name, "checkpoint": str(checkpoint), "trigger": "available-now"},
        "server": server,
        "source": {"messages": {"subscribe": topic, "start": "earliest"} | dict(source)},
        "sink": {"copy": {"from": "messages"} | dict(sink)},
    }
    return pipeline_of(document, Path.cwd())


# ---- verify -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verified:
    """The result for one split."""

    key: PartitionKey
    messages: int
    bytes: int
    fault: str | None = None


def splits_of(options: SourceOptions) -> list[Split]:
    """Everything that a batch read with these options covers."""
    with closing(Locator(options)) as locator:
        spans = [span for span in batch_ranges(locator, options) if span.start < span.end]
        return locator.plan(spans, limits_of(options))


def verify(options: Mapping[str, str], workers: int | None = None) -> list[Verified]:
    """Read everything: checksums, continuity of offsets, index against log."""
    parsed = source_options(dict(options) | {"verify": "checksum"})
    splits = splits_of(parsed)
    if len(splits) <= 1 or workers == 1:
        return [_verify_split((split, parsed)) for split in splits]
    count = min(len(splits), workers or os.cpu_count() or 1)
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:
        return list(pool.map(_verify_split, [(split, parsed) for split in splits]))


def _verify_split(work: tuple[Split, SourceOptions]) -> Verified:
    split, options = work
    messages = size = 0
    try:
        for run in read_runs_of(split, options):
            messages += run.count
            size += len(run.buffer)
    except (StorageFailure, InvalidBatch, DataLoss) as error:
        place = f"{split.key.topic}[{split.key.partition}] from {split.start + messages}"
        return Verified(split.key, messages, size, f"{place}: {error}")
    return Verified(split.key, messages, size)


# ---- stats --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """What a partition holds."""

    key: PartitionKey
    earliest: int
    latest: int
    bytes: int
    first_time: int | None
    last_time: int | None

    @property
    def messages(self) -> int:
        return self.latest - self.earliest


def stats(options: Mapping[str, str]) -> list[PartitionStats]:
    """Counts, sizes and times, from indexes and single messages without a scan."""
    parsed = source_options(options)
    found = []
    with closing(Locator(parsed)) as locator:
        for key, extent in sorted(locator.extents().items()):
            is_empty = extent.earliest >= extent.latest
            times: tuple[int | None, int | None] = (None, None)
            if not is_empty:
                first = locator.timestamp_at(key, extent.earliest)
                times = (first, locator.timestamp_at(key, extent.latest - 1))
            size = locator.size(key, extent.earliest, extent.latest)
            found.append(PartitionStats(key, extent.earliest, extent.latest, size, *times))
    return found


def top_values(options: Mapping[str, str], field: str, count: int) -> list[tuple[str, int]]:
    """The most frequent values of a field of JSON payloads; this one reads every message."""
    parsed = source_options(options)
    seen: Counter[str] = Counter()
    for split in splits_of(parsed):
        for run in read_runs_of(split, parsed):
            for message in decode_messages(run.buffer):
                try:
                    value = json.loads(message.payload)[field]
                except (ValueError, KeyError, TypeError):
                    continue
                seen[str(value)] += 1
    return seen.most_common(count)


# ---- dead letters -------------------------------------------------------------------------------


def replay_dead_letters(
    connection: ConnectionOptions,
    letters: str,
    target: str | None = None,
    rate: SendRate | None = None,
) -> int:
    """Send the payloads of a dead-letter topic to the topics they came from, or to `target`.

    Progress is stored as the offset of a consumer after each answer of the server: a crash in
    between resends the messages of one poll.
    """
    consumer = f"replay-{target or 'source'}"
    broker = Broker(connection)
    sent = 0
    try:
        for key, extent in sorted(broker.extents([letters]).items()):
            stored = broker.stored_offset(consumer, key)
            start = max(extent.earliest, 0 if stored is None else stored + 1)
            while start < extent.latest:
                run = broker.run(key, start, 1000)
                messages = decode_messages(run.buffer)
                for name, payloads in _by_source(messages, target).items():
                    _send_all(broker, name, payloads, rate)
                    sent += len(payloads)
                start = messages[-1].offset + 1
                broker.store_offset(consumer, key, start - 1)
    finally:
        broker.close()
    return sent


def _by_source(messages: Iterable[Any], target: str | None) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for message in messages:
        name = target
        if name is None:
            source = message.headers.get(HeaderValue.of("source"))
            if source is None:
                raise InvalidOption(
                    f"message {message.offset} does not say where it came from: name a topic"
                )
            name = str(source.value)
        found.setdefault(name, []).append(message.payload)
    return found


def _send_all(broker: Broker, topic: str, payloads: Sequence[bytes], rate: SendRate | None) -> None:
    encoded = encode(pa.array(payloads, pa.binary()))
    count_max = 1000 if rate is None else min(1000, rate.request_max)
    for request in requests(encoded, bytes_max=1 << 20, count_max=count_max):
        if rate is not None:
            rate.wait_for(request.count)
        broker.send(topic, Partitioning.balanced(), request)


# ---- ingest -------------------------------------------------------------------------------------


def ingest(
    spark: SparkSession, format_: str, path: str, *, key: str | None, options: Mapping[str, str]
) -> int:
    """Rows of files as messages: a column `payload` as it is, or all columns as JSON."""
    frame = spark.read.format(format_).load(path)
    count = frame.count()
    columns = [F.col("payload")] if "payload" in frame.columns else [_as_json(frame.columns)]
    if key is not None:
        columns.append(F.col(key).cast("string").alias("key"))
    frame.select(*columns).write.format("borzoi").options(**options).mode("append").save()
    return count


def replay(
    spark: SparkSession,
    reader: Mapping[str, str],
    writer: Mapping[str, str],
    rate: int | None = None,
) -> int:
    """Send a range of a topic again, at least once, each partition in order.

    With a rate one task sends everything: the option limits each task, and the job has one.
    """
    reading = dict(reader) | {"keepOrder": "true"}
    frame = spark.read.format("borzoi").options(**reading, plane="bulk").load()
    # The ranges are planned once: what arrives meanwhile is neither counted nor sent.
    ranges = frame.collect()
    if not ranges:
        return 0
    target = reading | dict(writer)
    tasks = len(ranges)
    if rate is not None:
        target |= {"maxMessagesPerSecond": str(rate)}
        tasks = 1
    planned = spark.createDataFrame(ranges, frame.schema).repartition(tasks, "partition")
    planned.write.format("borzoi").options(**target).mode("append").save()
    return sum(each["end"] - each["start"] for each in ranges)


def _as_json(names: Sequence[str]) -> Any:
    return F.to_json(F.struct(*names)).alias("payload")
