"""``borzoi read``, ``load`` and ``replay``: topics to files, files to topics, topics to topics.

All of them work in batches and keep only a few of them in memory, whatever the size of the topic.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import click
import numpy as np

from borzoi.cli.connecting import connected
from borzoi.cli.expressions import Condition, condition
from borzoi.cli.faults import CommandFailed, Exit, reported
from borzoi.cli.following import moment_of, partitions_of, start_of
from borzoi.cli.messages import again
from borzoi.cli.names import TOPIC, Topic, shown_topic
from borzoi.cli.output import Format, chosen, done, format_option, note
from borzoi.cli.prefetching import ahead
from borzoi.cli.sinks import READ_FORMATS, opened_sink
from borzoi.cli.sources import BATCH, LOAD_FORMATS, Rows, batched, rows_of
from borzoi.client import Client, Message
from borzoi.client.messages import decode_messages
from borzoi.client.reading import TopicRange, runs
from borzoi.client.receiving import keep_freed_memory
from borzoi.model.partitioning import partition_for_key
from borzoi.records.columnar import Encoded, Run, requests

#: What `load` sends in one request at most, unless a message alone is larger.
SENT_MAX: Final = 10_000
SENT_BYTES: Final = 2 << 20

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


def part_of(where: str | None, **among: Any) -> tuple[TopicRange, Condition | None]:
    """Where the messages are, and which of them are meant."""
    return range_of(**among), condition(where) if where else None


def range_of(start: str, end: str | None, partitions: tuple[int, ...]) -> TopicRange:
    begin: Any = start_of(start)
    until: datetime | int | None = None
    if end is not None:
        until = int(end) if end.isdecimal() else moment_of(end)
    return TopicRange(None if begin == "first" else begin, until, partitions or None)


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
@click.option("-f", "--format", "file_form", type=click.Choice(READ_FORMATS))
@ranged
@format_option
def read(
    topic: Topic,
    path: Path | None,
    file_form: str | None,
    form: str,
    **part: Any,
) -> None:
    """Write a part of STREAM/TOPIC to a file, or to standard output as JSON lines or CSV."""
    kind = form_of(path, file_form, READ_FORMATS)
    if path is None and kind in ("parquet", "arrow"):
        raise click.UsageError(f"{kind} needs a file: borzoi read {shown_topic(topic)} FILE")
    if path is None and chosen(form) is not Format.TABLE:
        raise click.UsageError("-o formats the summary of a file; --format chooses the rows")
    with reported():
        among, passes = part_of(**part)
    with connected() as client, ExitStack() as stack:
        sink = stack.enter_context(opened_sink(kind, path))
        count = 0
        with _progress(client, topic, among, show=path is not None) as advance:
            for partition, run in ahead(checked_runs(client, topic, among)):
                kept = run if passes is None else _kept(partition, run, passes)
                if kept.count:
                    sink(partition, kept)
                count += kept.count
                advance(run.count)
    sentence = f"{count} messages of {shown_topic(topic)} were read."
    _summarise(sentence, {"read": count, "file": str(path)}, form)


def _summarise(sentence: str, record: dict[str, Any], form: str) -> None:
    """Print the summary as a document if requested, else on stderr, apart from the rows."""
    if chosen(form) is Format.TABLE:
        note(sentence)
    else:
        done(sentence, record, chosen(form))


def checked_runs(client: Client, topic: Topic, among: TopicRange) -> Iterator[tuple[int, Run]]:
    """What the range has, once it is known that topic and partitions are there."""
    partitions_of(client, topic, tuple(among.partitions or ()))
    return runs(client, topic, among)


def _kept(partition: int, run: Run, passes: Condition) -> Run:
    return run.chosen(np.array([passes(one) for one in _messages(partition, run)], bool))


def _messages(partition: int, run: Run) -> list[Message]:
    return decode_messages(run.buffer, partition)


@contextmanager
def _progress(
    client: Client, topic: Topic, among: TopicRange, *, show: bool
) -> Iterator[Callable[[int], None]]:
    """Return a progress bar over the present messages; on a terminal only."""
    if not (show and sys.stderr.isatty()):
        yield lambda _: None
        return
    details = client.get_topic(topic)
    wanted = among.partitions
    parts = () if details is None else details.partitions
    total = sum(one.messages_count for one in parts if not wanted or one.id in wanted)
    with _bar(shown_topic(topic), total) as (bar, task):
        yield lambda count: bar.advance(task, count)


@contextmanager
def _share(name: str) -> Iterator[Callable[[float], None]]:
    """Return a progress bar over a file, updated with the fraction read; on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with _bar(name, 1.0) as (bar, task):
        yield lambda share: bar.update(task, completed=share)


