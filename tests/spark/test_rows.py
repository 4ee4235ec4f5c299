"""Schemas for Spark and batches that fit them."""

from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from borzoi.records.arrow import HeadersForm, encode, schema_of
from borzoi.records.columnar import Run, run_of
from borzoi.records.message import Message, encode_messages
from borzoi.spark.offsets import PartitionKey
from borzoi.spark.options import COLUMNS, InvalidOption, source_options
from borzoi.spark.rows import (
    Shape,
    as_text,
    batch_of,
    index_batch,
    json_schema,
    shape_of,
    spark_schema,
)

ONE = {"subscribe": "a/b"}


@pytest.mark.parametrize("form", ["raw", "map", "typed"])
def test_spark_and_arrow_mean_the_same_types(form: str) -> None:
    options = source_options(ONE | {"headers": form, "columns": ",".join(COLUMNS)})
    spark = to_arrow_schema(spark_schema(options), timezone="UTC")
    ours = schema_of(COLUMNS, headers=HeadersForm(form))
    assert spark.names == ours.names
    for name in set(COLUMNS) - {"headers"}:
        assert spark.field(name).type == ours.field(name).type


@pytest.mark.parametrize("form", ["raw", "map", "typed"])
def test_batches_have_the_schema_that_spark_compares_them_with(form: str) -> None:
    """Also in which columns may hold nulls: few of ours, all of those that a user writes down."""
    options = source_options(ONE | {"headers": form, "columns": ",".join(COLUMNS)})
    ours = spark_schema(options)
    written = StructType([StructField(found.name, found.dataType) for found in ours.fields])
    unsure = {"origin_timestamp"} | ({"headers"} if form != "raw" else set())
    assert {found.name for found in ours.fields if found.nullable} == unsure
    for schema in (ours, written):
        batch = batch_of(run_of(b""), PartitionKey("a/b", 2), shape_of(schema, options))
        assert batch.schema == to_arrow_schema(schema, timezone="UTC")


def test_a_schema_of_the_user_chooses_columns() -> None:
    options = source_options(ONE)
    shape = shape_of(StructType().add("payload", "binary").add("offset", "long"), options)
    assert shape.columns == ("payload", "offset")
    assert shape.needs_bodies
    assert not Shape(("offset", "timestamp", "partition")).needs_bodies
    with pytest.raises(InvalidOption, match="offset has the type bigint, not int"):
        shape_of(StructType().add("offset", "integer"), options)


def test_payloads_as_views_stand_where_the_column_stood() -> None:
    _, stored = encode_messages([Message(b"a payload that is long enough"), Message(b"short")])
    columns = ("offset", "payload", "partition")
    copied, viewed = (
        batch_of(run_of(stored), PartitionKey("a/b", 2), Shape(columns, has_views=has_views))
        for has_views in (False, True)
    )
    assert viewed.schema.field("payload").type == pa.binary_view()
    assert viewed.to_pylist() == copied.to_pylist()


def test_text_payloads_are_strings() -> None:
    options = source_options(ONE | {"payloadFormat": "string", "headers": "none"})
    schema = spark_schema(options)
    assert schema["payload"].dataType.simpleString() == "string"
    assert "headers" not in schema.fieldNames()
    assert shape_of(schema, options).is_text


JSON = ONE | {
    "payloadFormat": "json",
    "payloadSchema": "id long, `offset` array<struct<a: int>>, at timestamp, sum decimal(5, 2)",
}
#: As Spark parses `payloadSchema`.
TYPED = (
    StructType()
    .add("id", "long")
    .add("offset", ArrayType(StructType().add("a", "integer")))
    .add("at", "timestamp")
    .add("sum", DecimalType(5, 2))
    .add("_corrupt", "string")
)


def run_with(*payloads: bytes) -> Run:
    return run_of(encode(pa.array(payloads, pa.binary())).messages)


