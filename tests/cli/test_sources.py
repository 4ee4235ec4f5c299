import json

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
    expected: list[tuple[str | None, bytes]]
    expected = [(None, b'{"b": 1,  "a": 2}'), (None, b"a text"), (None, b"[1]")]
    assert rows(path) == [Rows(expected, 1.0)]


def test_the_share_of_the_file_that_was_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"n": number}) + "\n" for number in range(BATCH * 30)))
    shares = [one.share for one in rows(path)]
    assert len(shares) == 30
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.5
    assert shares[-1] == 1.0


@pytest.mark.parametrize("field", [None, "a"])
def test_a_line_that_is_not_json_is_named(tmp_path, field):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\noops\n')
    with pytest.raises(CommandFailed, match=r"line 2 of .*rows\.jsonl is not JSON"):
        rows(path, payload_field=field)


def test_keys_and_payloads_of_fields(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("who,n\nann,1\n")
    assert rows(path, "csv", "who", "n") == [Rows([("ann", b"1")], 1.0)]
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
