"""Parsers of single option values: a value, or `InvalidFormat` that says what is allowed."""

import difflib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from borzoi.model.errors import InvalidFormat
from borzoi.model.units import parse_bytes, parse_duration


def one_of(*words: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value.lower() not in words:
            near = difflib.get_close_matches(value.lower(), words, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InvalidFormat(f"one of {', '.join(words)}{hint}")
        return value.lower()

    return read


def boolean(value: str) -> bool:
    return one_of("true", "false")(value) == "true"


def positive(value: str) -> int:
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        raise InvalidFormat("a whole number above zero")
    return int(value)


def size_above_zero(value: str) -> int:
    size = parse_bytes(value)
    if size == 0:
        raise InvalidFormat("a size above zero")
    return size


def different(*words: str) -> Callable[[str], tuple[str, ...]]:
    """Some of the words, with commas between, each at most once."""

    def read(value: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in value.split(","))
        if len(set(names)) < len(names) or not set(names) <= set(words):
            raise InvalidFormat(f"different names out of {', '.join(words)}")
        return names

    return read


def topic_names(value: str) -> tuple[str, ...]:
    return tuple(topic_name(part.strip()) for part in value.split(","))


def topic_name(value: str) -> str:
    """`stream/topic` as written, when it has both parts."""
    stream, slash, topic = value.partition("/")
    if not (stream and slash and topic):
        raise InvalidFormat("stream/topic, or several of them with commas between")
    return value


def pattern(value: str) -> re.Pattern[str]:
    try:
        return re.compile(value)
    except re.error as error:
        raise InvalidFormat(f"a regular expression over stream/topic ({error})") from error


def partition_table(value: str) -> dict[str, dict[int, int]]:
    """`{"s/t": {"0": 5}}`, or `{"0": 5}` for the only topic (kept under the empty name)."""
    shape = 'JSON such as {"stream/topic": {"0": 5}}, or {"0": 5} for one topic'
    document = _json_object(value, shape)
    if document and all(key.isdigit() for key in document):
        document = {"": document}
    try:
        return {
            topic: {int(partition): int(number) for partition, number in table.items()}
            for topic, table in document.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidFormat(shape) from error


def assigned_partitions(value: str) -> dict[str, tuple[int, ...]]:
    shape = 'JSON such as {"stream/topic": [0, 1]}'
    try:
        return {
            topic_name(topic): tuple(sorted({int(number) for number in numbers}))
            for topic, numbers in _json_object(value, shape).items()
        }
    except (TypeError, ValueError) as error:
        raise InvalidFormat(shape) from error


def _json_object(value: str, shape: str) -> dict[str, Any]:
    try:
        document = json.loads(value)
    except json.JSONDecodeError as error:
        raise InvalidFormat(shape) from error
    if not isinstance(document, dict):
        raise InvalidFormat(shape)
    return document


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time: absolute in microseconds, or relative to the start of the query."""

    micros: int
    is_relative: bool = False

    def at(self, now: int) -> int:
        """Microseconds since the epoch, for a query that starts now."""
        return max(0, now - self.micros) if self.is_relative else self.micros


def moment(value: str) -> Moment:
    """`-10m`, `2026-11-01T00:00Z` or microseconds since the epoch."""
    if value.startswith("-"):
        return Moment(parse_duration(value[1:]), is_relative=True)
    if value.isascii() and value.isdigit():
        return Moment(int(value))
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError as error:
        raise InvalidFormat(
            "a time such as 2026-11-01T00:00Z, a span such as -10m, or microseconds since 1970"
        ) from error
    aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return Moment(int(aware.timestamp() * 1_000_000))


def limit(value: str) -> str | dict[str, dict[int, int]]:
    if value.lower() in ("earliest", "latest"):
        return value.lower()
    try:
        return partition_table(value)
    except InvalidFormat as error:
        raise InvalidFormat(f"earliest, latest, or {error}") from error


# ---- columns of payloads ------------------------------------------------------------------------

#: The column that holds payloads that cannot be parsed.
CORRUPT: Final = "_corrupt"

#: Quoted names and comments are whole tokens: their commas and brackets mean nothing.
_DDL_TOKEN: Final = re.compile(
    r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|.", re.DOTALL
)
_DDL_NAME: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:`]+))[\s:]+\S")


def payload_columns(value: str) -> dict[str, str]:
    """The definitions of columns in DDL by their names; Spark itself parses the types."""
    found: dict[str, str] = {}
    for part in _definitions(value):
        match = _DDL_NAME.match(part)
        name = (match[1] or match[2]).replace("``", "`") if match else ""
        if name.lower() in {"", CORRUPT, *map(str.lower, found)}:
            raise InvalidFormat(f"different columns such as id long, at timestamp; not {CORRUPT}")
        found[name] = part.strip()
    return found


def _definitions(ddl: str) -> Iterator[str]:
    """The parts between commas that are not in brackets."""
    depth, part = 0, ""
    for piece in _DDL_TOKEN.findall(ddl):
        if piece == "," and depth == 0:
            yield part
            part = ""
            continue
        depth += (piece in "<(") - (piece in ">)")
        part += piece
    yield part
