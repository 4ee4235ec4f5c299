"""What a command prints: a document, as a table, JSON, YAML or JSON lines.

A command passes plain dicts, the same for every format: numbers stay numbers in JSON, and only
tables (`tables.py`) format them. Standard output contains only the document, so it can be piped;
messages for people go to standard error.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeVar

import click

from borzoi.cli.tables import Record, print_list, print_record, text_of

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Format(Enum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    JSONL = "jsonl"
    #: One line per item, fields joined by ``|``, as the published command line prints lists.
    LIST = "list"


_HALVES: Final = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")


def format_option(function: Decorated) -> Decorated:
    """The option ``-o`` that every command has."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice([one.value for one in Format if one is not Format.LIST]),
        default=Format.TABLE.value,
        help="Output format.  [default: table]",
    )(function)


def list_options(function: Decorated) -> Decorated:
    """``-o``, and ``-l`` as the published command line has it on lists."""
    return click.option(
        "-l",
        "--list-mode",
        type=click.Choice(["table", "list"]),
        default="table",
        help="A table, or one line per item.",
    )(format_option(function))


def chosen(form: str, list_mode: str = "table") -> Format:
    return Format.LIST if list_mode == "list" and form == "table" else Format(form)


def emit_list(records: Sequence[Record], columns: Mapping[str, str], form: Format) -> None:
    """Print a list; `columns` maps fields to their headings, for tables."""
    if form is Format.TABLE:
        print_list(records, columns)
    elif form is Format.LIST:
        for one in records:
            click.echo("|".join(text_of(field, one[field]) for field in columns))
    elif form is Format.JSONL:
        for one in records:
            click.echo(json.dumps(plain(one)))
    else:
        click.echo(_document([plain(one) for one in records], form), nl=False)


def emit(record: Record, form: Format) -> None:
    """Print one item."""
    if form in (Format.TABLE, Format.LIST):
        print_record(record)
    elif form is Format.JSONL:
        click.echo(json.dumps(plain(record)))
    else:
        click.echo(_document(plain(record), form), nl=False)


def done(sentence: str, record: Record, form: Format) -> None:
    """After a change: a sentence for people, or a document for scripts."""
    if form in (Format.TABLE, Format.LIST):
        click.echo(sentence)
    else:
        emit(record, form)


def note(sentence: str) -> None:
    """Print a message for people on standard error."""
    click.echo(sentence, err=True)


def _document(value: Any, form: Format) -> str:
    return yaml_of(value) if form is Format.YAML else json.dumps(value, indent=2) + "\n"


def plain(value: Any) -> Any:
    """Convert to JSON types: enums to their names, bytes to text if they are text."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    return value


def yaml_of(value: Any, indent: str = "") -> str:
    """Block style YAML of what `plain` makes; strings are quoted as JSON where they need it."""
    if isinstance(value, Mapping) and value:
        return "".join(
            _yaml_item(f"{indent}{_yaml_text(key)}:", one, indent) for key, one in value.items()
        )
    if isinstance(value, list) and value:
        return "".join(_yaml_item(f"{indent}-", one, indent) for one in value)
    return f"{indent}{_yaml_scalar(value)}\n"


def _yaml_item(head: str, value: Any, indent: str) -> str:
    if isinstance(value, Mapping | list) and value:
        inner = yaml_of(value, indent + "  ")
        # A mapping inside a list starts on the line of its dash.
        if head.endswith("-"):
            return f"{head} {inner[len(indent) + 2 :]}"
        return f"{head}\n{inner}"
    return f"{head} {_yaml_scalar(value)}\n"


def _yaml_scalar(value: Any) -> str:
    if isinstance(value, str):
        return _yaml_text(value)
    return json.dumps(value)


def _yaml_text(value: str) -> str:
    """Return the string unquoted if every parser reads it as a string."""
    plain_start = value[:1].isalpha() or value[:1] == "_"
    safe = all(letter.isalnum() or letter in "_./-" for letter in value)
    words = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
    if value and plain_start and safe and value.lower() not in words:
        return value
    # JSON escapes characters above U+FFFF as surrogate pairs, which YAML reads as two characters.
    return _HALVES.sub(_whole, json.dumps(value))


def _whole(halves: re.Match[str]) -> str:
    high, low = (int(half, 16) for half in halves.groups())
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + low - 0xDC00:08x}"
