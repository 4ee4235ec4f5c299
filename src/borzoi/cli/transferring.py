"""``borzoi read``, ``load`` and ``replay``: topics to files, files to topics, topics to topics.

All of them work in batches and hold a few of those at a time, whatever the size of the topic.
"""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

import click

from borzoi.cli.connecting import connected
from borzoi.cli.expressions import Condition, condition
from borzoi.cli.faults import CommandFailed, Exit, reported
from borzoi.cli.following import MessageRange, batches, microseconds, moment_of, start_of
from borzoi.cli.messages import again
from borzoi.cli.names import TOPIC, Topic, shown_topic
from borzoi.cli.output import note, when
from borzoi.cli.printing import record_of_message
from borzoi.client import Client, Message, NewMessage

READ_FORMATS: Final = ("jsonl", "csv", "parquet", "arrow")
LOAD_FORMATS: Final = ("jsonl", "csv", "parquet")
CSV_FIELDS: Final = ("partition", "offset", "timestamp", "id", "headers", "payload")
#: Messages per send, and rows per batch of a Parquet file.
BATCH: Final = 1000

Sink = Callable[[list[Message]], None]

RANGE: Final = (
    click.option("--from", "start", default="first", help="first, an offset, a time, or 10m ago."),
    click.option("--to", "end", help="Not included: an offset, a time, or how long ago."),
    click.option("-p", "--partition", "partitions", type=int, multiple=True),
    click.option("-w", "--where", help="A filter, as `tail` has it."),
)


def ranged(function: Any) -> Any:
    """The options that choose a part of a topic."""
    for option in reversed(RANGE):
        function = option(function)
    return function


def range_of(start: str, end: str | None, partitions: tuple[int, ...]) -> MessageRange:
    if end is None:
        return MessageRange(start_of(start), partitions=partitions)
    if end.isdecimal():
        return MessageRange(start_of(start), end_offset=int(end), partitions=partitions)
    return MessageRange(
        start_of(start), end_time=microseconds(moment_of(end)), partitions=partitions
    )


def form_of(path: Path | None, given: str | None, allowed: tuple[str, ...]) -> str:
    """The format: as given, by the ending of the file, or JSON lines."""
    if given is not None:
        return given
    if path is None:
        return "jsonl"
    ending = path.suffix.removeprefix(".").lower()
    form = {"ndjson": "jsonl", "json": "jsonl", "feather": "arrow", "ipc": "arrow"}.get(
        ending, ending
    )
    if form not in allowed:
        raise CommandFailed(
            f"the format of {path.name} is not known by its ending",
            Exit.USAGE,
            f"give --format, one of {', '.join(allowed)}",
        )
    return form


@click.command()
@click.argument("topic", type=TOPIC)
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path), required=False)
@click.option("-f", "--format", "form", type=click.Choice(READ_FORMATS))
@ranged
def read(
    topic: Topic,
    path: Path | None,
    form: str | None,
    start: str,
    end: str | None,
    partitions: tuple[int, ...],
    where: str | None,
) -> None:
    """Write a part of STREAM/TOPIC to a file, or to standard output as JSON lines or CSV."""
    chosen = form_of(path, form, READ_FORMATS)
    if path is None and chosen in ("parquet", "arrow"):
        raise click.UsageError(f"{chosen} needs a file: borzoi read {shown_topic(topic)} FILE")
    with reported():
        among = range_of(start, end, partitions)
        passes = condition(where) if where else None
    with connected() as client, ExitStack() as stack:
        sink = stack.enter_context(_sink(chosen, path))
        count = 0
        with _progress(client, topic, among, show=path is not None) as advance:
            for polled in batches(client, topic, among):
                kept = _kept(polled.messages, passes)
                sink(kept)
                count += len(kept)
                advance(len(polled))
    note(f"{count} messages of {shown_topic(topic)} were read.")


def _kept(messages: list[Message], passes: Condition | None) -> list[Message]:
    return messages if passes is None else [one for one in messages if passes(one)]


