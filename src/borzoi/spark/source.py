"""`format("borzoi")` as Spark sees it: the data source, its batch reader and its stream reader.

Spark creates these objects in short-lived planner processes, pickles readers to the tasks, and
keeps one stream reader next to the driver for the life of a query. Decisions are in `offsets` and
`plan`; reading is in `reading`.
"""

import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from borzoi.spark.jvm.splits import SegmentPartition, partitions_of
from borzoi.spark.locating import Locator
from borzoi.spark.offsets import (
    DataLoss,
    PartitionKey,
    Position,
    Range,
    admit_bytes,
    admit_rows,
    from_json,
    is_worth_a_batch,
    lost,
    ranges,
    resolve,
    to_json,
)
from borzoi.spark.options import (
    SINK_ROWS,
    SinkOptions,
    SourceOptions,
    bulk_options,
    sink_options,
    source_options,
)
from borzoi.spark.plan import (
    DEFAULT_SPLIT_BYTES,
    ONE_PER_PARTITION,
    Split,
    SplitLimits,
    Window,
)
from borzoi.spark.reading import read_batches
from borzoi.spark.rows import RANGE_SCHEMA, is_ranges, json_schema, shape_of, spark_schema
from borzoi.spark.sink import BatchTopicWriter, StreamTopicWriter
from borzoi.spark.workers import settle


