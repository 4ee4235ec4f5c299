"""Merges small files into large ones and removes files that no commit names."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from borzoi.spark.lake.files import FileWriter, TableLayout
from borzoi.spark.lake.parquet import ParquetTable
from borzoi.spark.lake.sink import LakeOptions, table_of
from borzoi.spark.options import InvalidOption


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction."""

    files_before: int
    files_after: int
    orphans_removed: int


def compact(kind: str, directory: str, *, target_bytes: int, older_than_hours: float) -> Compacted:
    """Compact a table; files that are younger may belong to a query that is still running."""
    if kind == "parquet":
        return _compact_parquet(directory, target_bytes, older_than_hours)
    if kind == "delta":
        table = table_of(LakeOptions(kind, directory, "", None, TableLayout(directory), None))
        before = len(table.live_files())
        removed = table.rewrite(target_bytes, older_than_hours)  # type: ignore[attr-defined]
        return Compacted(before, len(table.live_files()), removed)
    raise InvalidOption(
        "pyiceberg cannot rewrite files: compact Iceberg tables with an engine that can"
    )


def _compact_parquet(directory: str, target_bytes: int, older_than_hours: float) -> Compacted:
    table = ParquetTable(directory)
    root = Path(directory)
    live = sorted(table.live_files())
    small: dict[str, list[str]] = {}
    for path in live:
        if (root / path).stat().st_size < target_bytes // 2:
            small.setdefault(Path(path).parent.as_posix(), []).append(path)
    for folder, paths in small.items():
        if len(paths) < 2:
            continue
        writer = FileWriter(TableLayout(str(root / folder), target_bytes=target_bytes))
        for path in paths:
            for batch in pq.ParquetFile(root / path).iter_batches():
                writer.write(batch)
        prefix = "" if folder == "." else f"{folder}/"
        table.replace(paths, [replace(f, path=f"{prefix}{f.path}") for f in writer.close()])
    removed = _remove_orphans(root, table.live_files(), older_than_hours)
    return Compacted(len(live), len(table.live_files()), removed)


def _remove_orphans(root: Path, live: set[str], older_than_hours: float) -> int:
    limit = time.time() - older_than_hours * 3600
    removed = 0
    for path in root.rglob("*.parquet"):
        if path.relative_to(root).as_posix() not in live and path.stat().st_mtime < limit:
            path.unlink()
            removed += 1
    return removed
