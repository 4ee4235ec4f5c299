"""`format("borzoi-lake")`: rows, or ranges of messages, into a Parquet, Delta or Iceberg table.

On the row plane a task gets record batches and writes them. On the bulk plane the source runs with
`plane=bulk` and a task gets ranges: it reads the messages itself and writes them, so only a
few hundred bytes per range pass through the JVM.
"""

import json
import pickle
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from borzoi.model.errors import FeatureUnavailable
from borzoi.model.units import parse_bytes
from borzoi.records.arrow import HeadersForm, schema_of
from borzoi.spark.lake.files import (
    DataFile,
    FileWriter,
    Partitioner,
    TableLayout,
    derived_schema,
    partitioner,
)
from borzoi.spark.lake.kinds import KINDS
from borzoi.spark.lake.parquet import ParquetTable
from borzoi.spark.lake.tables import Epoch, Table
from borzoi.spark.options import (
    InvalidOption,
    Option,
    SourceOptions,
    bulk_options,
    read_options,
)
from borzoi.spark.plan import Split
from borzoi.spark.reading import read_batches
from borzoi.spark.rows import Shape, is_ranges
from borzoi.spark.targets import current_attempt
from borzoi.spark.workers import settle


def _kind(value: str) -> str:
    if value not in KINDS:
        raise InvalidOption(f"one of {', '.join(KINDS)}")
    return value


def _text(value: str) -> str:
    return value


def _partition_by(value: str) -> tuple[Partitioner, ...]:
    return tuple(partitioner(part.strip()) for part in value.split(",") if part.strip())


def _catalog(value: str) -> dict[str, str]:
    found = json.loads(value)
    if not isinstance(found, dict):
        raise InvalidOption('JSON such as {"type": "rest", "uri": "http://…"}')
    return {str(key): str(each) for key, each in found.items()}


LAKE_ROWS: Final = (
    Option("table", "parquet", _kind, "format of the table: parquet, delta or iceberg"),
    Option("directory", None, _text, "directory of the table"),
    Option("name", None, _text, "Iceberg: namespace.table"),
    Option("catalog", None, _catalog, "Iceberg: properties of the catalog, as JSON"),
    Option("partitionBy", None, _partition_by, "columns, day(column) or hour(column)"),
    Option("targetFileSize", "128 MiB", parse_bytes, "files are closed at this size"),
    Option("compression", "zstd", _text, "of the Parquet files"),
    Option("writeId", None, _text, "batch: a repeated write with this id commits nothing"),
)


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """The options of a table writer."""

    kind: str
    directory: str
    name: str
    catalog: Mapping[str, str] | None
    layout: TableLayout
    write_id: str | None
    #: How messages are read, on the bulk plane.
    source: SourceOptions | None = None


def lake_options(options: Mapping[str, str], *, is_bulk: bool) -> LakeOptions:
    """The options of `format("borzoi-lake")`; on the bulk plane those of the source as well."""
    mine, source = bulk_options(LAKE_ROWS, options) if is_bulk else (options, None)
    values = read_options(LAKE_ROWS, mine)
    if values["directory"] is None:
        raise InvalidOption("the option directory is missing")
    layout = TableLayout(
        values["directory"],
        values["partitionBy"] or (),
        values["targetFileSize"],
        values["compression"],
        keeps_partition_columns=values["table"] == "iceberg",
    )
    return LakeOptions(
        values["table"],
        values["directory"],
        values["name"] or "borzoi.messages",
        values["catalog"],
        layout,
        values["writeId"],
        source,
    )


def table_of(options: LakeOptions) -> Table:
    """The table, by the library of its format."""
    partition_by = [each.name for each in options.layout.partition_by]
    if options.kind == "parquet":
        return ParquetTable(options.directory)
    try:
        library = import_module(f"borzoi.spark.lake.{options.kind}")
    except ImportError as error:
        raise FeatureUnavailable(
            f"{options.kind} tables need a library: pip install 'borzoi[{options.kind}]'"
        ) from error
    table: Table
    if options.kind == "delta":
        table = library.DeltaLakeTable(options.directory, partition_by)
    else:
        table = library.IcebergTable(options.directory, options.name, partition_by, options.catalog)
    return table


