"""Options: every text becomes a value or an error that says what is allowed."""

from pathlib import Path

import pytest

from borzoi.spark.option_values import Moment
from borzoi.spark.options import (
    SINK_ROWS,
    SOURCE_ROWS,
    Bound,
    InvalidOption,
    sink_options,
    source_options,
)

ONE = {"subscribe": "shop/orders"}
JSON = ONE | {"payloadFormat": "json", "payloadSchema": "id long, n int"}


def test_keys_are_read_in_any_case() -> None:
    options = source_options({"SUBSCRIBE": "a/b", "MAXOFFSETSPERTRIGGER": "5"})
    assert options.subscribe == ("a/b",)
    assert options.max_offsets == 5


def test_defaults_are_those_of_the_table() -> None:
    options = source_options(ONE)
    assert options.starting == Bound("earliest")
    assert options.ending == Bound("latest")
    assert options.fail_on_data_loss
    assert options.max_bytes_per_split is None
    assert options.connection.servers == "127.0.0.1:8090"


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        (ONE, "partition offset timestamp origin_timestamp id headers payload"),
        (ONE | {"headers": "none"}, "partition offset timestamp origin_timestamp id payload"),
        (ONE | {"columns": "payload, offset"}, "payload offset"),
        (JSON, "partition offset timestamp origin_timestamp headers payload"),
        (
            {"subscribe": "a/b,a/c"},
            "stream topic partition offset timestamp origin_timestamp id headers payload",
        ),
        (
            {"subscribePattern": "a/.*"},
            "stream topic partition offset timestamp origin_timestamp id headers payload",
        ),
    ],
)
def test_columns_follow_from_what_is_read(options: dict[str, str], columns: str) -> None:
    assert source_options(options).columns == tuple(columns.split())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "exactly one of subscribe, subscribePattern and assign"),
        (ONE | {"assign": '{"a/b":[0]}'}, "exactly one of"),
        (ONE | {"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        (ONE | {"zebra": "1"}, "there is no option 'zebra'"),
        ({"subscribe": "orders"}, "option subscribe = 'orders' is not allowed: stream/topic"),
        (ONE | {"startingOffsets": "newest"}, "earliest, latest, or JSON"),
        (ONE | {"startingOffsets": '{"a/b": 5}'}, "JSON such as"),
        (ONE | {"startingOffsets": "latest", "startingTimestamp": "-1h"}, "exclude each other"),
        (ONE | {"startingTimestamp": "yesterday"}, "a time such as"),
        (ONE | {"maxOffsetsPerTrigger": "0"}, "a whole number above zero"),
        (ONE | {"maxBytesPerTrigger": "0"}, "a size above zero"),
        (ONE | {"failOnDataLoss": "maybe"}, "one of true, false"),
        (ONE | {"columns": "offset,offset"}, "different names out of"),
        (ONE | {"payloadFormat": "jsn"}, "one of binary, string, json; did you mean json?"),
        (ONE | {"payloadFormat": "json"}, "payloadSchema belongs to payloadFormat=json"),
        (ONE | {"payloadSchema": "n long"}, "payloadSchema belongs to payloadFormat=json"),
        (JSON | {"payloadSchema": "n"}, "different columns such as id long"),
        (JSON | {"payloadSchema": "n long, N int"}, "different columns such as id long"),
        (JSON | {"payloadSchema": "_corrupt string"}, "not _corrupt"),
        (JSON | {"columns": "id,payload"}, "the column 'id' is in columns and in payloadSchema"),
        (JSON | {"plane": "bulk"}, "payloadFormat=json needs plane=row"),
        (ONE | {"segments": "direct"}, "needs the option dataDirectory"),
        (ONE | {"password": "x", "tokenEnv": "T"}, "password and tokenEnv exclude each other"),
        ({"subscribePattern": "("}, "a regular expression"),
        ({"assign": "[]"}, "JSON such as"),
        ({"assign": '{"a/b": 1}'}, "JSON such as"),
        ({"assign": "{"}, "JSON such as"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        source_options(options)
    assert sentence in str(raised.value)


def test_bounds_come_in_four_forms() -> None:
    assert source_options(ONE | {"startingOffsets": "latest"}).starting == Bound("latest")
    by_offset = source_options(ONE | {"startingOffsets": '{"0": 5, "1": -2}'}).starting
    assert by_offset == Bound(offsets={"": {0: 5, 1: -2}})
    by_time = source_options(ONE | {"endingTimestamp": "-2h"}).ending
    assert by_time == Bound(moment=Moment(7_200_000_000, is_relative=True))
    by_times = source_options(
        ONE
        | {
            "startingOffsetsByTimestamp": '{"shop/orders": {"0": 7}}',
            "startingOffsetsByTimestampStrategy": "error",
        }
    ).starting
    assert by_times == Bound(moments={"shop/orders": {0: 7}}, is_error_when_too_new=True)


def test_secrets_are_not_shown() -> None:
    options = source_options(ONE | {"password": "hush"})
    assert "hush" not in repr(options)


def test_a_sink_names_its_topic_and_its_ids() -> None:
    options = sink_options({"topic": "a/b", "idempotence": "key", "idColumns": "x, y"})
    assert options.topic == "a/b"
    assert options.id_columns == ("x", "y")
    with pytest.raises(InvalidOption, match="idColumns belongs to"):
        sink_options({"topic": "a/b", "idempotence": "key"})


def test_what_spark_adds_is_passed_over() -> None:
    assert sink_options({"topic": "a/b", "checkpointLocation": "x", "path": "y"}).topic == "a/b"


def test_the_documentation_has_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    missing = [row.name for row in (*SOURCE_ROWS, *SINK_ROWS) if f"| `{row.name}` |" not in page]
    assert missing == []
