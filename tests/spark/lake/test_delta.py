"""Delta tables: what other readers see."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from borzoi.spark.lake.delta import DeltaLakeTable
from borzoi.spark.lake.files import FileWriter, TableLayout, partitioner
from borzoi.spark.lake.tables import Epoch


def test_partitions_and_statistics_are_in_the_log(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, 2, 3], "country": ["AT", "CH", "AT"]})
    table = DeltaLakeTable(str(tmp_path), ["country"])
    table.prepare(batch.schema)
    writer = FileWriter(TableLayout(str(tmp_path), (partitioner("country"),)))
    writer.write(batch)
    table.commit(writer.close(), Epoch("q", 0))
    found = DeltaTable(str(tmp_path))
    rows = found.to_pyarrow_table().to_pylist()
    assert sorted(rows, key=lambda row: row["n"]) == batch.to_pylist()
    assert found.transaction_version("q") == 0
    only = found.to_pyarrow_table(filters=[("country", "=", "CH")])
    assert only.column("n").to_pylist() == [2]


def test_small_files_are_rewritten(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, 2, 3]})
    table = DeltaLakeTable(str(tmp_path))
    table.prepare(batch.schema)
    for epoch in range(4):
        writer = FileWriter(TableLayout(str(tmp_path)))
        writer.write(batch)
        table.commit(writer.close(), Epoch("q", epoch))
    assert table.rewrite(1 << 20, 0) >= 4
    assert len(table.live_files()) == 1
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 12
    assert table.committed_epoch("q") == 3
