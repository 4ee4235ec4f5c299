import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.accelerators import needs_accelerator, without_accelerator

from borzoi.cli.faults import CommandFailed
from borzoi.cli.sources import BATCH, Rows, batched, payload_of, rows_of
from borzoi.client.messages import decode_messages
from borzoi.records.accelerator import native
from borzoi.records.columnar import Encoded

pytestmark = pytest.mark.usefixtures("both_ways")


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
    found = list(rows_of(path, form, key_field=key_field, payload_field=payload_field))
    assert all(len(plainly(one).payloads) == one.messages_count for one in found)
    return [plainly(one) for one in found]


def plainly(found):
    """Rows with their payloads as bytes, if they are encoded already."""
    if not isinstance(found.payloads, Encoded):
        return found
    messages = decode_messages(found.payloads.messages, 0)
    ends = np.cumsum([64 + len(one.payload) for one in messages])
    assert found.payloads.ends.tolist() == ends.tolist()
    for one in messages:
        assert (one.id, one.encoded_headers) == (0, b"")
        assert abs(one.origin_time - datetime.now(UTC)) < timedelta(minutes=5)
    return found._replace(payloads=[one.payload for one in messages])


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


# ---- the accelerator reads the same -------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
documents = st.dictionaries(st.sampled_from(["a", "b", "é", 'q"']), values, max_size=3) | values


def said_of(path, field):
    try:
        return rows(path, payload_field=field)
    except CommandFailed as fault:
        return str(fault)


@needs_accelerator
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(documents, max_size=5),
    st.sampled_from([None, "a", "é", 'q"', "absent"]),
    st.booleans(),
    st.sampled_from(["\n", "\n", "\r\n", "\n\n", " \n"]),
    st.integers(0, 400),
    st.binary(max_size=2),
)
def test_lines_are_read_alike_with_and_without_the_accelerator(
    tmp_path, sent, field, is_ascii, ending, place, damage
):
    path = tmp_path / "rows.jsonl"
    text = "".join(json.dumps(one, ensure_ascii=is_ascii) + ending for one in sent)
    whole = bytearray(text.encode("utf-8", "surrogatepass"))
    damaged = bytes(whole[:place]) + damage + bytes(whole[place + len(damage) :])
    # Line by line too: one that only Python can read hides the others.
    for written in (bytes(whole), bytes(whole.rstrip()), damaged, *damaged.splitlines(True)):
        path.write_bytes(written)
        accelerated = said_of(path, field)
        with without_accelerator():
            assert said_of(path, field) == accelerated


@needs_accelerator
@pytest.mark.parametrize("field", [None, b"p"])
@pytest.mark.parametrize("value", ['"text \\n"', "{}", '{"a": [1, 2.5]}', "7", "null", '"é"'])
def test_common_lines_are_not_left_to_python(value, field):
    line = f'{{"x": 1, "p": {value}}}\n' if field else f"{value}\n"
    assert native is not None
    assert native.json_messages(line.encode() * 3, field, 0) is not None


@needs_accelerator
@pytest.mark.parametrize(
    "line",
    ["\n", '{"p": 1, "p": 2}', '{"x": 1}', '{"p": "\\u00e9"}', '{"p": 1e400}', '{"p"', "[1]"],
)
def test_lines_that_need_rules_are_left_to_python(line):
    assert native is not None
    assert native.json_messages(line.encode(), b"p", 0) is None
