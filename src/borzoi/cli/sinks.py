"""Files that messages are written to: JSON lines, CSV, Parquet, Arrow.

A sink formats all messages of a batch at once, from columns over the bytes that were polled. A
thread writes them while the next batch is formatted.
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from borzoi.cli.faults import CommandFailed, Exit
from borzoi.cli.lines import headers_of, ids_of, lines_of, payloads_of, texts_of
from borzoi.cli.prefetching import behind
from borzoi.cli.tables import when
from borzoi.records.accelerator import native
from borzoi.records.columnar import Run

READ_FORMATS: Final = ("jsonl", "csv", "parquet", "arrow")
CSV_FIELDS: Final = ("partition", "offset", "timestamp", "id", "headers", "payload")

#: Takes the messages of a partition.
Sink = Callable[[int, Run], None]


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
        write = stack.enter_context(behind(_writer(file)))
        yield _json_sink(write) if form == "jsonl" else _csv_sink(write)
    if path is None:
        sys.stdout.buffer.flush()


def opened(path: Path, mode: str) -> IO[bytes]:
    """Open a binary file, or fail the command."""
    try:
        return path.open(mode)
    except OSError as fault:
        code = Exit.NOT_FOUND if isinstance(fault, FileNotFoundError) else Exit.FAILED
        raise CommandFailed(f"{path} cannot be opened: {fault.strerror}", code) from fault


def _writer(file: IO[bytes]) -> Callable[[bytes | bytearray], None]:
    def write(data: bytes | bytearray) -> None:
        file.write(data)

    return write


def _json_sink(write: Callable[[bytes | bytearray], None]) -> Sink:
    def sink(partition: int, run: Run) -> None:
        write(lines_of(partition, run))

    return sink


def _csv_sink(write: Callable[[bytes | bytearray], None]) -> Sink:
    draft = io.StringIO(newline="")
    writer = csv.writer(draft)
    writer.writerow(CSV_FIELDS)

    def sink(partition: int, run: Run) -> None:
        writer.writerows(
            zip(
                repeat(partition, run.count),
                run.headers["offset"].tolist(),
                map(when, run.headers["timestamp"].tolist()),
                ids_of(run),
                _headers_texts(run, none=""),
                texts_of(payloads_of(run)),
                strict=True,
            )
        )
        write(draft.getvalue().encode("utf-8", "replace"))
        draft.seek(0)
        draft.truncate()

    return sink


def _headers_texts(run: Run, *, none: str) -> list[str]:
    """The headers of each message as JSON; `none` where it has none."""
    return [json.dumps(headers) if headers else none for headers in headers_of(run)]


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
    arrow = import_module("borzoi.records.arrow")
    # The default pool keeps freed memory, which is several times a batch.
    pa.set_memory_pool(pa.system_memory_pool())
    fields = [
        ("partition", pa.uint32()),
        ("offset", pa.uint64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("id", pa.string()),
        ("headers", pa.string()),
        # Parquet stores views as binary; files of Arrow are for readers that may not know them.
        ("payload", pa.binary_view() if form == "parquet" else pa.binary()),
    ]
    schema = pa.schema(fields)
    with ExitStack() as stack:
        stack.enter_context(_refused_paths(path))
        if form == "parquet":
            parquet = pyarrow_module("pyarrow.parquet")
            writer = stack.enter_context(
                parquet.ParquetWriter(
                    path,
                    schema,
                    compression="zstd",
                    # Compression makes as little of columns that repeat, and in less time.
                    use_dictionary=False,
                    write_statistics=["partition", "offset", "timestamp"],
                    store_schema=False,  # the types of Parquet say it all, but for the views
                )
            )
        else:
            writer = stack.enter_context(pa.ipc.new_file(str(path), schema))

        write = stack.enter_context(behind(writer.write_batch))

        def sink(partition: int, run: Run) -> None:
            offsets, times = arrow.record_batch(run, ("offset", "timestamp")).columns
            if form == "parquet":
                payloads = arrow.payload_views(run)
            else:
                payloads = arrow.record_batch(run, ("payload",)).column(0)
            columns = [
                arrow.numbers(np.full(run.count, partition, np.uint32)),
                offsets.view(pa.uint64()),
                times,
                _ids_column(pa, run),
                _headers_column(pa, arrow, run),
                payloads,
            ]
            write(pa.record_batch(columns, schema=schema))

        yield sink


def _ids_column(pa: Any, run: Run) -> Any:
    """The ids as `ids_of` writes them, without a Python object for each.

    Arrow prints decimal numbers of 256 bits; an id is one with its upper half empty. The
    accelerator takes a third of the time.
    """
    if native is not None:
        digits, bounds = native.decimal_ids(np.ascontiguousarray(run.headers["id"]))
        texts = [None, pa.py_buffer(bounds), pa.py_buffer(digits)]
        return pa.Array.from_buffers(pa.string(), run.count, texts)
    wide = np.zeros((run.count, 2), "V16")
    wide[:, 0] = run.headers["id"]
    numbers = pa.Array.from_buffers(pa.decimal256(39), run.count, [None, pa.py_buffer(wide)])
    return numbers.cast(pa.string())


def _headers_column(pa: Any, arrow: Any, run: Run) -> Any:
    if not run.headers["user_headers_length"].any():
        ends = np.arange(0, 2 * run.count + 1, 2, dtype=np.int32)
        texts = [None, pa.py_buffer(ends), pa.py_buffer(b"{}" * run.count)]
        return pa.Array.from_buffers(pa.string(), run.count, texts)
    return arrow.ascii_texts(_headers_texts(run, none="{}"))


@contextmanager
def _refused_paths(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise CommandFailed(f"{path} cannot be written: {fault}", Exit.FAILED) from fault
