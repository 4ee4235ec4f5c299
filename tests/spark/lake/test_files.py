"""Parquet files of a task."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from borzoi.spark.lake.files import FileWriter, TableLayout, derived_schema, partitioner
from borzoi.spark.options import InvalidOption

BATCH = pa.RecordBatch.from_pydict(
    {
        "n": pa.array(range(6), pa.int64()),
        "country": ["AT", "CH", None, "AT", "a/b", "CH"],
        "at": pa.array(
            [datetime(2026, 1, 1 + n % 2, n, tzinfo=UTC) for n in range(6)],
            pa.timestamp("us", tz="UTC"),
        ),
        "payload": [b"x" * 100] * 6,
    }
)


def test_rows_are_written_and_counted(tmp_path: Path) -> None:
    writer = FileWriter(TableLayout(str(tmp_path)))
    writer.write(BATCH)
    writer.write(BATCH)
    writer.write(BATCH.slice(0, 0))
    (file,) = writer.close()
    assert file.rows == 12
    assert (file.least["n"], file.greatest["n"]) == (0, 5)
    assert file.size == (tmp_path / file.path).stat().st_size
    assert pq.read_table(tmp_path / file.path).num_rows == 12


def test_files_are_closed_at_their_size(tmp_path: Path) -> None:
    writer = FileWriter(TableLayout(str(tmp_path), target_bytes=1))
    for _ in range(3):
        writer.write(BATCH)
    assert [file.rows for file in writer.close()] == [6, 6, 6]


def test_partitions_are_folders_that_others_can_read(tmp_path: Path) -> None:
    layout = TableLayout(str(tmp_path), (partitioner("country"), partitioner("day(at)")))
    writer = FileWriter(layout)
    writer.write(BATCH)
    files = writer.close()
    assert sum(file.rows for file in files) == 6
    assert {file.partition["country"] for file in files} == {"AT", "CH", None, "a/b"}
    assert {file.partition["at_day"] for file in files} == {"2026-01-01", "2026-01-02"}
    flavour = ds.HivePartitioning(pa.schema([("country", pa.string()), ("at_day", pa.date32())]))
    found = ds.dataset(tmp_path, format="parquet", partitioning=flavour).to_table()
    assert sorted(found.column("n").to_pylist()) == list(range(6))
    assert set(found.column("country").to_pylist()) == {"AT", "CH", None, "a/b"}


def test_hours_are_cut_too(tmp_path: Path) -> None:
    writer = FileWriter(TableLayout(str(tmp_path), (partitioner("hour(at)"),)))
    writer.write(BATCH)
    hours = {file.partition["at_hour"] for file in writer.close()}
    assert "2026-01-01-04" in hours
    schema = derived_schema(BATCH.schema, (partitioner("hour(at)"),))
    assert schema.names[-1] == "at_hour"


def test_what_was_aborted_leaves_no_file(tmp_path: Path) -> None:
    writer = FileWriter(TableLayout(str(tmp_path), target_bytes=1))
    writer.write(BATCH)
    writer.write(BATCH)
    writer.abort()
    assert list(tmp_path.rglob("*.parquet")) == []
    half = FileWriter(TableLayout(str(tmp_path)))
    half.write(BATCH)
    half.abort()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_many_partitions_do_not_keep_many_files_open(tmp_path: Path) -> None:
    writer = FileWriter(TableLayout(str(tmp_path), (partitioner("n"),)))
    writer.write(pa.RecordBatch.from_pydict({"n": list(range(100)), "m": list(range(100))}))
    assert sum(file.rows for file in writer.close()) == 100


def test_a_partition_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"day\(column\)"):
        partitioner("week(at)")
