"""Files whose rows become messages: JSON lines, CSV, Parquet.

Rows come in batches, with the fraction of the file read so far; at most one batch is in memory.
"""

import csv
import io
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

import msgspec
import numpy as np

from borzoi.cli.faults import CommandFailed, Exit
from borzoi.cli.sinks import opened, pyarrow_module
from borzoi.records.accelerator import native
from borzoi.records.columnar import Encoded

LOAD_FORMATS: Final = ("jsonl", "csv", "parquet")
#: Rows per batch.
BATCH: Final = 1000

#: About as many bytes of lines as are read at once.
LINES_BYTES: Final = 1 << 20

_value: Final = msgspec.json.Decoder(msgspec.Raw)
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Rows(NamedTuple):
    """A batch of messages, and the fraction of the file read so far, from 0 to 1."""

    #: Bytes, a column of Arrow's type `binary`, or messages that are encoded already.
    payloads: Any
    #: None when the file is loaded without keys.
    keys: list[str] | None
    fraction: float

    @property
    def messages_count(self) -> int:
        encoded = isinstance(self.payloads, Encoded)
        return len(self.payloads.ends if encoded else self.payloads)


class Chosen(NamedTuple):
    """Which fields of a row are sent; None for no key, and for the whole row."""

    key: str | None
    payload: str | None

    def key_of(self, row: Any) -> str:
        assert self.key is not None
        return payload_of(_field(row, self.key)).decode()

    def payload_of(self, row: Any) -> bytes:
        return payload_of(row if self.payload is None else _field(row, self.payload))

    def rows(self, rows: Sequence[Any], fraction: float) -> Rows:
        keys = None if self.key is None else [self.key_of(row) for row in rows]
        return Rows([self.payload_of(row) for row in rows], keys, fraction)


def rows_of(
    path: Path, form: str, *, key_field: str | None, payload_field: str | None
) -> Iterator[Rows]:
    """The rows of a file as messages; `-` is standard input."""
    chosen = Chosen(key_field, payload_field)
    if form == "parquet":
        yield from _parquet_rows(path, chosen)
        return
    with ExitStack() as stack:
        is_file = str(path) != "-"
        file = stack.enter_context(opened(path, "rb")) if is_file else sys.stdin.buffer
        size = os.fstat(file.fileno()).st_size if is_file else 0
        for rows in _csv_rows(file, chosen) if form == "csv" else _json_rows(file, path, chosen):
            yield rows._replace(fraction=file.tell() / size if size else 0.0)


def _csv_rows(file: IO[bytes], chosen: Chosen) -> Iterator[Rows]:
    lines = (line.decode("utf-8", "replace") for line in file)
    for rows in batched(csv.DictReader(lines), BATCH):
        yield chosen.rows(rows, 0.0)


# Parquet. ----------------------------------------------------------------------------------------


def _parquet_rows(path: Path, chosen: Chosen) -> Iterator[Rows]:
    pa, parquet = pyarrow_module("pyarrow"), pyarrow_module("pyarrow.parquet")
    # The default pool keeps freed memory, which is several times a batch.
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as fault:
        raise CommandFailed(f"{path} is not a Parquet file: {fault}", Exit.INVALID) from fault
    done, total = 0, max(file.metadata.num_rows, 1)
    for batch in file.iter_batches(BATCH, columns=_columns(file, chosen)):
        done += batch.num_rows
        yield _of_columns(pa, batch, chosen)._replace(fraction=done / total)


def _columns(file: Any, chosen: Chosen) -> list[str] | None:
    """The columns to read; None for all of them."""
    if chosen.payload is None:
        return None
    names = [chosen.payload] if chosen.key is None else [chosen.payload, chosen.key]
    for name in names:
        if name not in file.schema_arrow.names:
            raise CommandFailed(f"the file has no column {name!r}", Exit.INVALID)
    return names


def _of_columns(pa: Any, batch: Any, chosen: Chosen) -> Rows:
    """The rows of a batch; bytes and texts without an object for each."""
    if chosen.payload is None:
        return chosen.rows(batch.to_pylist(), 0.0)
    payloads = batch.column(chosen.payload)
    plain = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary)
    if not any(matches(payloads.type) for matches in plain) or payloads.null_count:
        return chosen.rows(batch.to_pylist(), 0.0)
    payloads = payloads.cast(pa.binary())
    if chosen.key is None:
        return Rows(payloads, None, 0.0)
    keys = [payload_of(key).decode() for key in batch.column(chosen.key).to_pylist()]
    return Rows(payloads.to_pylist(), keys, 0.0)