class LakeDataSource(DataSource):
    """A sink only; every engine can read these formats."""

    @classmethod
    def name(cls) -> str:
        return "borzoi-lake"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise InvalidOption("tables are appended to: use mode append")
        return LakeWriter(schema, self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if overwrite:
            raise InvalidOption(
                "tables are appended to, not replaced by the whole result: use outputMode append"
            )
        return LakeStreamWriter(schema, self.options)


@dataclass
class Files(WriterCommitMessage):
    """What a task reports to the driver."""

    query: str
    files: list[DataFile]


class _LakeTasks:
    """The common part of batch and stream writers."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._is_bulk = is_ranges(schema)
        self._options = lake_options(dict(options), is_bulk=self._is_bulk)
        if self._is_bulk:
            source = self._options.source
            assert source is not None
            form = HeadersForm("raw" if source.headers == "none" else source.headers)
            is_text = source.payload_format == "string"
            # Files of a partition take some rows of a batch, for which Arrow copies payloads.
            has_views = not is_text and not self._options.layout.partition_by
            self._shape = Shape(source.columns, form, is_text, has_views=has_views)
            self._schema = bulk_schema(self._shape)
        else:
            self._schema = nullable(to_arrow_schema(schema, timezone="UTC"))

    def _write(self, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
        settle()
        writer = FileWriter(self._options.layout)
        try:
            for batch in batches:
                for part in self._messages(batch) if self._is_bulk else (as_nullable(batch),):
                    writer.write(part)
        except BaseException:
            writer.abort()
            raise
        return writer.close()

    def _messages(self, ranges: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        assert self._options.source is not None
        for pickled in ranges.column("split").to_pylist():
            split: Split = pickle.loads(pickled)  # noqa: S301 - made by our own source
            yield from read_batches(split, self._options.source, self._shape)

    def _commit(self, files: list[DataFile], epoch: Epoch) -> bool:
        table = table_of(self._options)
        table.prepare(derived_schema(self._schema, self._options.layout.partition_by))
        return table.commit(files, epoch)


def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema with every column nullable.

    A table is the same whether a query proves that a column has no nulls or not, and on both
    planes.
    """
    return pa.schema([field.with_nullable(True) for field in schema])


def as_nullable(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns, schema=nullable(batch.schema))


def bulk_schema(shape: Shape) -> pa.Schema:
    schema = schema_of(shape.columns, headers=shape.headers)
    if shape.is_text and "payload" in shape.columns:
        at = shape.columns.index("payload")
        schema = schema.set(at, pa.field("payload", pa.string()))
    return schema


class LakeWriter(_LakeTasks, DataSourceArrowWriter):
    """`df.write.format("borzoi-lake")`: one commit; with `writeId` a repeated one is a no-op."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Files:
        return Files(self._options.write_id or "", self._write(iterator))

    def commit(self, messages: list[Any]) -> None:
        files = [each for message in messages if message is not None for each in message.files]
        query = self._options.write_id or f"write-{uuid.uuid4().hex}"
        self._commit(files, Epoch(query, 0))


class LakeStreamWriter(_LakeTasks, DataSourceStreamArrowWriter):
    """`df.writeStream.format("borzoi-lake")`: one commit for each epoch, exactly once."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Files:
        attempt = current_attempt()
        return Files(attempt.query, self._write(iterator))

    def commit(self, messages: list[Any], batchId: int) -> None:
        done = [message for message in messages if message is not None]
        files = [each for message in done for each in message.files]
        if files:
            self._commit(files, Epoch(done[0].query, batchId))

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Files of the tasks that succeeded are orphans; `borzoi job compact` removes them."""
