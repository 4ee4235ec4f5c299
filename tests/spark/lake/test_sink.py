"""The lake sink on both planes."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.spark.conftest import fill

from borzoi.spark.broker import Broker
from borzoi.spark.lake.iceberg import IcebergTable
from borzoi.spark.lake.parquet import ParquetTable
from borzoi.spark.lake.sink import LakeDataSource, lake_options
from borzoi.spark.options import InvalidOption


def test_options_are_checked() -> None:
    with pytest.raises(InvalidOption, match="directory is missing"):
        lake_options({"table": "delta"}, is_bulk=False)
    with pytest.raises(InvalidOption, match="parquet, delta, iceberg"):
        lake_options({"table": "orc", "directory": "x"}, is_bulk=False)
    with pytest.raises(InvalidOption, match="did you mean directory"):
        lake_options({"directry": "x"}, is_bulk=False)
    with pytest.raises(InvalidOption, match="JSON such as"):
        lake_options({"directory": "x", "catalog": "[]"}, is_bulk=False)
    bulk = lake_options({"directory": "x", "subscribe": "a/b", "headers": "map"}, is_bulk=True)
    assert bulk.source is not None
    assert bulk.source.headers == "map"
    with pytest.raises(InvalidOption, match="mode append"):
        LakeDataSource({"directory": "x"}).writer(StructType(), overwrite=True)
    with pytest.raises(InvalidOption, match="outputMode append"):
        LakeDataSource({"directory": "x"}).streamWriter(StructType(), overwrite=True)


@pytest.mark.spark
def test_both_planes_write_the_same_tables(
    spark: SparkSession, reading: dict[str, str], broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Delta on the row plane, Iceberg and Parquet on the bulk plane; a second run adds nothing."""
    for partition in range(3):
        fill(broker, topic, partition, [b"%d:%d" % (partition, n) * 20 for n in range(4000)])
    reading["maxOffsetsPerTrigger"] = "7000"
    for _ in range(2):
        queries = []
        for kind, plane in (("delta", "row"), ("iceberg", "bulk"), ("parquet", "bulk")):
            frame = spark.readStream.format("borzoi").options(**reading, plane=plane).load()
            writer = frame.writeStream.format("borzoi-lake").options(
                table=kind, directory=str(tmp_path / kind), partitionBy="partition"
            )
            if plane == "bulk":
                writer = writer.options(**reading)
            writer = writer.option("checkpointLocation", str(tmp_path / f"checkpoint-{kind}"))
            queries.append(writer.trigger(availableNow=True).start())
        for query in queries:
            query.awaitTermination()
    expected = sorted((p, n) for p in range(3) for n in range(4000))
    delta = DeltaTable(str(tmp_path / "delta"))
    iceberg = IcebergTable(str(tmp_path / "iceberg"), "borzoi.messages").table()
    for rows in (delta.to_pyarrow_table(), iceberg.scan().to_arrow()):
        places = zip(
            rows.column("partition").to_pylist(), rows.column("offset").to_pylist(), strict=True
        )
        assert sorted(places) == expected
        payloads = zip(
            rows.column("offset").to_pylist(), rows.column("payload").to_pylist(), strict=True
        )
        assert all(b":%d" % offset in payload for offset, payload in payloads)
    assert len(list(iceberg.snapshots())) == 2
    parquet = ParquetTable(str(tmp_path / "parquet"))
    assert len(parquet.manifests()) == 2
    files = [tmp_path / "parquet" / path for path in parquet.live_files()]
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in files) == 12000