# JSON lines. -------------------------------------------------------------------------------------


def _json_rows(file: IO[bytes], path: Path, chosen: Chosen) -> Iterator[Rows]:
    """A piece of the file at a time, decoded by one call; values stay as they are written.

    A piece with something wrong in it is decoded line by line, which says where.
    """
    decode = _lines_decoder(chosen)
    before = 0
    for lines in _pieces(file):
        rows = _encoded_rows(lines, chosen)
        if rows is not None:
            before += rows.messages_count
        else:
            try:
                rows = decode(lines)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                rows = chosen.rows(list(_one_by_one(lines, path, before)), 0.0)
            before += lines.count(b"\n")
        yield rows


def _encoded_rows(lines: bytes, chosen: Chosen) -> Rows | None:
    """The lines as messages of a request, if the accelerator can make them."""
    if native is None or chosen.key is not None:
        return None
    name = None if chosen.payload is None else chosen.payload.encode()
    made = native.json_messages(lines, name, time.time_ns() // 1000)
    if made is None:
        return None
    messages, ends = made
    return Rows(Encoded(memoryview(messages), np.frombuffer(ends, np.int64)), None, 0.0)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Whole lines, as many as can be read at once."""
    rest = b""
    while data := cast("io.BufferedReader", file).read1(LINES_BYTES):
        lines, end, tail = data.rpartition(b"\n")
        if end:
            yield rest + lines + end
            rest = tail
        else:
            rest += tail
    if rest:
        yield rest


def _lines_decoder(chosen: Chosen) -> Callable[[bytes], Rows]:
    if chosen.key is None and chosen.payload is None:
        return lambda lines: Rows(_as_written(_value.decode_lines(lines)), None, 0.0)
    # A struct has no such names.
    if chosen.key is not None or chosen.payload is None or not _is_plain(chosen.payload):
        return lambda lines: chosen.rows(_fields.decode_lines(lines), 0.0)
    # Only this field is kept: the others are skipped without an object for each.
    row = msgspec.defstruct(
        "Row", [("payload", msgspec.Raw)], rename={"payload": chosen.payload}, gc=False
    )
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(row)
    return lambda lines: Rows(
        _as_written([one.payload for one in decoder.decode_lines(lines)]), None, 0.0
    )


def _is_plain(name: str) -> bool:
    """Whether JSON has the name as it is, between quotes."""
    return name.isprintable() and '"' not in name and "\\" not in name


def _one_by_one(lines: bytes, path: Path, before: int) -> Iterator[Any]:
    for number, line in enumerate(lines.splitlines(), start=before + 1):
        if line.strip():
            try:
                row = _value.decode(line.decode())
            except (msgspec.DecodeError, UnicodeDecodeError) as fault:
                raise _no_json(number, path, fault) from fault
            yield _fields_or_value(row)


def _fields_or_value(row: msgspec.Raw) -> Any:
    """The fields of an object, each as it is written; any other value as it is."""
    try:
        return _fields.decode(row)
    except msgspec.ValidationError:
        return msgspec.json.decode(row)


def _as_written(values: Iterable[msgspec.Raw]) -> list[bytes]:
    """The payloads for JSON values; a string becomes its text."""
    written = list(map(bytes, values))
    if any(value[:1] == b'"' for value in written):
        return [_text(value) if value[:1] == b'"' else value for value in written]
    return written


def _text(value: bytes) -> bytes:
    return msgspec.json.decode(value, type=str).encode()


def _no_json(number: int, path: Path, fault: Exception) -> CommandFailed:
    return CommandFailed(f"line {number} of {path} is not JSON: {fault}", Exit.INVALID)


def _field(row: Any, name: str) -> Any:
    if not isinstance(row, dict) or name not in row:
        shown = msgspec.json.encode(row, enc_hook=str).decode()
        raise CommandFailed(f"a row has no field {name!r}: {shown:.80}", Exit.INVALID)
    return row[name]


def payload_of(value: Any) -> bytes:
    """Return text or bytes unchanged, anything else as JSON."""
    if isinstance(value, msgspec.Raw):
        return _as_written([value])[0]
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return msgspec.json.encode(value, enc_hook=str)


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
