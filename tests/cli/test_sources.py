import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from borzoi.cli.faults import CommandFailed
from borzoi.cli.sources import BATCH, Rows, batched, payload_of, rows_of


@pytest.mark.parametrize(
    ("value", "payload"),
    [("é", "é".encode()), (b"\xff", b"\xff"), ({"a": 1}, b'{"a":1}'), (7, b"7"), (None, b"null")],
)
def test_the_payload_of_a_row(value, payload):
    assert payload_of(value) == payload


def test_batches_of_rows():
    assert list(batched(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(batched([], 2)) == []


def rows(path, form="jsonl", key_field=None, payload_field=None):
    return list(rows_of(path, form, key_field=key_field, payload_field=payload_field))


def test_whole_lines_are_sent_as_they_stand(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"b": 1,  "a": 2}\n\n"a text"\n[1]\n')
    assert rows(path) == [Rows([b'{"b": 1,  "a": 2}', b"a text", b"[1]"], None, 1.0)]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_the_fraction_of_the_file_that_was_read(tmp_path, form):
    path = tmp_path / f"rows.{form}"
    lines = [json.dumps({"n": number}) for number in range(BATCH * 300)]
    path.write_text("n\n" * (form == "csv") + "\n".join(lines))
    found = rows(path, form)
    assert sum(len(one.payloads) for one in found) == len(lines)
    fractions = [one.fraction for one in found]
    assert len(fractions) > 3
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] < 0.5
    assert fractions[-1] == 1.0


def test_lines_are_cut_where_they_end(tmp_path):
    path = tmp_path / "rows.jsonl"
    numbers = list(range(400_000))
    path.write_text("".join(f"{number}\n" for number in numbers))
    found = rows(path)
    assert len(found) > 1
    assert [int(payload) for one in found for payload in one.payloads] == numbers


@pytest.mark.parametrize("key", [None, "who"])
def test_fields_of_lines(tmp_path, key):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"who": "ann", "n": {"x":  1}}\n{"n": "a text", "more": [1], "who": 7}\n')
    keys = None if key is None else ["ann", "7"]
    assert rows(path, "jsonl", key, "n") == [Rows([b'{"x":  1}', b"a text"], keys, 1.0)]
    assert rows(path, "jsonl", "who") == [
        Rows(
            [b'{"who":"ann","n":{"x":  1}}', b'{"n":"a text","more":[1],"who":7}'],
            ["ann", "7"],
            1.0,
        )
    ]


def test_columns_of_a_table(tmp_path):
    path = tmp_path / "rows.parquet"
    columns = {"raw": [b"a", b"\xff"], "text": ["b", "c"], "n": [1, 2], "gap": [b"d", None]}
    pq.write_table(pa.table(columns), path)
    for name, payloads in (("raw", [b"a", b"\xff"]), ("text", [b"b", b"c"])):
        (found,) = rows(path, "parquet", None, name)
        assert (found.payloads.to_pylist(), found.keys, found.fraction) == (payloads, None, 1.0)
    assert rows(path, "parquet", "n", "text") == [Rows([b"b", b"c"], ["1", "2"], 1.0)]
    assert rows(path, "parquet", None, "n") == [Rows([b"1", b"2"], None, 1.0)]
    assert rows(path, "parquet", None, "gap") == [Rows([b"d", b"null"], None, 1.0)]
    with pytest.raises(CommandFailed, match="has no column 'x'"):
        rows(path, "parquet", None, "x")


@pytest.mark.parametrize("field", [None, "a"])
def test_a_line_that_is_not_json_is_named(tmp_path, field):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\noops\n')
    with pytest.raises(CommandFailed, match=r"line 2 of .*rows\.jsonl is not JSON"):
        rows(path, payload_field=field)


def test_keys_and_payloads_of_fields(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("who,n\nann,1\n")
    assert rows(path, "csv", "who", "n") == [Rows([b"1"], ["ann"], 1.0)]
    with pytest.raises(CommandFailed, match="has no field 'x'"):
        rows(path, "csv", "x")


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_text("oops")
    with pytest.raises(CommandFailed, match="is not a Parquet file"):
        rows(path, "parquet")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(CommandFailed, match="cannot be opened"):
        rows(tmp_path / "rows.csv", "csv")
