"""Compaction keeps every row."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.conftest import commit_epochs

from borzoi.spark.lake.compacting import compact
from borzoi.spark.lake.delta import DeltaLakeTable
from borzoi.spark.lake.files import TableLayout, partitioner
from borzoi.spark.lake.parquet import ParquetTable
from borzoi.spark.options import InvalidOption


def test_small_files_of_a_directory_become_large_ones(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    batch = pa.RecordBatch.from_pydict({"n": [1, 2, 3], "country": ["AT", "CH", "AT"]})
    commit_epochs(table, TableLayout(str(tmp_path), (partitioner("country"),)), batch, 5)
    (tmp_path / "country=AT" / "part-orphan.parquet").write_bytes(b"")
    young = compact("parquet", str(tmp_path), target_bytes=1 << 20, older_than_hours=1)
    assert (young.files_before, young.files_after, young.orphans_removed) == (10, 2, 0)
    done = compact("parquet", str(tmp_path), target_bytes=1 << 20, older_than_hours=-1)
    assert done.orphans_removed == 11
    numbers = [
        n
        for path in table.live_files()
        for n in pq.ParquetFile(tmp_path / path).read().column("n").to_pylist()
    ]
    assert sorted(numbers) == [1] * 5 + [2] * 5 + [3] * 5


def test_delta_compacts_by_its_own_library(tmp_path: Path) -> None:
    table = DeltaLakeTable(str(tmp_path))
    batch = pa.RecordBatch.from_pydict({"n": [1]})
    commit_epochs(table, TableLayout(str(tmp_path)), batch, 3)
    done = compact("delta", str(tmp_path), target_bytes=1 << 20, older_than_hours=0)
    assert (done.files_before, done.files_after) == (3, 1)


def test_iceberg_is_left_to_other_engines(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="pyiceberg cannot"):
        compact("iceberg", str(tmp_path), target_bytes=1, older_than_hours=1)
