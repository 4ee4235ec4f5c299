"""What every table format promises, tried on all of them."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from borzoi.spark.lake.delta import DeltaLakeTable
from borzoi.spark.lake.files import DataFile, FileWriter, TableLayout
from borzoi.spark.lake.iceberg import IcebergTable
from borzoi.spark.lake.parquet import ParquetTable
from borzoi.spark.lake.tables import Epoch, Table
from borzoi.spark.options import InvalidOption

SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("payload", pa.binary())])

MAKERS: dict[str, Callable[[str], Table]] = {
    "parquet": ParquetTable,
    "delta": DeltaLakeTable,
    "iceberg": lambda directory: IcebergTable(directory, "lake.events"),
}


@pytest.fixture(params=MAKERS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Table, Path]:
    table = MAKERS[request.param](str(tmp_path / "table"))
    table.prepare(SCHEMA)
    return table, tmp_path / "table"


def files(directory: Path, first: int, count: int) -> list[DataFile]:
    writer = FileWriter(TableLayout(str(directory)))
    numbers = range(first, first + count)
    writer.write(
        pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([0] * count, pa.int32()),
                "offset": pa.array(numbers, pa.int64()),
                "payload": pa.array([b"x"] * count),
            }
        )
    )
    return writer.close()


def test_an_epoch_is_committed_once(made: tuple[Table, Path]) -> None:
    table, directory = made
    assert table.committed_epoch("q") is None
    first = files(directory, 0, 10)
    assert table.commit(first, Epoch("q", 0))
    assert not table.commit(files(directory, 0, 10), Epoch("q", 0))
    second = files(directory, 10, 5)
    assert table.commit(second, Epoch("q", 3))
    assert not table.commit(files(directory, 99, 1), Epoch("q", 2))
    assert table.committed_epoch("q") == 3
    assert table.live_files() == {file.path for file in [*first, *second]}


def test_queries_do_not_get_in_each_others_way(made: tuple[Table, Path]) -> None:
    table, directory = made
    assert table.commit(files(directory, 0, 1), Epoch("a", 5))
    assert table.commit(files(directory, 1, 1), Epoch("b", 0))
    assert (table.committed_epoch("a"), table.committed_epoch("b")) == (5, 0)


def test_a_table_that_is_there_is_kept_and_other_columns_are_refused(
    made: tuple[Table, Path],
) -> None:
    table, directory = made
    table.commit(files(directory, 0, 1), Epoch("q", 0))
    table.prepare(SCHEMA)
    assert len(table.live_files()) == 1
    with pytest.raises(InvalidOption, match="columns"):
        table.prepare(pa.schema([("other", pa.int64())]))