@contextmanager
def _progress(
    client: Client, topic: Topic, among: MessageRange, *, show: bool
) -> Iterator[Callable[[int], None]]:
    """A bar over the messages there are now; on a terminal only."""
    if not (show and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    details = client.get_topic(topic)
    wanted = among.partitions
    parts = () if details is None else details.partitions
    total = sum(one.messages_count for one in parts if not wanted or one.id in wanted)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(shown_topic(topic), total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def _sink(form: str, path: Path | None) -> Iterator[Sink]:
    """Where messages go: a file that is complete when the block ends, or standard output."""
    if form in ("parquet", "arrow"):
        assert path is not None
        with _arrow_sink(form, path) as sink:
            yield sink
        return
    with ExitStack() as stack:
        file: IO[str] = sys.stdout
        if path is not None:
            file = stack.enter_context(_opened(path, "w"))
        yield _json_sink(file) if form == "jsonl" else _csv_sink(file)
        file.flush()


def _opened(path: Path, mode: str) -> IO[str]:
    try:
        return path.open(mode, encoding="utf-8", newline="" if path.suffix == ".csv" else None)
    except OSError as fault:
        code = Exit.NOT_FOUND if isinstance(fault, FileNotFoundError) else Exit.FAILED
        raise CommandFailed(f"{path} cannot be opened: {fault.strerror}", code) from fault


def _json_sink(file: IO[str]) -> Sink:
    def sink(messages: list[Message]) -> None:
        file.writelines(json.dumps(record_of_message(one)) + "\n" for one in messages)

    return sink


def _csv_sink(file: IO[str]) -> Sink:
    writer = csv.writer(file)
    writer.writerow(CSV_FIELDS)

    def sink(messages: list[Message]) -> None:
        for one in messages:
            record = record_of_message(one)
            text = one.payload.decode("utf-8", "replace")
            headers = json.dumps(record["headers"]) if record["headers"] else ""
            row = (one.partition, one.offset, when(one.timestamp), record["id"], headers, text)
            writer.writerow(row)

    return sink


def _pyarrow(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as fault:
        raise CommandFailed(
            "Parquet and Arrow need pyarrow, which is not installed",
            Exit.FAILED,
            "pip install 'borzoi[arrow]'",
        ) from fault


@contextmanager
def _arrow_sink(form: str, path: Path) -> Iterator[Sink]:
    pa = _pyarrow("pyarrow")
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
        if form == "parquet":
            parquet = _pyarrow("pyarrow.parquet")
            writer = stack.enter_context(parquet.ParquetWriter(path, schema, compression="zstd"))
        else:
            writer = stack.enter_context(pa.ipc.new_file(str(path), schema))

        def sink(messages: list[Message]) -> None:
            columns = [
                [one.partition for one in messages],
                [one.offset for one in messages],
                [one.timestamp for one in messages],
                [str(one.id) for one in messages],
                [json.dumps(record_of_message(one)["headers"]) for one in messages],
                [one.payload for one in messages],
            ]
            arrays = [
                pa.array(column, kind) for column, (_, kind) in zip(columns, fields, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))

        yield sink


@click.command()
@click.argument(
    "path", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
@click.argument("topic", type=TOPIC)
@click.option("-f", "--format", "form", type=click.Choice(LOAD_FORMATS))
@click.option("-k", "--key", "key_field", help="The field whose value is the key.")
@click.option("--payload", "payload_field", help="The field that is the payload.  [whole row]")
@click.option("--create", is_flag=True, help="Create the stream and the topic if needed.")
def load(
    path: Path,
    topic: Topic,
    form: str | None,
    key_field: str | None,
    payload_field: str | None,
    create: bool,
) -> None:
    """Send the rows of a file to STREAM/TOPIC, one message each; - reads standard input."""
    chosen = form_of(None if str(path) == "-" else path, form, LOAD_FORMATS)
    count = 0
    with connected() as client:
        if create:
            from borzoi.cli.tailing import ensure

            ensure(client, topic)
        for rows in batched(_rows(path, chosen), BATCH):
            count += _send_rows(client, topic, rows, key_field, payload_field)
    note(f"{count} messages were sent to {shown_topic(topic)}.")


def _send_rows(
    client: Client,
    topic: Topic,
    rows: list[Any],
    key_field: str | None,
    payload_field: str | None,
) -> int:
    by_key: dict[str | None, list[bytes]] = {}
    for row in rows:
        key = None if key_field is None else str(_field(row, key_field))
        value = row if payload_field is None else _field(row, payload_field)
        by_key.setdefault(key, []).append(payload_of(value))
    for key, payloads in by_key.items():
        client.send_messages(topic, payloads, key=key)
    return len(rows)


def _field(row: Any, name: str) -> Any:
    if not isinstance(row, dict) or name not in row:
        raise CommandFailed(f"a row has no field {name!r}: {row!r:.80}", Exit.INVALID)
    return row[name]


def payload_of(value: Any) -> bytes:
    """A text or bytes as they are, anything else as JSON."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, default=str, separators=(",", ":")).encode()


def _rows(path: Path, form: str) -> Iterator[Any]:
    if form == "parquet":
        parquet = _pyarrow("pyarrow.parquet")
        for batch in parquet.ParquetFile(path).iter_batches(BATCH):
            yield from batch.to_pylist()
        return
    with ExitStack() as stack:
        file = sys.stdin if str(path) == "-" else stack.enter_context(_opened(path, "r"))
        if form == "csv":
            yield from csv.DictReader(file)
            return
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as fault:
                    raise CommandFailed(
                        f"line {number} of {path} is no JSON: {fault}", Exit.INVALID
                    ) from fault


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


@click.command()
@click.argument("source", type=TOPIC)
@click.argument("target", type=TOPIC)
@click.option("--keep-partitions", is_flag=True, help="Partition n goes to partition n.")
@ranged
def replay(
    source: Topic,
    target: Topic,
    keep_partitions: bool,
    start: str,
    end: str | None,
    partitions: tuple[int, ...],
    where: str | None,
) -> None:
    """Send a part of one topic to another, with ids and headers."""
    if source == target:
        raise click.UsageError("the two topics must differ")
    with reported():
        among = range_of(start, end, partitions)
        passes = condition(where) if where else None
    count = 0
    with connected() as client, _progress(client, source, among, show=True) as advance:
        for polled in batches(client, source, among):
            kept: list[NewMessage | bytes] = [again(one) for one in _kept(polled.messages, passes)]
            if kept:
                to = polled.partition if keep_partitions else None
                client.send_messages(target, kept, partition=to)
            count += len(kept)
            advance(len(polled))
    note(f"{count} messages went from {shown_topic(source)} to {shown_topic(target)}.")
