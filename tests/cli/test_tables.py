import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.cli.tables import (
    U64_MAX,
    fitted,
    print_list,
    print_record,
    print_table,
    size_text,
    text_of,
    when,
    with_units,
)

DAY_US = 24 * 3600 * 1_000_000


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("name", None, "–"),
        ("created_at", 0, "never"),
        ("created_at", 1_500_000, when(1_500_000)),
        ("max_topic_size", U64_MAX, "unlimited"),
        ("message_expiry", U64_MAX, "never"),
        ("active", True, "yes"),
        ("active", False, "no"),
        ("headers", {"a": 1, "b": 2}, "a=1, b=2"),
        ("globally", {"read_users": True, "manage_users": False}, "read users"),
        ("globally", {"read_users": False}, "none"),
        ("partitions", [1, 2], "1, 2"),
        ("members", [], "–"),
        ("size_bytes", 12_345, "12345"),
    ],
)
def test_a_field_as_exact_text(field, value, text):
    assert text_of(field, value) == text


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("created_at", 0, "never"),
        ("created_at", 1_500_000, when(1_500_000).partition(".")[0]),
        ("size_bytes", 12_345, "12.3 KB"),
        ("max_topic_size", U64_MAX, "unlimited"),
        ("message_expiry", 7 * DAY_US, "7d"),
        ("message_expiry", U64_MAX, "never"),
        ("cpu_usage", 0.4404599, "0.4 %"),
        ("messages_count", 12_345, "12345"),
        ("is_active", True, "yes"),
    ],
)
def test_a_field_with_its_unit(field, value, text):
    assert with_units(field, value) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 KB"), (70_684, "70.7 KB"), (258_292, "258 KB")],
)
def test_a_size_has_three_digits(size, text):
    assert size_text(size) == text


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("row", [["x" * 90, "y"], ["x " * 45, "y"]])
def test_a_table_fits_the_terminal_and_loses_nothing(capsys, monkeypatch, columns, row):
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table([row], ["Long", "Short"])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= columns
    assert text.count("x") == row[0].count("x")
    assert "y" in text


def test_what_does_not_fit_is_a_block_for_each_row(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    print_table([["a" * 12, "b" * 12], ["c", "d"]], ["First", "Second"])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [f"First   {'a' * 12}", f"Second  {'b' * 12}", "", "First   c", "Second  d"]


def test_a_pipe_has_no_width(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table([["x" * 500, "y"]], ["Long", "Short"])
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_lists_inside_one_thing_are_tables(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    partitions = [{"id": 0, "size_bytes": 5_000}, {"id": 1, "size_bytes": 6}]
    print_record({"name": "orders", "partitions": partitions, "members": []})
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:4] == ["name     orders", "members  –", "", "partitions"]
    assert lines[4] == "id  size bytes"
    assert lines[6:] == [" 0  5.00 KB", " 1  6 B"]


def test_an_empty_list_still_has_its_headings(capsys):
    print_list([], {"id": "ID", "name": "Name"})
    assert capsys.readouterr().out.startswith("ID  Name")


cells = st.text("ab ", max_size=40)


@given(
    st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=4), st.integers(1, 99)
)
def test_columns_never_take_more_than_the_room(columns, room):
    widths = fitted(columns, room)
    if widths is not None:
        assert sum(widths) <= room
        words = [max(map(len, " ".join(column).split()), default=0) for column in columns]
        assert all(width >= word for width, word in zip(widths, words, strict=True))
