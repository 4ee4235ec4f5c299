"""Parquet files of a task: written under unique names, rolled by size, sorted into partitions.

A partition of a table is a column (`country`), or a day or hour of a timestamp (`day(at)`), which
becomes a column of its own (`at_day`).
"""

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from borzoi.spark.options import InvalidOption

_TRANSFORM = re.compile(r"(day|hour)\((\w+)\)")
NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
#: Limit of open files per task; opening one more closes the fullest.
WRITERS_MAX: Final = 64
#: A page is filled, then compressed: it should still be in the cache of the processor by then.
PAGE_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Partitioner:
    """One partition column: `source` as it is, or cut to days or hours."""

    name: str
    source: str
    transform: str | None = None


def partitioner(text: str) -> Partitioner:
    """`country`, `day(at)` or `hour(at)`."""
    found = _TRANSFORM.fullmatch(text)
    if found:
        return Partitioner(f"{found[2]}_{found[1]}", found[2], found[1])
    if not text.isidentifier():
        raise InvalidOption(
            f"partition_by has {text!r}; allowed are a column, day(column) and hour(column)"
        )
    return Partitioner(text, text)


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How the files of a table look."""

    directory: str
    partition_by: tuple[Partitioner, ...] = ()
    target_bytes: int = 128 * 1024 * 1024
    compression: str = "zstd"
    #: Whether files hold the partition columns; Hive-style tables have them in the path only.
    keeps_partition_columns: bool = False


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that is written and closed, and not yet part of the table."""

    path: str  # relative to the directory of the table
    size: int
    rows: int
    partition: Mapping[str, str | None]
    #: Least and greatest value of integer columns, for the statistics of the table.
    least: Mapping[str, int]
    greatest: Mapping[str, int]


def derived(batch: pa.RecordBatch, partition_by: Iterable[Partitioner]) -> pa.RecordBatch:
    """Return the batch with a column for each transformed partition."""
    for each in partition_by:
        if each.transform is None or each.name in batch.schema.names:
            continue
        values = batch.column(each.source)
        cut = values.cast(pa.date32()) if each.transform == "day" else _hours(values)
        batch = batch.append_column(each.name, cut)
    return batch


def derived_schema(schema: pa.Schema, partition_by: Iterable[Partitioner]) -> pa.Schema:
    """The schema that `derived` gives batches of this schema."""
    return derived(pa.RecordBatch.from_pylist([], schema=schema), partition_by).schema


def _hours(values: pa.Array) -> pa.Array:
    return pc.strftime(pc.floor_temporal(values, unit="hour"), format="%Y-%m-%d-%H")


class FileWriter:
    """Writes the batches of one task; `close` returns the files."""

    def __init__(self, layout: TableLayout) -> None:
        self._layout = layout
        self._open: dict[tuple[str | None, ...], _OpenFile] = {}
        self._done: list[DataFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        partition_by = self._layout.partition_by
        batch = derived(batch, partition_by)
        if not partition_by:
            self._append((), batch)
            return
        names = [each.name for each in partition_by]
        keys = [_texts(batch.column(name)) for name in names]
        codes = np.zeros(batch.num_rows, np.int64)
        for key in keys:
            encoded = key.dictionary_encode(null_encoding="encode")
            codes = codes * (len(encoded.dictionary) + 1)
            codes += encoded.indices.to_numpy(zero_copy_only=False)
        kept = batch if self._layout.keeps_partition_columns else batch.drop_columns(names)
        order = np.argsort(codes, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
            values = tuple(key[int(rows[0])].as_py() for key in keys)
            self._append(values, kept.take(pa.array(rows)))

    def close(self) -> list[DataFile]:
        for values in list(self._open):
            self._finish(values)
        return self._done

    def abort(self) -> None:
        """Remove the written files; those of a dead process stay until `compact` removes them."""
        for each in self._open.values():
            each.close()
            each.path.unlink(missing_ok=True)
        for done in self._done:
            (Path(self._layout.directory) / done.path).unlink(missing_ok=True)

    def _append(self, values: tuple[str | None, ...], batch: pa.RecordBatch) -> None:
        if values not in self._open:
            if len(self._open) >= WRITERS_MAX:
                self._finish(max(self._open, key=lambda key: self._open[key].bytes_in))
            self._open[values] = _OpenFile(self._layout, values, batch.schema)
        opened = self._open[values]
        opened.write(batch)
        if opened.is_full:
            self._finish(values)

    def _finish(self, values: tuple[str | None, ...]) -> None:
        self._done.append(self._open.pop(values).close())


class _OpenFile:
    """One Parquet file being written."""

    def __init__(
        self, layout: TableLayout, values: tuple[str | None, ...], schema: pa.Schema
    ) -> None:
        self._layout = layout
        names = [each.name for each in layout.partition_by]
        self._partition = dict(zip(names, values, strict=True))
        folders = [
            f"{name}={NULL_FOLDER if value is None else quote(value, safe=' ')}"
            for name, value in self._partition.items()
        ]
        self._relative = "/".join([*folders, f"part-{uuid.uuid4().hex}.parquet"])
        self.path = Path(layout.directory) / self._relative
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("xb")
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression=layout.compression,
            compression_level=1 if layout.compression == "zstd" else None,
            # Payloads rarely repeat; trying a dictionary costs more than it saves.
            use_dictionary=False,
            data_page_size=PAGE_BYTES,
            write_statistics=_counted(schema),
            # Parquet stores views as binary, and readers are to see them as such.
            store_schema=not any(pa.types.is_binary_view(field.type) for field in schema),
        )
        self.bytes_in = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self.bytes_in += batch.nbytes

    @property
    def is_full(self) -> bool:
        return self._file.tell() >= self._layout.target_bytes

    def close(self) -> DataFile:
        self._writer.close()
        size = self._file.tell()
        self._file.close()
        metadata = pq.read_metadata(self.path)
        least, greatest = _bounds(metadata)
        return DataFile(self._relative, size, metadata.num_rows, self._partition, least, greatest)


def _counted(schema: pa.Schema) -> list[str]:
    """Columns that get statistics: all but bodies."""
    return [
        field.name
        for field in schema
        if not pa.types.is_nested(field.type)
        and not pa.types.is_binary(field.type)
        and not pa.types.is_binary_view(field.type)
    ]


def _bounds(metadata: Any) -> tuple[dict[str, int], dict[str, int]]:
    least: dict[str, int] = {}
    greatest: dict[str, int] = {}
    for group in range(metadata.num_row_groups):
        for at in range(metadata.num_columns):
            column = metadata.row_group(group).column(at)
            found = column.statistics
            name = column.path_in_schema
            if found is None or not found.has_min_max or not isinstance(found.min, int):
                continue
            least[name] = min(found.min, least.get(name, found.min))
            greatest[name] = max(found.max, greatest.get(name, found.max))
    return least, greatest


def _texts(column: pa.Array) -> pa.Array:
    """Partition values as they appear in paths."""
    return column if pa.types.is_string(column.type) else column.cast(pa.string())
