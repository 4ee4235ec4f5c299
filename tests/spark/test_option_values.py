from collections.abc import Callable
from typing import Any

import pytest

from borzoi.model.errors import InvalidFormat
from borzoi.spark.option_values import (
    assigned_partitions,
    boolean,
    different,
    limit,
    moment,
    one_of,
    partition_table,
    pattern,
    payload_columns,
    positive,
    size_above_zero,
    topic_name,
    topic_names,
)


def test_moments_are_absolute_or_relative() -> None:
    assert moment("1970-01-01T00:00:01Z").at(99) == 1_000_000
    assert moment("1970-01-01T00:00:01").at(99) == 1_000_000
    assert moment("12").at(99) == 12
    assert moment("-10us").at(99) == 89
    assert moment("-10m").at(99) == 0


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (one_of("raw", "map"), "MAP", "map"),
        (boolean, "True", True),
        (positive, "12", 12),
        (size_above_zero, "2 KiB", 2048),
        (different("a", "b"), "b, a", ("b", "a")),
        (topic_names, "s/t, s/u", ("s/t", "s/u")),
        (partition_table, '{"0": 5}', {"": {0: 5}}),
        (partition_table, '{"s/t": {"1": -2}}', {"s/t": {1: -2}}),
        (assigned_partitions, '{"s/t": [1, 0, 1]}', {"s/t": (0, 1)}),
        (limit, "Earliest", "earliest"),
    ],
)
def test_a_text_becomes_a_value(read: Callable[[str], Any], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "allowed"),
    [
        (one_of("raw", "map"), "typed", "one of raw, map"),
        (positive, "-1", "a whole number above zero"),
        (size_above_zero, "0", "a size above zero"),
        (different("a", "b"), "a,a", "different names out of a, b"),
        (different("a", "b"), "c", "different names out of a, b"),
        (topic_name, "s/", "stream/topic"),
        (pattern, "(", "a regular expression"),
        (partition_table, '{"s/t": 1}', "JSON such as"),
        (assigned_partitions, "[]", "JSON such as"),
        (limit, "newest", "earliest, latest, or JSON"),
        (moment, "yesterday", "a time such as"),
    ],
)
def test_an_error_says_what_is_allowed(read: Callable[[str], Any], text: str, allowed: str) -> None:
    with pytest.raises(InvalidFormat) as raised:
        read(text)
    assert allowed in str(raised.value)


@pytest.mark.parametrize(
    ("ddl", "names"),
    [
        ("id long", ["id"]),
        (" a: int,b decimal(5, 2) , c struct<x: int, y: map<string, int>>", ["a", "b", "c"]),
        ("`a, ``b` int, c string comment 'it, (is', d int", ["a, `b", "c", "d"]),
    ],
)
def test_columns_of_payloads_have_names(ddl: str, names: list[str]) -> None:
    found = payload_columns(ddl)
    assert list(found) == names
    assert ", ".join(found.values()).replace(" ", "") == ddl.replace(" ", "")


@pytest.mark.parametrize("ddl", ["", "a", "a int,", "a int, A long", "_Corrupt string", "`a int"])
def test_columns_of_payloads_that_cannot_be(ddl: str) -> None:
    with pytest.raises(InvalidFormat, match="different columns such as"):
        payload_columns(ddl)
