"""`format("borzoi")` as a sink: rows become messages of a topic.

====================  ====================================================================
column                meaning
====================  ====================================================================
payload               binary or string, required
topic                 stream/topic of this row, when the option `topic` is not given
partition             target partition; together with `offset`, the partition it came from
key                   binary or string: rows with one key go to one partition
headers               binary as stored, or map<string, string>
id                    binary, 16 bytes
origin_timestamp      timestamp
__partition, __offset, __topic    where a row came from, for ids by lineage
====================  ====================================================================

Tasks run `write`; `commit` runs in a short-lived process on the driver, rebuilt from the options. A
task never decides that it is complete: when Spark's JVM dies, its Python workers see an ordinary
end of input.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from borzoi.model.partitioning import partition_for_key
from borzoi.records.arrow import encode, wire_ids
from borzoi.records.user_headers import encode_user_headers, user_headers
from borzoi.spark.broker import Broker, broker_of_worker
from borzoi.spark.copying import Copier
from borzoi.spark.ids import Keys, Lineage, position_ids, topic_hashes
from borzoi.spark.options import InvalidOption, SinkOptions, SourceOptions
from borzoi.spark.reconcile import Doubt, Marker
from borzoi.spark.rows import is_ranges
from borzoi.spark.targets import (
    Attempt,
    Outgoing,
    Written,
    current_attempt,
    ends_of,
    write_marker,
)
from borzoi.spark.workers import settle

PAYLOAD_TYPES: Final = ("binary", "string")


def way_of_ids(schema: StructType, options: SinkOptions) -> str:
    """Return how ids are generated: as requested, else the safest way that the columns allow."""
    names = set(schema.fieldNames())
    if is_ranges(schema):
        # Messages as they are stored: their ids and where they came from are known.
        names |= {"id", "__offset"}
    has_lineage = "__offset" in names or {"offset", "partition"} <= names
    if options.idempotence == "auto":
        if has_lineage:
            return "lineage"
        return "column" if "id" in names else "none"
    needed = {"column": "id" in names, "lineage": has_lineage}
    if not needed.get(options.idempotence, True):
        wanted = "id" if options.idempotence == "column" else "partition and offset"
        raise InvalidOption(
            f"idempotence={options.idempotence} needs the columns {wanted} (or __partition and "
            "__offset)"
        )
    missing = [name for name in options.id_columns if name not in names]
    if missing:
        raise InvalidOption(f"idColumns names {missing[0]!r}, which is not a column of the rows")
    return options.idempotence


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """Raise when rows of this schema cannot be messages."""
    types = {found.name: found.dataType.simpleString() for found in schema.fields}
    if is_ranges(schema):
        if options.topic is None or options.idempotence in ("key", "position"):
            raise InvalidOption(
                "the bulk plane needs the option topic, and ids by lineage, by column or none"
            )
        return
    if types.get("payload") not in PAYLOAD_TYPES:
        raise InvalidOption("the rows need a column payload of the type binary or string")
    if options.topic is None and types.get("topic") != "string":
        raise InvalidOption("the option topic is missing, and so is a column topic")
    way_of_ids(schema, options)


class _TopicWriter:
    """The common part of batch and stream writers: rows in, requests out."""

    def __init__(
        self, schema: StructType, options: SinkOptions, source: SourceOptions | None = None
    ) -> None:
        check_schema(schema, options)
        self._options = options
        self._way = way_of_ids(schema, options)
        #: How messages are read, on the bulk plane.
        self._source = source

    def _write(self, batches: Iterator[pa.RecordBatch], attempt: Attempt | None) -> Written:
        settle()
        broker = broker_of_worker(self._options.connection)
        sender: Sender | Copier
        if self._source is None:
            sender = Sender(broker, self._options, self._way, attempt)
        else:
            sender = Copier(broker, self._options, self._way, attempt, self._source)
        for batch in batches:
            sender.write(batch)
        return sender.result()


class BatchTopicWriter(_TopicWriter, DataSourceArrowWriter):
    """`df.write.format("borzoi")`: at least once; `writeId` makes ids reproducible."""

    def __init__(
        self,
        schema: StructType,
        options: SinkOptions,
        source: SourceOptions | None = None,
        *,
        overwrite: bool,
    ) -> None:
        super().__init__(schema, options, source)
        if overwrite:
            raise InvalidOption("a topic cannot be overwritten: use mode append")
        if options.write_id is None and self._way != "column":
            self._way = "none"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        task = context.partitionId() if context else 0
        query = self._options.write_id
        attempt = None if query is None else Attempt(query, "", 0, task, 0)
        return self._write(iterator, attempt)


class StreamTopicWriter(_TopicWriter, DataSourceStreamArrowWriter):
    """`df.writeStream.format("borzoi")`: exactly once if ids are reproducible."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._write(iterator, current_attempt())

    def commit(self, messages: list[Any], batchId: int) -> None:
        """All tasks have succeeded: mark the epoch as committed in every topic it wrote to."""
        done = [each for each in messages if each is not None and each.attempt is not None]
        fresh = [each for each in done if not each.was_committed]
        if self._way == "none" or not fresh:
            return
        broker = Broker(self._options.connection)
        try:
            for topic in sorted({topic for each in fresh for topic in each.topics}):
                attempt = fresh[0].attempt
                ends = ends_of(broker, topic)
                skipped = sum(each.skipped for each in fresh if topic in each.topics)
                marker = Marker(attempt.query, topic, batchId, attempt.run, ends, skipped)
                write_marker(broker, marker)
        finally:
            broker.close()

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing to undo: a retry recognises sent messages by their ids."""


# ---- sending ------------------------------------------------------------------------------------


class Sender:
    """Sends the rows of one task."""

    def __init__(
        self, broker: Broker, options: SinkOptions, way: str, attempt: Attempt | None
    ) -> None:
        self._options = options
        self._way = way
        self._attempt = attempt
        self._outgoing = Outgoing(broker, options, way, attempt)
        self._lineage = Lineage(attempt.query) if attempt else None
        self._keys = Keys(attempt.query, attempt.epoch) if attempt else None
        self._row = 0

    def write(self, batch: pa.RecordBatch) -> None:
        ids = self._ids(batch)
        self._row += batch.num_rows
        if self._options.topic is not None:
            self._write_to(self._options.topic, batch, ids)
            return
        names = batch.column("topic")
        for name in pc.unique(names).to_pylist():
            if name is None:
                raise InvalidOption("the column topic is null in a row, and no option topic is set")
            rows = np.flatnonzero(pc.equal(names, name).to_numpy(zero_copy_only=False))
            chosen_ids = None if ids is None else ids[rows]
            self._write_to(name, batch.take(pa.array(rows)), chosen_ids)

    def result(self) -> Written:
        return self._outgoing.result()

    def _ids(self, batch: pa.RecordBatch) -> NDArray[Any] | None:
        count, names = batch.num_rows, batch.schema.names
        attempt = self._attempt
        if self._way == "column":
            return wire_ids(batch.column("id").cast(pa.binary()))
        if self._way == "none" or attempt is None:
            return None
        if self._way == "position":
            return position_ids(attempt.query, attempt.epoch, attempt.task, self._row, count)
        if self._way == "key":
            columns = [batch.column(name) for name in self._options.id_columns]
            assert self._keys is not None
            return self._keys.ids(columns)
        assert self._lineage is not None
        marks = "__" if "__offset" in names else ""
        partitions = _numbers(batch, f"{marks}partition")
        offsets = _numbers(batch, f"{marks}offset")
        hashes = topic_hashes(attempt.query, _source_topics(batch), count)
        return self._lineage.ids(hashes, partitions, offsets)

    def _write_to(self, topic: str, batch: pa.RecordBatch, ids: NDArray[Any] | None) -> None:
        target = self._outgoing.target(topic)
        if target.doubt is Doubt.COMMITTED:
            return
        if target.present and ids is not None:
            missing = np.array([value not in target.present for value in ids.tolist()], bool)
            self._outgoing.skip(int(len(missing) - np.count_nonzero(missing)))
            rows = np.flatnonzero(missing)
            batch, ids = batch.take(pa.array(rows)), ids[rows]
        if batch.num_rows == 0:
            return
        partitions = target_partitions(batch, target.count, self._attempt)
        order = np.argsort(partitions, kind="stable")
        bounds = np.flatnonzero(np.diff(partitions[order])) + 1
        for rows in np.split(order, bounds):
            whole = len(rows) == batch.num_rows
            part = batch if whole else batch.take(pa.array(rows))
            part_ids = ids if ids is None or whole else ids[rows]
            encoded = encode(
                part.column("payload"),
                ids=part_ids,
                headers=_headers(part),
                origin_timestamps=_origin_timestamps(part),
            )
            self._outgoing.send(topic, int(partitions[rows[0]]), encoded)


def target_partitions(
    batch: pa.RecordBatch, count: int, attempt: Attempt | None
) -> NDArray[np.int64]:
    """The partition of each row: as the column says, by its key, by its source, or by its task.

    Every way is repeatable, so that a second attempt sends a row where the first one did.
    """
    names = batch.schema.names
    if "key" in names:
        return _by_key(batch.column("key"), count)
    if "partition" in names:
        wanted = _numbers(batch, "partition")
        if "offset" in names:
            return wanted % count
        if len(wanted) and not 0 <= int(wanted.min()) <= int(wanted.max()) < count:
            raise InvalidOption(
                f"the column partition has {int(wanted.max())}; the topic has {count} partitions"
            )
        return wanted
    if "__partition" in names:
        return _numbers(batch, "__partition") % count
    place = (attempt.epoch + attempt.task) % count if attempt else _task_number() % count
    return np.full(batch.num_rows, place, np.int64)


def _task_number() -> int:
    context = TaskContext.get()
    return context.partitionId() if context else 0


def _by_key(keys: pa.Array, count: int) -> NDArray[np.int64]:
    if keys.null_count:
        raise InvalidOption("the column key is null in a row")
    encoded = keys.dictionary_encode()
    values = [_key_bytes(value) for value in encoded.dictionary.to_pylist()]
    chosen_for = np.array([partition_for_key(value, count) for value in values], np.int64)
    return chosen_for[np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)]


def _key_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    column = batch.column(name)
    if column.null_count:
        raise InvalidOption(f"the column {name} is null in a row")
    return column.cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _source_topics(batch: pa.RecordBatch) -> pa.Array | None:
    names = batch.schema.names
    if "__topic" in names:
        return batch.column("__topic")
    if {"stream", "topic"} <= set(names):
        return pc.binary_join_element_wise(batch.column("stream"), batch.column("topic"), "/")
    return None


def _headers(batch: pa.RecordBatch) -> pa.Array | None:
    if "headers" not in batch.schema.names:
        return None
    column = batch.column("headers")
    if not pa.types.is_map(column.type):
        return column
    encoded = [
        None if not pairs else encode_user_headers(user_headers({k: v for k, v in pairs if v}))
        for pairs in column.to_pylist()
    ]
    return pa.array(encoded, pa.binary())


def _origin_timestamps(batch: pa.RecordBatch) -> NDArray[Any] | None:
    if "origin_timestamp" not in batch.schema.names:
        return None
    micros = batch.column("origin_timestamp").cast(pa.timestamp("us", tz="UTC")).view(pa.int64())
    return pc.fill_null(micros, 0).to_numpy(zero_copy_only=False).view(np.uint64)  # type: ignore[no-any-return]
