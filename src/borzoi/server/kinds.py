"""The kinds of values a key can take, each with its parser, description and JSON schema."""

import re
from collections.abc import Callable
from typing import Any

from borzoi.model.errors import InvalidFormat
from borzoi.model.units import (
    format_bytes,
    format_duration,
    format_expiry,
    format_max_size,
    parse_bytes,
    parse_duration,
    parse_expiry,
    parse_max_size,
)
from borzoi.server.declaring import Kind
from borzoi.server.placement import parsed_allocation

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^\[\]:]+)):(?P<port>[0-9]{1,5})")
_TEXT_OR_NUMBER = {"type": ["string", "integer"]}


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(value)


def _path(value: Any) -> str:
    text = _text(value)
    if "\0" in text:
        raise ValueError(value)
    return text


def _word(value: Any) -> str:
    """Text, or a flag or number written without quotes (``cache_indexes = true``)."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else _text(value)


def _unit(parse: Callable[[Any], int]) -> Callable[[Any], int]:
    def parsed(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise TypeError(value)
        try:
            return parse(value)
        except InvalidFormat as fault:
            raise ValueError(value) from fault

    return parsed


def _address(value: Any) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found["port"]) > 65535:
        raise ValueError(value)
    return found["v6"] or found["host"], int(found["port"])


def shown_address(address: tuple[str, int]) -> str:
    """``127.0.0.1:8090``, and ``[::1]:8090`` where the host has colons of its own."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        # In the environment a list is text: ["a", "b"] or [a,b] or a,b.
        inner = value.strip().removeprefix("[").removesuffix("]")
        return tuple(part.strip().strip("\"'") for part in inner.split(",")) if inner else ()
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise ValueError(value)


def _optional_bytes(value: Any) -> int | None:
    return None if value in ("", None) else _unit(parse_bytes)(value)


def _cpu_allocation(value: Any) -> str:
    text = _word(value)
    parsed_allocation(text)
    return text


def _quantity(
    name: str, allowed: str, parse: Callable[[Any], int], shown: Callable[[int], str]
) -> Kind:
    """A number, or a text with a unit."""
    return Kind(name, allowed, _unit(parse), shown, _TEXT_OR_NUMBER)


def _as_is(value: Any) -> Any:
    return value


FLAG = Kind("flag", "true or false", _flag, _as_is, {"type": "boolean"})
TEXT = Kind("text", "text", _text, _as_is, {"type": "string"})
PATH = Kind("path", "a path", _path, _as_is, {"type": "string"})
TEXTS = Kind(
    "list",
    "a list of texts",
    _texts,
    list,
    {"type": "array", "items": {"type": "string"}},
)
ADDRESS = Kind(
    "address",
    'an address like "127.0.0.1:8090" or "[::1]:8090"',
    _address,
    shown_address,
    {"type": "string"},
)
DURATION = _quantity(
    "duration", 'a duration like "30 s", "1h 30m" or "none"', parse_duration, format_duration
)
BYTES = _quantity(
    "bytes", 'a size like "1 GiB", "100 KB" or a number of bytes', parse_bytes, format_bytes
)
BYTES_OR_UNSET = Kind(
    "bytes, optional",
    'a size like "64 KB", or "" for the library\'s own',
    _optional_bytes,
    lambda size: "" if size is None else format_bytes(size),
    _TEXT_OR_NUMBER,
)
EXPIRY = _quantity(
    "expiry", 'a duration like "7 days", or "none" for never', parse_expiry, format_expiry
)
MAX_SIZE = _quantity(
    "max size", 'a size like "10 GiB", or "unlimited"', parse_max_size, format_max_size
)
CPU_ALLOCATION = Kind(
    "cpus",
    '"auto", "all", a count from 1 to 128, a range like "0..4", "numa:auto" or'
    ' "numa:nodes=0;cores=4"',
    _cpu_allocation,
    _as_is,
    _TEXT_OR_NUMBER,
)


def count(least: int, most: int) -> Kind:
    """A whole number within bounds."""

    def parsed(value: Any) -> int:
        if isinstance(value, str):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(value)
        return value

    schema = {"type": "integer", "minimum": least, "maximum": most}
    return Kind("number", f"a whole number from {least} to {most}", parsed, _as_is, schema)


def choice(*words: str) -> Kind:
    """One of a few words."""

    def parsed(value: Any) -> str:
        word = _word(value)
        for known in words:
            if word.lower() == known.lower():
                return known
        raise ValueError(value)

    return Kind("choice", f"one of {', '.join(words)}", parsed, _as_is, {"enum": list(words)})