def test_json_payloads_are_typed_columns_in_the_place_of_the_payload() -> None:
    options = source_options(JSON | {"columns": "partition,payload,origin_timestamp"})
    assert json_schema(options) == (
        "`partition` int not null, id long, `offset` array<struct<a: int>>, at timestamp, "
        "sum decimal(5, 2), _corrupt string, `origin_timestamp` timestamp"
    )
    schema = StructType(
        [
            StructField("partition", IntegerType(), nullable=False),
            *TYPED.fields,
            StructField("origin_timestamp", TimestampType()),
        ]
    )
    shape = shape_of(schema, options)
    assert shape.needs_bodies
    good = b'{"id": 5, "offset": [{"a": 1}], "at": "2026-11-01T02:00:00+02:00", "sum": 1.25}'
    run = run_with(good, b"\xff", b"{}")
    batch = batch_of(run, PartitionKey("a/b", 2), shape)
    assert batch.schema == to_arrow_schema(schema, timezone="UTC")
    rows = batch.drop_columns(["partition", "origin_timestamp"]).to_pylist()
    nothing = dict.fromkeys(TYPED.fieldNames())
    assert rows == [
        nothing
        | {
            "id": 5,
            "offset": [{"a": 1}],
            "at": datetime(2026, 11, 1, tzinfo=UTC),
            "sum": Decimal("1.25"),
        },
        nothing | {"_corrupt": "\ufffd"},
        nothing,
    ]
    empty = batch_of(run_of(b""), PartitionKey("a/b", 2), shape)
    assert empty.schema == batch.schema


def test_a_schema_of_the_user_chooses_among_columns_of_json() -> None:
    options = source_options(JSON)
    chosen = shape_of(StructType().add("timestamp", "timestamp").add("id", "long"), options)
    batch = batch_of(run_with(b'{"id": 7, "at": 0}', b"junk"), PartitionKey("a/b", 0), chosen)
    assert batch.schema.names == ["timestamp", "id"]
    assert batch.column("id").to_pylist() == [7, None]
    assert not shape_of(StructType().add("timestamp", "timestamp"), options).needs_bodies
    assert shape_of(StructType().add("offset", ArrayType(IntegerType())), options).needs_bodies
    only = shape_of(StructType().add("_corrupt", "string"), options)
    batch = batch_of(run_with(b"{}", b"junk"), PartitionKey("a/b", 0), only)
    assert batch.column("_corrupt").to_pylist() == [None, "junk"]


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (StructField("payload", BinaryType()), "no column 'payload'; there are stream, topic"),
        (StructField("id", DateType()), "column id: date is not parsed from JSON"),
        (StructField("id", MapType(StringType(), LongType())), "map<string,bigint> is not"),
        (StructField("id", ArrayType(BinaryType())), "column id: binary is not parsed"),
        (StructField("id", StructType().add("a", "date")), "column id: date is not parsed"),
        (StructField("id", LongType(), nullable=False), "leave out not null"),
        (StructField("id", ArrayType(LongType(), containsNull=False)), "leave out not null"),
        (StructField("_corrupt", LongType()), "column _corrupt has the type string"),
    ],
)
def test_columns_that_json_cannot_have_are_refused(column: StructField, sentence: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        shape_of(StructType([column]), source_options(JSON))
    assert sentence in str(raised.value)


def test_the_bulk_plane_has_ranges_for_rows() -> None:
    schema = spark_schema(source_options(ONE | {"plane": "bulk"}))
    assert schema["start"].dataType == LongType()


def test_bytes_that_are_not_text_are_replaced() -> None:
    assert as_text(pa.array([b"ok"])).to_pylist() == ["ok"]
    assert as_text(pa.array([b"\xff", b"ok"])).to_pylist() == ["\ufffd", "ok"]


def test_columns_of_an_index_need_no_message() -> None:
    shape = Shape(("partition", "timestamp", "offset"))
    batch = index_batch(
        PartitionKey("a/b", 2), np.array([7, 8]), np.array([1, 2], np.uint64), shape
    )
    assert batch.column("partition").to_pylist() == [2, 2]
    assert batch.column("offset").to_pylist() == [7, 8]
    assert batch.schema.names == list(shape.columns)