class PlainBorzoiDataSource(DataSource):
    """The source without filter push-down, for sessions that have not enabled it."""

    @classmethod
    def name(cls) -> str:
        return "borzoi"

    def schema(self) -> StructType | str:
        settle()
        options = source_options(self.options)
        return json_schema(options) if options.payload_columns else spark_schema(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BorzoiReader(schema, source_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return BorzoiStreamReader(schema, source_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> BatchTopicWriter:
        return BatchTopicWriter(schema, *self._writing(schema), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamTopicWriter:
        # With outputMode complete each batch publishes the whole result.
        return StreamTopicWriter(schema, *self._writing(schema))

    def _writing(self, schema: StructType) -> tuple[SinkOptions, SourceOptions | None]:
        if not is_ranges(schema):
            return sink_options(self.options), None
        mine, source = bulk_options(SINK_ROWS, self.options)
        return sink_options(mine), source


class BorzoiDataSource(PlainBorzoiDataSource):
    """The source of sessions created or registered by `borzoi.spark`."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return FilteringReader(schema, source_options(self.options))


# ---- reading, both ways -------------------------------------------------------------------------


def read_partition(
    partition: InputPartition, schema: StructType, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Yield what a task reads: the messages of a split, or on the bulk plane the split itself."""
    settle()
    split: Split = partition.rest if isinstance(partition, SegmentPartition) else partition.value
    if options.plane == "bulk":
        return iter([range_row(split)])
    return read_batches(split, options, shape_of(schema, options))


def range_row(split: Split) -> pa.RecordBatch:
    """A split as one row, for a sink that reads the messages itself."""
    row = {
        "topic": split.key.topic,
        "partition": split.key.partition,
        "start": split.start,
        "end": split.end,
        "bytes": split.size,
        "split": pickle.dumps(split),
    }
    types = [pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.binary()]
    names = RANGE_SCHEMA.fieldNames()
    arrays = [pa.array([row[name]], kind) for name, kind in zip(names, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def limits_of(options: SourceOptions, *, is_stream: bool = False) -> SplitLimits:
    """Streams of rows are not cut unless asked: the order of a partition would be lost."""
    if options.keep_order:
        return ONE_PER_PARTITION
    is_whole = options.keep_order is None and is_stream and options.plane == "row"
    size = options.max_bytes_per_split
    if size is None and not is_whole:
        size = DEFAULT_SPLIT_BYTES
    return SplitLimits(size, options.max_records_per_split, options.min_partitions)


def now_micros() -> int:
    return time.time_ns() // 1000


class BorzoiReader(DataSourceReader):
    """Reads a range of a topic once."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        settle()
        self._schema = schema
        self._options = options
        self._window = Window()
        if options.plane == "row":
            shape_of(schema, options)

    def partitions(self) -> Sequence[InputPartition]:
        with closing(Locator(self._options)) as locator:
            spans = batch_ranges(locator, self._options)
            narrowed = [self._window.narrowed(span, locator.find_time) for span in spans]
            wanted = [span for span in narrowed if span.start < span.end]
            splits = locator.plan(wanted, limits_of(self._options))
        return partitions_of(splits, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._schema, self._options)


def batch_ranges(locator: Locator, options: SourceOptions) -> list[Range]:
    """Return what a batch read covers: from the start to the end bound, as far as stored."""
    extents = locator.extents()
    now = now_micros()
    start = resolve(options.starting, extents, now=now, find_time=locator.find_time)
    end = resolve(options.ending, extents, now=now, find_time=locator.find_time)
    if options.fail_on_data_loss and options.starting.offsets is not None:
        for key, offset in start.items():
            if reason := lost(key, Position(offset, 0), extents[key]):
                raise DataLoss(f"{reason}; failOnDataLoss=false reads what is left")
    return [
        Range(key, max(start[key], extent.earliest), min(end[key], extent.latest))
        for key, extent in sorted(extents.items())
    ]


class FilteringReader(BorzoiReader):
    """The same, narrowed by filters on offset, timestamp and partition."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            # A column of JSON payloads may have the name of a column of messages.
            column = getattr(each, "attribute", None) or ("",)
            if column[0] not in self._options.payload_columns:
                self._window = narrowed_by(self._window, each)
            # Spark applies every filter again: they only narrow segments by index entries.
            yield each


def narrowed_by(window: Window, pushed: Filter) -> Window:
    """The window with what one filter says about offset, timestamp or partition."""
    column = getattr(pushed, "attribute", None)
    value: Any = getattr(pushed, "value", None)
    if column == ("partition",):
        if isinstance(pushed, EqualTo | EqualNullSafe):
            return window.within([value])
        return window.within(value) if isinstance(pushed, In) else window
    is_time = column == ("timestamp",)
    if column != ("offset",) and not is_time:
        return window
    narrow = window.times if is_time else window.offsets
    match pushed:
        case GreaterThan():
            return narrow(low=_number(value) + 1)
        case GreaterThanOrEqual():
            return narrow(low=_number(value))
        case LessThan():
            return narrow(high=_number(value))
        case LessThanOrEqual():
            return narrow(high=_number(value) + 1)
        case EqualTo() | EqualNullSafe() if value is not None:
            return narrow(low=_number(value), high=_number(value) + 1)
        case In():
            numbers = [_number(each) for each in value if each is not None]
            return narrow(low=min(numbers), high=max(numbers) + 1) if numbers else window
    return window


def _number(value: Any) -> int:
    """An offset, or the microseconds of a timestamp."""
    if isinstance(value, datetime):
        return int(value.timestamp()) * 1_000_000 + value.microsecond
    return int(value)


# ---- streams ------------------------------------------------------------------------------------


class BorzoiStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as they grow; everything but `read` runs in one process next to the driver."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._schema = schema
        self._options = options
        self._locator = Locator(options)
        self._target: dict[PartitionKey, int] | None = None
        #: Since when fewer messages than `minOffsetsPerTrigger` have been waiting.
        self._waiting_since: float | None = None
        if options.plane == "row":
            shape_of(schema, options)

    # The executors get a pickled copy, which plans nothing.
    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema, "_options": self._options}

    def initialOffset(self) -> dict[str, Any]:
        extents = self._locator.extents()
        start = resolve(
            self._options.starting,
            extents,
            now=now_micros(),
            find_time=self._locator.find_time,
        )
        return to_json(
            {key: Position(offset, extents[key].created) for key, offset in start.items()}
        )

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {key: e.latest for key, e in self._locator.extents().items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        positions = from_json(start)
        extents = self._locator.extents()
        self._check(positions, extents)
        available = {key: extent.latest for key, extent in extents.items()}
        if self._target is not None:
            available = {k: min(o, self._target.get(k, 0)) for k, o in available.items()}
        begin = {
            span.key: span.start
            for span in ranges(positions, self._at(available, extents), extents)
        }
        begin = {key: begin.get(key, offset) for key, offset in available.items()}
        end = self._admitted(begin, available, limit)
        if end is None:
            return start
        kept = {key: position for key, position in positions.items() if key not in extents}
        return to_json(kept | self._marked(begin, end, positions, extents))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        extents = self._locator.known_extents()
        return to_json({key: Position(e.latest, e.created) for key, e in extents.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, stop = from_json(start), from_json(end)
        extents = self._locator.extents()
        self._check({k: p for k, p in begin.items() if stop[k].offset > p.offset}, extents)
        spans = ranges(begin, stop, extents)
        return [
            InputPartition(split)
            for split in self._locator.plan(spans, limits_of(self._options, is_stream=True))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._schema, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has processed everything before `end`: store it, for lag and retention."""
        if self._options.consumer_name is not None:
            self._locator.store(self._options.consumer_name, from_json(end))

    def stop(self) -> None:
        self._locator.close()

    def _check(
        self, positions: dict[PartitionKey, Position], extents: dict[PartitionKey, Any]
    ) -> None:
        """Raise if messages that the query needs are lost, unless it may continue without them."""
        if not self._options.fail_on_data_loss:
            return
        for key, position in sorted(positions.items()):
            reason = lost(key, position, extents.get(key)) or self._locator.changed(key, position)
            if reason:
                raise DataLoss(f"{reason}; failOnDataLoss=false continues with what is left")

    def _at(
        self, offsets: dict[PartitionKey, int], extents: dict[PartitionKey, Any]
    ) -> dict[PartitionKey, Position]:
        return {key: Position(offset, extents[key].created) for key, offset in offsets.items()}

    def _admitted(
        self, begin: dict[PartitionKey, int], available: dict[PartitionKey, int], limit: ReadLimit
    ) -> dict[PartitionKey, int] | None:
        """Return where the batch ends; None when there is nothing to do yet."""
        waiting = sum(max(0, available[key] - begin[key]) for key in available)
        if waiting == 0:
            return None
        if isinstance(limit, ReadAllAvailable):
            return available
        since = self._waiting_since = self._waiting_since or time.monotonic()
        waited = int((time.monotonic() - since) * 1_000_000)
        minimum = None if self._target is not None else self._options.min_offsets
        if not is_worth_a_batch(waiting, minimum, waited, self._options.max_delay):
            return None
        self._waiting_since = None
        end = available
        if isinstance(limit, ReadMaxRows):
            end = admit_rows(begin, end, limit.max_rows)
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes
        if most is not None:
            sizes = {key: self._locator.size(key, begin[key], end[key]) for key in end}
            end = admit_bytes(begin, end, most, self._locator.offset_after, sizes)
        return end

    def _marked(
        self,
        begin: dict[PartitionKey, int],
        end: dict[PartitionKey, int],
        before: dict[PartitionKey, Position],
        extents: dict[PartitionKey, Any],
    ) -> dict[PartitionKey, Position]:
        """Positions at the end of a batch, with the timestamp of the message before each."""
        marked = {}
        for key, offset in end.items():
            mark = before[key].mark if key in before else 0
            if offset > begin[key]:
                mark = self._locator.timestamp_at(key, offset - 1) or 0
            marked[key] = replace(Position(offset, extents[key].created), mark=mark)
        return marked
