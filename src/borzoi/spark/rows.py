"""Columns of messages as Spark sees them: schemas, and record batches that fit them exactly.

Spark compares the Arrow schema of every batch with the schema of the query, so both come from the
same table of columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from borzoi.records.arrow import HeadersForm, constant, payload_views, record_batch, timestamps
from borzoi.records.columnar import Run
from borzoi.spark.json_payloads import parsed
from borzoi.spark.offsets import PartitionKey
from borzoi.spark.option_values import CORRUPT
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
#: Types that JSON payloads are parsed into, beside arrays and structs of them.
JSON_TYPES: Final = (
    BooleanType,
    IntegralType,
    FloatType,
    DoubleType,
    DecimalType,
    StringType,
    TimestampType,
)
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


def json_schema(options: SourceOptions) -> str:
    """The same for JSON payloads, as DDL: the types of their columns are for Spark to parse."""
    found = []
    for name in options.columns:
        if name == "payload":
            found += [*options.payload_columns.values(), f"{CORRUPT} string"]
        else:
            nulls = "" if may_be_null(name, options) else " not null"
            found.append(f"`{name}` {column_type(name, options).simpleString()}{nulls}")
    return ", ".join(found)


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
    #: Columns of JSON payloads that are read, `_corrupt` left out; None when nothing is parsed.
    json: pa.StructType | None = None
    #: Columns that Spark was told to be without nulls.
    never_null: frozenset[str] = frozenset()
    #: Payloads as views of the bytes that were read, for a writer of Parquet.
    has_views: bool = False

    @property
    def needs_bodies(self) -> bool:
        return self.json is not None or not FROM_INDEX.issuperset(self.columns)


def shape_of(schema: StructType, options: SourceOptions) -> Shape:
    """Return the shape for a schema, perhaps a user's; raises if a column does not fit."""
    of_payload = {*options.payload_columns, CORRUPT} if options.payload_columns else set()
    parsed_fields = [found for found in schema.fields if found.name in of_payload]
    for found in parsed_fields:
        check_json_column(found)
    for found in schema.fields:
        if found.name in of_payload:
            continue
        if found.name not in COLUMNS or (of_payload and found.name == "payload"):
            raise InvalidOption(
                f"there is no column {found.name!r}; there are {', '.join(_names(options))}"
            )
        expected = column_type(found.name, options)
        if found.dataType != expected:
            raise InvalidOption(
                f"column {found.name} has the type {expected.simpleString()}, "
                f"not {found.dataType.simpleString()}"
            )
    form = HeadersForm("raw" if options.headers == "none" else options.headers)
    never_null = frozenset(found.name for found in schema.fields if not found.nullable)
    json = None
    if parsed_fields:
        typed = StructType([found for found in parsed_fields if found.name != CORRUPT])
        json = pa.struct(list(to_arrow_schema(typed, timezone="UTC")))
    is_text = options.payload_format == "string"
    return Shape(tuple(schema.fieldNames()), form, is_text, json, never_null)


def _names(options: SourceOptions) -> list[str]:
    """The columns that a schema may have."""
    if not options.payload_columns:
        return list(COLUMNS)
    return [name for name in COLUMNS if name != "payload"] + [*options.payload_columns, CORRUPT]


def check_json_column(found: StructField) -> None:
    """Raise when a column of JSON payloads has a type that is not parsed, or may not be null."""
    if found.name == CORRUPT and found.dataType != StringType():
        raise InvalidOption(f"column {CORRUPT} has the type string")
    if StructType([found]).toNullable() != StructType([found]):
        raise InvalidOption(f"column {found.name} of a payload may be missing: leave out not null")
    if wrong := _unparsed(found.dataType):
        raise InvalidOption(
            f"column {found.name}: {wrong.simpleString()} is not parsed from JSON; read a string"
        )


def _unparsed(kind: DataType) -> DataType | None:
    """The part of a type that payloads cannot be parsed into."""
    if isinstance(kind, ArrayType):
        return _unparsed(kind.elementType)
    if isinstance(kind, StructType):
        return next((wrong for each in kind.fields if (wrong := _unparsed(each.dataType))), None)
    return None if isinstance(kind, JSON_TYPES) else kind


def _constants(key: PartitionKey) -> dict[str, str | int]:
    stream, _, topic = key.topic.partition("/")
    return {"stream": stream, "topic": topic, "partition": key.partition}


def batch_of(run: Run, key: PartitionKey, shape: Shape) -> pa.RecordBatch:
    """The columns of a run of messages."""
    if shape.json is not None:
        return _marked(_json_batch(run, key, shape, shape.json), shape)
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


def _json_batch(run: Run, key: PartitionKey, shape: Shape, json: pa.StructType) -> pa.RecordBatch:
    """The columns of a run whose payloads are JSON."""
    typed = [json.field(at).name for at in range(json.num_fields)]
    stored = [name for name in shape.columns if name not in (*typed, CORRUPT)]
    batch = record_batch(
        run, [*stored, "payload"], constants=_constants(key), headers=shape.headers
    )
    payloads = batch.column(len(stored))
    values = parsed(payloads, json)
    columns = dict(zip(stored, batch.columns, strict=False))
    columns |= dict(zip(typed, values.flatten(), strict=True))
    is_corrupt = values.is_null()
    texts = as_text(payloads.filter(is_corrupt))
    nulls = pa.nulls(len(payloads), pa.string())
    columns[CORRUPT] = pc.replace_with_mask(nulls, is_corrupt, texts)
    arrays = [columns[name] for name in shape.columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(shape.columns))


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
        texts = [value.decode(errors="replace") for value in payloads.to_pylist()]
        return pa.array(texts, pa.string())
