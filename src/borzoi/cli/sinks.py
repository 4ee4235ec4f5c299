"""Files that messages are written to: JSON lines, CSV, Parquet, Arrow.

A sink writes one batch after another and keeps none in memory.
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from borzoi.cli.faults import CommandFailed, Exit
from borzoi.cli.output import plain
from borzoi.cli.tables import when
from borzoi.client import Message

READ_FORMATS: Final = ("jsonl", "csv", "parquet", "arrow")
CSV_FIELDS: Final = ("partition", "offset", "timestamp", "id", "headers", "payload")

Sink = Callable[[list[Message]], None]


class Line(msgspec.Struct):
    """A message as a line of JSON, the document that `tail -o jsonl` shows."""

    partition: int
    offset: int
    timestamp: int
    origin_timestamp: int
    id: str
    headers: dict[str, Any]
    #: Text, or JSON as it was sent.
    payload: str | msgspec.Raw


_encoder: Final = msgspec.json.Encoder()
_json: Final = msgspec.json.Decoder(msgspec.Raw)
_no_headers: Final[dict[str, Any]] = {}


def line_of(message: Message) -> Line:
    headers = _no_headers
    if message.encoded_headers:
        headers = plain({str(key): value for key, value in message.headers.items()})
    return Line(
        message.partition,
        message.offset,
        message.timestamp,
        message.origin_timestamp,
        str(message.id),
        headers,
        _payload(message.payload),
    )


def _payload(data: bytes) -> str | msgspec.Raw:
    """Return a JSON object or array on one line, unchanged otherwise."""
    text = data.decode("utf-8", "replace")
    if text[:1] in ("{", "["):
        try:
            if "\n" in text or "\r" in text:
                return msgspec.Raw(_encoder.encode(msgspec.json.decode(text)))
            _json.decode(text)
        except msgspec.MsgspecError:
            return text
        return msgspec.Raw(text)
    return text


@contextmanager
def opened_sink(form: str, path: Path | None) -> Iterator[Sink]:
    """Where messages go: a file that is complete when the block ends, or standard output."""
    if form in ("parquet", "arrow"):
        assert path is not None
        with _arrow_sink(form, path) as sink:
            yield sink
        return
    with ExitStack() as stack:
        file = sys.stdout.buffer if path is None else stack.enter_context(opened(path, "wb"))
        yield _json_sink(file) if form == "jsonl" else _csv_sink(file)
        file.flush()


def opened(path: Path, mode: str) -> IO[bytes]:
    """Open a binary file, or fail the command."""
    try:
        return path.open(mode)
    except OSError as fault:
        code = Exit.NOT_FOUND if isinstance(fault, FileNotFoundError) else Exit.FAILED
        raise CommandFailed(f"{path} cannot be opened: {fault.strerror}", code) from fault


def _json_sink(file: IO[bytes]) -> Sink:
    def sink(messages: list[Message]) -> None:
        file.write(_encoder.encode_lines([line_of(one) for one in messages]))

    return sink


def _csv_sink(file: IO[bytes]) -> Sink:
    draft = io.StringIO(newline="")
    writer = csv.writer(draft)
    writer.writerow(CSV_FIELDS)

    def sink(messages: list[Message]) -> None:
        for one in messages:
            headers = json.dumps(line_of(one).headers) if one.encoded_headers else ""
            text = one.payload.decode("utf-8", "replace")
            row = (one.partition, one.offset, when(one.timestamp), one.id, headers, text)
            writer.writerow(row)
        file.write(draft.getvalue().encode("utf-8", "replace"))
        draft.seek(0)
        draft.truncate()

    return sink


def pyarrow_module(name: str) -> Any:
    """Return a module of pyarrow, or fail with how to install it."""
    try:
        return import_module(name)
    except ImportError as fault:
        raise CommandFailed(
            "Parquet and Arrow need pyarrow, which is not installed",
            Exit.FAILED,
            "pip install 'borzoi[arrow]'",
        ) from fault


@contextmanager
def _arrow_sink(form: str, path: Path) -> Iterator[Sink]:
    pa = pyarrow_module("pyarrow")
    # The default pool keeps freed memory, which is several times a batch.
    pa.set_memory_pool(pa.system_memory_pool())
    fields = [
        ("partition", pa.uint32()),
        ("offset", pa.uint64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("id", pa.string()),
        ("headers", pa.string()),
        ("payload", pa.binary()),
    ]
    schema = pa.schema(fields)
    with ExitStack() as stack:
        stack.enter_context(_refused_paths(path))
        if form == "parquet":
            parquet = pyarrow_module("pyarrow.parquet")
            writer = stack.enter_context(parquet.ParquetWriter(path, schema, compression="zstd"))
        else:
            writer = stack.enter_context(pa.ipc.new_file(str(path), schema))

        def sink(messages: list[Message]) -> None:
            columns = [
                [one.partition for one in messages],
                [one.offset for one in messages],
                [one.timestamp for one in messages],
                [str(one.id) for one in messages],
                [_headers_text(one) for one in messages],
                [one.payload for one in messages],
            ]
            arrays = [
                pa.array(column, kind) for column, (_, kind) in zip(columns, fields, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))

        yield sink


@contextmanager
def _refused_paths(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise CommandFailed(f"{path} cannot be written: {fault}", Exit.FAILED) from fault


def _headers_text(message: Message) -> str:
    return json.dumps(line_of(message).headers) if message.encoded_headers else "{}"
