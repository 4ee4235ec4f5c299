from collections.abc import Callable
from typing import Any

import pytest

from borzoi.model.errors import InvalidFormat
from borzoi.spark import option_values


def test_moments_are_absolute_or_relative() -> None:
    assert option_values.moment("1970-01-01T00:00:01Z").at(99) == 1_000_000
    assert option_values.moment("1970-01-01T00:00:01").at(99) == 1_000_000
    assert option_values.moment("12").at(99) == 12
    assert option_values.moment("-10us").at(99) == 89
    assert option_values.moment("-10m").at(99) == 0


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (option_values.one_of("raw", "map"), "MAP", "map"),
        (option_values.boolean, "True", True),
        (option_values.positive, "12", 12),
        (option_values.size_above_zero, "2 KiB", 2048),
        (option_values.different("a", "b"), "b, a", ("b", "a")),
        (option_values.topic_names, "s/t, s/u", ("s/t", "s/u")),
        (option_values.partition_table, '{"0": 5}', {"": {0: 5}}),
        (option_values.partition_table, '{"s/t": {"1": -2}}', {"s/t": {1: -2}}),
        (option_values.assigned_partitions, '{"s/t": [1, 0, 1]}', {"s/t": (0, 1)}),
        (option_values.limit, "Earliest", "earliest"),
    ],
)
def test_a_text_becomes_a_value(read: Callable[[str], Any], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "allowed"),
    [
        (option_values.one_of("raw", "map"), "typed", "one of raw, map"),
        (option_values.positive, "-1", "a whole number above zero"),
        (option_values.size_above_zero, "0", "a size above zero"),
        (option_values.different("a", "b"), "a,a", "different names out of a, b"),
        (option_values.different("a", "b"), "c", "different names out of a, b"),
        (option_values.topic_name, "s/", "stream/topic"),
        (option_values.pattern, "(", "a regular expression"),
        (option_values.partition_table, '{"s/t": 1}', "JSON such as"),
        (option_values.assigned_partitions, "[]", "JSON such as"),
        (option_values.limit, "newest", "earliest, latest, or JSON"),
        (option_values.moment, "yesterday", "a time such as"),
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
    found = option_values.payload_columns(ddl)
    assert list(found) == names
    assert ", ".join(found.values()).replace(" ", "") == ddl.replace(" ", "")


@pytest.mark.parametrize("ddl", ["", "a", "a int,", "a int, A long", "_Corrupt string", "`a int"])
def test_columns_of_payloads_that_cannot_be(ddl: str) -> None:
    with pytest.raises(InvalidFormat, match="different columns such as"):
        option_values.payload_columns(ddl)
