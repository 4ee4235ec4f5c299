"""Iceberg tables: what other readers see."""

from pathlib import Path

import pyarrow as pa

from borzoi.spark.lake.files import FileWriter, TableLayout, partitioner
from borzoi.spark.lake.iceberg import IcebergTable, default_catalog
from borzoi.spark.lake.tables import Epoch


def test_rows_and_epochs_are_in_the_table(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, 2, 3], "country": ["AT", "CH", "AT"]})
    table = IcebergTable(str(tmp_path), "lake.orders", ["country"])
    assert table.committed_epoch("q") is None
    table.prepare(batch.schema)
    layout = TableLayout(str(tmp_path), (partitioner("country"),), keeps_partition_columns=True)
    for epoch in range(2):
        writer = FileWriter(layout)
        writer.write(batch)
        assert table.commit(writer.close(), Epoch("q", epoch))
    assert table.commit([], Epoch("q", 2))
    found = table.table()
    assert found.scan().to_arrow().num_rows == 6
    assert found.scan("country = 'CH'").to_arrow().column("n").to_pylist() == [2, 2]
    assert [s.summary["borzoi.epoch"] for s in found.snapshots() if s.summary] == ["0", "1"]
    assert table.committed_epoch("q") == 2


def test_the_catalog_is_a_file_beside_the_table(tmp_path: Path) -> None:
    properties = default_catalog(str(tmp_path / "t"))
    assert properties["uri"].endswith("/t/_borzoi_catalog.db")
