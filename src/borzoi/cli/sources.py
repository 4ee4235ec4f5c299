"""Files whose rows become messages: JSON lines, CSV, Parquet.

Rows come in batches, with the fraction of the file read so far; at most one batch is in memory.
"""

import csv
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import msgspec

from borzoi.cli.faults import CommandFailed, Exit
from borzoi.cli.sinks import opened, pyarrow_module

LOAD_FORMATS: Final = ("jsonl", "csv", "parquet")
#: Rows per batch.
BATCH: Final = 1000

_json: Final = msgspec.json.Decoder(msgspec.Raw)
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

Shape = Callable[[Any], tuple[str | None, bytes]]


class Rows(NamedTuple):
    """A batch: keys and payloads, and how far the file was read, from 0 to 1."""

    messages: list[tuple[str | None, bytes]]
    share: float


def rows_of(
    path: Path, form: str, *, key_field: str | None, payload_field: str | None
) -> Iterator[Rows]:
    """The rows of a file as messages; `-` is standard input."""

    def shape(row: Any) -> tuple[str | None, bytes]:
        key = None if key_field is None else payload_of(_field(row, key_field)).decode()
        return key, payload_of(row if payload_field is None else _field(row, payload_field))

    if form == "parquet":
        yield from _parquet_rows(path, shape)
        return
    with ExitStack() as stack:
        is_file = str(path) != "-"
        file = stack.enter_context(opened(path, "rb")) if is_file else sys.stdin.buffer
        size = os.fstat(file.fileno()).st_size if is_file else 0
        messages: Iterator[tuple[str | None, bytes]]
        if form == "csv":
            lines = (line.decode("utf-8", "replace") for line in file)
            messages = map(shape, csv.DictReader(lines))
        elif key_field is None and payload_field is None:
            messages = _whole_lines(file, path)
        else:
            messages = map(shape, _json_rows(file, path))
        for batch in batched(messages, BATCH):
            yield Rows(batch, file.tell() / size if size else 0.0)


def _parquet_rows(path: Path, shape: Shape) -> Iterator[Rows]:
    parquet = pyarrow_module("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as fault:
        raise CommandFailed(f"{path} is not a Parquet file: {fault}", Exit.INVALID) from fault
    done, total = 0, max(file.metadata.num_rows, 1)
    for batch in file.iter_batches(BATCH):
        done += batch.num_rows
        yield Rows([shape(row) for row in batch.to_pylist()], done / total)


def _whole_lines(file: IO[bytes], path: Path) -> Iterator[tuple[str | None, bytes]]:
    """Yield every line unchanged as a payload, after checking that it is JSON."""
    for number, line in enumerate(file, start=1):
        text = line.strip()
        if text:
            try:
                _json.decode(text)
            except msgspec.DecodeError as fault:
                raise _no_json(number, path, fault) from fault
            yield None, _as_written(text)


def _as_written(value: bytes) -> bytes:
    """Return the payload for a JSON value; a string becomes its text."""
    return msgspec.json.decode(value, type=str).encode() if value[:1] == b'"' else value


def _json_rows(file: IO[bytes], path: Path) -> Iterator[Any]:
    """Parse objects, keeping their values as raw JSON."""
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                yield _fields.decode(line)
            except msgspec.ValidationError:
                yield msgspec.json.decode(line)
            except msgspec.DecodeError as fault:
                raise _no_json(number, path, fault) from fault


def _no_json(number: int, path: Path, fault: Exception) -> CommandFailed:
    return CommandFailed(f"line {number} of {path} is not JSON: {fault}", Exit.INVALID)


def _field(row: Any, name: str) -> Any:
    if not isinstance(row, dict) or name not in row:
        raise CommandFailed(f"a row has no field {name!r}: {row!r:.80}", Exit.INVALID)
    return row[name]


def payload_of(value: Any) -> bytes:
    """Return text or bytes unchanged, anything else as JSON."""
    if isinstance(value, msgspec.Raw):
        return _as_written(bytes(value))
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return msgspec.json.encode(value, enc_hook=str)


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