@contextmanager
def _bar(name: str, total: float) -> Iterator[tuple[Any, Any]]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield bar, bar.add_task(name, total=total)


@click.command()
@click.argument(
    "path", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
@click.argument("topic", type=TOPIC)
@click.option("-f", "--format", "file_form", type=click.Choice(LOAD_FORMATS))
@click.option("-k", "--key", "key_field", help="The field whose value is the key.")
@click.option("--payload", "payload_field", help="The field that is the payload.  [whole row]")
@click.option("--create", is_flag=True, help="Create the stream and the topic if needed.")
@format_option
def load(
    path: Path,
    topic: Topic,
    file_form: str | None,
    key_field: str | None,
    payload_field: str | None,
    create: bool,
    form: str,
) -> None:
    """Send the rows of a file to STREAM/TOPIC, one message each; - reads standard input."""
    kind = form_of(None if str(path) == "-" else path, file_form, LOAD_FORMATS)
    keep_freed_memory()
    count = 0
    with connected() as client:
        if create:
            from borzoi.cli.tailing import ensure

            ensure(client, topic)
        partitions_count = _partitions_count(client, topic) if key_field is not None else 0
        with _share(path.name) as show:
            fields = {"key_field": key_field, "payload_field": payload_field}
            for rows in ahead(rows_of(path, kind, **fields)):
                _send(client, topic, rows, partitions_count)
                count += rows.messages_count
                show(rows.fraction)
    sentence = f"{count} messages were sent to {shown_topic(topic)}."
    _summarise(sentence, {"sent": count}, form)


def _partitions_count(client: Client, topic: Topic) -> int:
    details = client.get_topic(topic)
    if details is None:
        raise CommandFailed(f"there is no topic {shown_topic(topic)}", Exit.NOT_FOUND)
    return details.partitions_count


def _send(client: Client, topic: Topic, rows: Rows, partitions_count: int) -> None:
    if rows.keys is not None:
        for partition, payloads in lanes_of(rows.keys, rows.payloads, partitions_count).items():
            client.send_messages(topic, payloads, partition=partition)
    elif isinstance(rows.payloads, list):
        for payloads in batched(rows.payloads, SENT_MAX):
            client.send_messages(topic, payloads)
    else:
        encoded = rows.payloads
        _send_encoded(client, topic, encoded if isinstance(encoded, Encoded) else _column(encoded))


def _column(payloads: Any) -> Encoded:
    """The messages of a column of Arrow's, encoded all at once."""
    arrow = import_module("borzoi.records.arrow")
    now = np.full(len(payloads), time.time_ns() // 1000, np.uint64)
    return cast(Encoded, arrow.encode(payloads, origin_timestamps=now))


def _send_encoded(client: Client, topic: Topic, encoded: Encoded) -> None:
    for request in requests(encoded, bytes_max=SENT_BYTES, count_max=SENT_MAX):
        client.send_raw(topic, request.count, request.indexes, request.messages)


def lanes_of(
    keys: list[str], payloads: list[bytes], partitions_count: int
) -> dict[int, list[bytes]]:
    """Group payloads by partition as the server would place their keys.

    One request per key would be one per row if every row has its own key.
    """
    lanes: dict[int, list[bytes]] = {}
    for key, payload in zip(keys, payloads, strict=True):
        partition = partition_for_key(key.encode(), partitions_count)
        lanes.setdefault(partition, []).append(payload)
    return lanes


@click.command()
@click.argument("source", type=TOPIC)
@click.argument("target", type=TOPIC)
@click.option("--keep-partitions", is_flag=True, help="Partition n goes to partition n.")
@ranged
@format_option
def replay(
    source: Topic,
    target: Topic,
    keep_partitions: bool,
    form: str,
    **part: Any,
) -> None:
    """Send a part of one topic to another, with ids and headers."""
    if source == target:
        raise click.UsageError("the two topics must differ")
    with reported():
        among, passes = part_of(**part)
    count = 0
    with connected() as client, _progress(client, source, among, show=True) as advance:
        for partition, run in checked_runs(client, source, among):
            messages = filter(passes, _messages(partition, run))
            for kept in batched(map(again, messages), BATCH):
                to = partition if keep_partitions else None
                client.send_messages(target, kept, partition=to)
                count += len(kept)
            advance(run.count)
    sentence = f"{count} messages were sent from {shown_topic(source)} to {shown_topic(target)}."
    _summarise(sentence, {"sent": count}, form)
