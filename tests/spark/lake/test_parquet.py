"""Manifests of a directory of Parquet files."""

from pathlib import Path

import pyarrow as pa
import pytest

from borzoi.spark.lake.files import DataFile
from borzoi.spark.lake.parquet import ParquetTable, _put
from borzoi.spark.lake.tables import Epoch
from borzoi.spark.options import InvalidOption

FILE = DataFile("part-1.parquet", 1, 1, {}, {}, {})


def test_the_first_writer_of_a_name_wins(tmp_path: Path) -> None:
    assert _put(tmp_path / "x", b"one")
    assert not _put(tmp_path / "x", b"two")
    assert (tmp_path / "x").read_bytes() == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_files_take_the_place_of_others(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    table.prepare(pa.schema([("n", pa.int64())]))
    table.commit([FILE], Epoch("q", 0))
    other = DataFile("part-2.parquet", 1, 1, {}, {}, {})
    table.replace([FILE.path], [other])
    assert table.live_files() == {other.path}
    assert table.committed_epoch("q") == 0


def test_two_commits_at_once_both_happen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer takes the number between the look and the link."""
    table, other = ParquetTable(str(tmp_path)), ParquetTable(str(tmp_path))
    table.prepare(pa.schema([("n", pa.int64())]))
    manifests = table.manifests
    calls = []

    def late() -> list:
        found = manifests()
        calls.append(1)
        if len(calls) == 2:
            other.commit([FILE], Epoch(f"other-{len(manifests())}", 0))
        return found

    monkeypatch.setattr(table, "manifests", late)
    assert table.commit([FILE], Epoch("q", 0))
    assert [each["query"] for each in manifests()] == ["other-0", "q"]
    calls[:] = [1]
    with pytest.raises(InvalidOption, match="try again"):
        table.replace([], [])
