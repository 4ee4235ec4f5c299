"""``borzoi message``: send, poll and flush, as the published command line has them."""

import sys
from pathlib import Path
from typing import Any

import click

from borzoi.cli.connecting import connected
from borzoi.cli.faults import CommandFailed, Exit, reported
from borzoi.cli.headers import headers_of
from borzoi.cli.names import IDENTIFIER, Topic, shown_topic, topic_arguments, topic_of
from borzoi.cli.output import chosen, done, emit_list, format_option, note
from borzoi.cli.printing import record_of_message
from borzoi.client import Client, Message, NewMessage
from borzoi.client.messages import decode_messages
from borzoi.command_tree import command_tree
from borzoi.model.identifiers import Identifier

COLUMNS = {
    "offset": "Offset",
    "timestamp": "Timestamp",
    "id": "ID",
    "length": "Length",
    "payload": "Payload",
}
FILE = click.Path(dir_okay=False, path_type=Path)
#: Lines of standard input that go into one send.
LINES_PER_SEND = 1000


@command_tree
def message() -> None:
    """Messages: send and poll."""


@message.command_named("send", "s")
@topic_arguments("STREAM TOPIC [MESSAGES…]")
@click.option("-p", "--partition-id", type=click.IntRange(0))
@click.option("-m", "--message-key", help="Messages with the same key share a partition.")
@click.option("-H", "--headers", help="key:kind:value, separated by commas.")
@click.option("--input-file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@format_option
def send(
    arguments: tuple[str, ...],
    partition_id: int | None,
    message_key: str | None,
    headers: str | None,
    input_file: Path | None,
    form: str,
) -> None:
    """Send messages; without any, each line of standard input is one."""
    named, texts = topic_of(arguments)
    if partition_id is not None and message_key is not None:
        raise click.UsageError("give --partition-id or --message-key, not both")
    with reported():
        shared = headers_of(headers) if headers else None
    to: dict[str, Any] = {"partition": partition_id, "key": message_key}
    with connected() as client:
        if input_file is not None:
            count = _send_file(client, named, input_file, to)
        elif texts:
            client.send_messages(named, [NewMessage(text, shared) for text in texts], **to)
            count = len(texts)
        else:
            count = _send_lines(client, named, shared, to)
    done(f"{count} messages were sent to {shown_topic(named)}.", {"sent": count}, chosen(form))


def _send_lines(client: Client, named: Topic, shared: Any, to: dict[str, Any]) -> int:
    count, batch = 0, []
    for line in sys.stdin:
        batch.append(NewMessage(line.rstrip("\n"), shared))
        if len(batch) == LINES_PER_SEND:
            client.send_messages(named, batch, **to)
            count, batch = count + len(batch), []
    if batch:
        client.send_messages(named, batch, **to)
    return count + len(batch)


def _send_file(client: Client, named: Topic, path: Path, to: dict[str, Any]) -> int:
    """Send the messages that `poll --output-file` wrote, with their ids and headers."""
    with reported():
        kept = decode_messages(memoryview(path.read_bytes()), 0)
    for start in range(0, len(kept), LINES_PER_SEND):
        batch = [again(one) for one in kept[start : start + LINES_PER_SEND]]
        client.send_messages(named, batch, **to)
    return len(kept)


def again(message: Message) -> NewMessage:
    """Return a received message as one to send again with its id and headers."""
    headers = {str(key.value): value for key, value in message.typed_headers.items()}
    return NewMessage(message.payload, headers, message.id)


@message.command_named("poll", "p")
@topic_arguments("STREAM TOPIC PARTITION")
@click.option("-o", "--offset", type=click.IntRange(0))
@click.option("-f", "--first", is_flag=True)
@click.option("-l", "--last", is_flag=True)
@click.option("-n", "--next", "next_", is_flag=True)
@click.option("-m", "--message-count", type=click.IntRange(1), default=1, show_default=True)
@click.option("-a", "--auto-commit", is_flag=True)
@click.option("-c", "--consumer", type=IDENTIFIER, default="1")
@click.option("-s", "--show-headers", is_flag=True)
@click.option("--output-file", type=FILE, help="Append to it.")
@click.option(
    "--output",
    "form",
    type=click.Choice(["table", "json", "yaml", "jsonl"]),
    default="table",
    help="How to print them; -o is the offset here, as in 0.8.",
)
def poll(
    arguments: tuple[str, ...],
    offset: int | None,
    first: bool,
    last: bool,
    next_: bool,
    message_count: int,
    auto_commit: bool,
    consumer: Identifier,
    show_headers: bool,
    output_file: Path | None,
    form: str,
) -> None:
    """Read messages of a partition: exactly one of -o, -f, -l, -n says from where."""
    named, rest = topic_of(arguments, rest=1)
    if len(rest) != 1 or not rest[0].isdecimal():
        raise click.UsageError("a partition is needed after the topic, as a whole number")
    if (offset is not None) + first + last + next_ != 1:
        raise click.UsageError("exactly one of --offset, --first, --last and --next is needed")
    start: Any = offset if offset is not None else "first" if first else "last" if last else "next"
    with connected() as client:
        polled = client.poll_raw(
            named,
            partition=int(rest[0]),
            start=start,
            count=message_count,
            consumer=consumer,
            commit=auto_commit,
        )
    messages = decode_messages(memoryview(polled.messages), polled.partition_id)
    if output_file is not None:
        _append(output_file, bytes(polled.messages))
        note(f"{len(messages)} messages were appended to {output_file}.")
        return
    records = [{"length": len(one.payload), **record_of_message(one)} for one in messages]
    if form == "table":
        # Tables show the payload as it was sent; documents embed it as JSON if it is JSON.
        for record, one in zip(records, messages, strict=True):
            record["payload"] = one.payload.decode("utf-8", "replace")
    columns = COLUMNS | ({"headers": "Headers"} if show_headers else {})
    emit_list(records, columns, chosen(form))


def _append(path: Path, data: bytes) -> None:
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as fault:
        raise CommandFailed(f"{path} cannot be written: {fault.strerror}", Exit.FAILED) from fault


@message.command_named("flush", "f")
@topic_arguments("STREAM TOPIC PARTITION")
@click.option("-f", "--fsync", is_flag=True, help="Sync to disk as well.")
@format_option
def flush(arguments: tuple[str, ...], fsync: bool, form: str) -> None:
    """Make the server write buffered messages to its files."""
    named, rest = topic_of(arguments, rest=1)
    if len(rest) != 1 or not rest[0].isdecimal():
        raise click.UsageError("a partition is needed after the topic, as a whole number")
    with connected() as client:
        client.flush_unsaved_buffer(named, int(rest[0]), fsync=fsync)
    done(f"Partition {rest[0]} of {shown_topic(named)} is saved.", {"flushed": True}, chosen(form))
