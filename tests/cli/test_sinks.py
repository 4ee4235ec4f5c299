import csv
import json
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.accelerators import without_accelerator
from tests.support.messages_read import polled_run

from borzoi.cli.faults import CommandFailed
from borzoi.cli.sinks import CSV_FIELDS, opened_sink
from borzoi.records.message import Message

PAYLOADS = [b"text", b'{"a": 1}', b"c,\n\xff", b""]


def run_of(*payloads: bytes, headers=None):
    return polled_run([Message(payload, id=1 << 100) for payload in payloads], headers=headers)


@pytest.mark.parametrize(("form", "lines"), [("jsonl", 3), ("csv", 5)])
def test_batches_follow_each_other(tmp_path, form, lines):
    path = tmp_path / "out"
    with opened_sink(form, path) as sink:
        sink(3, run_of(b"a", b"b"))
        sink(3, run_of(b"c,\n"))
    assert len(path.read_text().splitlines()) == lines


@pytest.mark.parametrize("headers", [None, {"kind": "x", "n": 1}])
def test_the_fields_of_a_message_in_csv(tmp_path, headers):
    path = tmp_path / "out.csv"
    with opened_sink("csv", path) as sink:
        sink(3, run_of(*PAYLOADS, headers=headers))
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == CSV_FIELDS
    assert [row["payload"] for row in rows] == ["text", '{"a": 1}', "c,\n\ufffd", ""]
    assert {row["partition"] for row in rows} == {"3"}
    assert [row["offset"] for row in rows] == ["0", "1", "2", "3"]
    assert {row["id"] for row in rows} == {str(1 << 100)}
    assert {row["headers"] for row in rows} == {json.dumps(headers) if headers else ""}


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("headers", [None, {"kind": "x", "n": 1}])
@pytest.mark.parametrize("way", [nullcontext, without_accelerator])
def test_the_columns_of_a_table(tmp_path, form, headers, way):
    path = tmp_path / "out"
    with way(), opened_sink(form, path) as sink:
        sink(3, run_of(*PAYLOADS, headers=headers))
        sink(4, run_of(b"last"))
    table = pq.read_table(path) if form == "parquet" else pa.ipc.open_file(path).read_all()
    rows = table.to_pylist()
    assert [row["payload"] for row in rows] == [*PAYLOADS, b"last"]
    assert [row["partition"] for row in rows] == [3, 3, 3, 3, 4]
    assert [row["offset"] for row in rows] == [0, 1, 2, 3, 0]
    assert {row["id"] for row in rows} == {str(1 << 100)}
    assert json.loads(rows[0]["headers"]) == (headers or {})
    assert rows[4]["headers"] == "{}"
    assert str(table.schema.field("timestamp").type) == "timestamp[us, tz=UTC]"


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_a_place_that_cannot_be_written(tmp_path, form):
    with pytest.raises(CommandFailed, match="cannot be"), opened_sink(form, tmp_path / "no" / "x"):
        pass


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_a_disk_that_is_full_fails_the_command(form):
    full = pytest.raises((CommandFailed, OSError), match="No space")
    with full, opened_sink(form, Path("/dev/full")) as sink:
        for _ in range(3):
            sink(0, run_of(b"x" * 3_000_000))
