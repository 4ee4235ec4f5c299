"""Delta tables: what other readers see."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from tests.spark.conftest import commit_epochs

from borzoi.spark.lake.delta import DeltaLakeTable
from borzoi.spark.lake.files import TableLayout, partitioner


def test_partitions_and_statistics_are_in_the_log(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, 2, 3], "country": ["AT", "CH", "AT"]})
    table = DeltaLakeTable(str(tmp_path), ["country"])
    commit_epochs(table, TableLayout(str(tmp_path), (partitioner("country"),)), batch, 1)
    found = DeltaTable(str(tmp_path))
    rows = found.to_pyarrow_table().to_pylist()
    assert sorted(rows, key=lambda row: row["n"]) == batch.to_pylist()
    assert found.transaction_version("q") == 0
    only = found.to_pyarrow_table(filters=[("country", "=", "CH")])
    assert only.column("n").to_pylist() == [2]


def test_small_files_are_rewritten(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})
    table = DeltaLakeTable(str(tmp_path))
    commit_epochs(table, TableLayout(str(tmp_path)), batch, 4)
    assert table.rewrite(1 << 20, 0) >= 4
    assert len(table.live_files()) == 1
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 12
    assert table.committed_epoch("q") == 3
