"""Messages on the way to a terminal or a pipe, one by one, as they arrive."""

import json
import string
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click

from borzoi.cli.faults import CommandFailed, Exit
from borzoi.cli.output import Format, plain, yaml_of
from borzoi.cli.tables import when
from borzoi.client import Message

FIELDS: Final = ("partition", "offset", "timestamp", "time", "id", "size", "text", "headers")


def record_of_message(message: Message) -> dict[str, Any]:
    """The document of a message; a payload that is JSON stays JSON."""
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "origin_timestamp": message.origin_timestamp,
        "id": str(message.id),
        "headers": plain({str(key): value for key, value in message.headers.items()}),
        "payload": _payload(message.payload),
    }


def _payload(data: bytes) -> Any:
    text = data.decode("utf-8", "replace")
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return text


def templated(template: str) -> Iterator[tuple[str, str]]:
    """The pieces of a template such as ``{offset}: {text}``; raises for unknown fields."""
    for literal, field, _, _ in string.Formatter().parse(template):
        if field is not None and field not in FIELDS:
            raise CommandFailed(
                f"the format has {{{field}}}; allowed are {', '.join(FIELDS)}", Exit.USAGE
            )
        yield literal, field or ""


def fields_of(message: Message) -> dict[str, Any]:
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "time": when(message.timestamp),
        "id": message.id,
        "size": len(message.payload),
        "text": message.payload.decode("utf-8", "replace"),
        "headers": json.dumps(plain({str(k): v for k, v in message.headers.items()})),
    }


def print_messages(
    messages: Iterable[Message], form: Format, *, template: str | None = None
) -> int:
    """Print messages as they arrive and return their count; `json` is one array, always closed."""
    if template is not None:
        list(templated(template))
        return _each(messages, lambda message: template.format(**fields_of(message)))
    if form is Format.JSON:
        return _array(messages)
    if form is Format.JSONL:
        return _each(messages, lambda message: json.dumps(record_of_message(message)))
    if form is Format.YAML:
        return _each(messages, lambda message: yaml_of([record_of_message(message)]).rstrip("\n"))
    return _each(messages, _line)


def _line(message: Message) -> str:
    text = message.payload.decode("utf-8", "replace")
    headers = f"  {fields_of(message)['headers']}" if message.encoded_headers else ""
    return f"{message.partition}:{message.offset}  {when(message.timestamp)}  {text}{headers}"


def _each(messages: Iterable[Message], shape: Any) -> int:
    count = 0
    for message in messages:
        click.echo(shape(message))
        count += 1
    return count


def _array(messages: Iterable[Message]) -> int:
    count = 0
    click.echo("[", nl=False)
    try:
        for message in messages:
            click.echo(
                ("," if count else "") + "\n" + json.dumps(record_of_message(message)), nl=False
            )
            count += 1
    finally:
        click.echo("\n]")
    return count
