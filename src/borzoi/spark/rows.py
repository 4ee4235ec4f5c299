"""Columns of messages as Spark sees them: schemas, and record batches that fit them exactly.

Spark compares the Arrow schema of every batch with the schema of the query, so both come from the
same table of columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from borzoi.records.arrow import HeadersForm, constant, payload_views, record_batch, timestamps
from borzoi.records.columnar import Run
from borzoi.spark.offsets import PartitionKey
from borzoi.spark.options import COLUMNS, InvalidOption, SourceOptions

#: Columns that the index or the plan provides: the log need not be read for them.
FROM_INDEX: Final = frozenset({"stream", "topic", "partition", "offset", "timestamp"})

TYPED_HEADER: Final = StructType(
    [
        StructField("key", StringType()),
        StructField("kind", StringType()),
        StructField("value", BinaryType()),
    ]
)
HEADERS_TYPES: Final[Mapping[str, DataType]] = {
    "raw": BinaryType(),
    "map": MapType(StringType(), StringType()),
    "typed": ArrayType(TYPED_HEADER),
}
TYPES: Final[Mapping[str, DataType]] = {
    "stream": StringType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "origin_timestamp": TimestampType(),
    "id": BinaryType(),
    "checksum": LongType(),
    "payload": BinaryType(),
}
#: The bulk plane: one row is a range of messages.
RANGE_SCHEMA: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("start", LongType()),
        StructField("end", LongType()),
        StructField("bytes", LongType()),
        StructField("split", BinaryType()),
    ]
)


def is_ranges(schema: StructType) -> bool:
    """Whether rows of this schema are ranges of messages, as the bulk plane has them."""
    return schema.fieldNames() == RANGE_SCHEMA.fieldNames()


def spark_schema(options: SourceOptions) -> StructType:
    """The schema of a query that does not give one."""
    if options.plane == "bulk":
        return RANGE_SCHEMA
    return StructType(
        [
            StructField(name, column_type(name, options), may_be_null(name, options))
            for name in options.columns
        ]
    )


def may_be_null(name: str, options: SourceOptions) -> bool:
    """Whether a column can hold nulls: Spark tests columns that can, row by row.

    A client may send an origin timestamp beyond 63 bits, or user headers that cannot be read.
    """
    return name == "origin_timestamp" or (name == "headers" and options.headers in ("map", "typed"))


def column_type(name: str, options: SourceOptions) -> DataType:
    if name == "headers":
        return HEADERS_TYPES["raw" if options.headers == "none" else options.headers]
    if name == "payload" and options.payload_format == "string":
        return StringType()
    return TYPES[name]


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a reader's rows: which columns, and in which form."""

    columns: tuple[str, ...]
    headers: HeadersForm = HeadersForm.RAW
    is_text: bool = False
    #: Columns that Spark was told to be without nulls.
    never_null: frozenset[str] = frozenset()
    #: Payloads as views of the bytes that were read, for a writer of Parquet.
    has_views: bool = False

    @property
    def needs_bodies(self) -> bool:
        return not FROM_INDEX.issuperset(self.columns)


def shape_of(schema: StructType, options: SourceOptions) -> Shape:
    """Return the shape for a schema, perhaps a user's; raises if a column does not fit."""
    for found in schema.fields:
        if found.name not in COLUMNS:
            raise InvalidOption(
                f"there is no column {found.name!r}; there are {', '.join(COLUMNS)}"
            )
        expected = column_type(found.name, options)
        if found.dataType != expected:
            raise InvalidOption(
                f"column {found.name} has the type {expected.simpleString()}, "
                f"not {found.dataType.simpleString()}"
            )
    form = HeadersForm("raw" if options.headers == "none" else options.headers)
    never_null = frozenset(found.name for found in schema.fields if not found.nullable)
    return Shape(tuple(schema.fieldNames()), form, options.payload_format == "string", never_null)


def _constants(key: PartitionKey) -> dict[str, str | int]:
    stream, _, topic = key.topic.partition("/")
    return {"stream": stream, "topic": topic, "partition": key.partition}


def batch_of(run: Run, key: PartitionKey, shape: Shape) -> pa.RecordBatch:
    """The columns of a run of messages."""
    columns = shape.columns
    at = columns.index("payload") if "payload" in columns else None
    if shape.has_views and at is not None:
        columns = (*columns[:at], *columns[at + 1 :])
    batch = record_batch(run, columns, constants=_constants(key), headers=shape.headers)
    if shape.has_views and at is not None:
        batch = batch.add_column(at, "payload", payload_views(run))
    elif shape.is_text and at is not None:
        batch = batch.set_column(at, "payload", as_text(batch.column(at)))
    return _marked(batch, shape)


def _marked(batch: pa.RecordBatch, shape: Shape) -> pa.RecordBatch:
    """The batch with the columns marked that are without nulls."""
    if not shape.never_null:
        return batch
    fields = [field.with_nullable(field.name not in shape.never_null) for field in batch.schema]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def index_batch(
    key: PartitionKey, offsets: NDArray[np.int64], micros: NDArray[np.uint64], shape: Shape
) -> pa.RecordBatch:
    """Return the columns that need no message."""
    constants = _constants(key)
    columns = {"offset": pa.array(offsets, pa.int64()), "timestamp": timestamps(micros)}
    arrays = [
        columns[name] if name in columns else constant(name, constants[name], len(offsets))
        for name in shape.columns
    ]
    return _marked(pa.RecordBatch.from_arrays(arrays, names=list(shape.columns)), shape)


def as_text(payloads: pa.Array) -> pa.Array:
    """Payloads as strings; bytes that are not UTF-8 become the replacement character."""
    try:
        return payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode(errors="replace") for value in payloads.to_pylist()])
