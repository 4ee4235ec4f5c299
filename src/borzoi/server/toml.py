"""Settings written as TOML. The standard library only reads it."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec


def written(document: Mapping[str, Any]) -> str:
    """The document as TOML text: plain keys first, then sections, then arrays of tables."""
    return "\n".join(_lines(document, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not _is_table(value)}
    if path and (plain or not table):
        yield f"[{'.'.join(path)}]"
    for key, value in plain.items():
        yield f"{key} = {_value(value)}"
    if plain:
        yield ""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _lines(value, (*path, key))
        elif _is_table(value):
            for entry in value:
                yield f"[[{'.'.join((*path, key))}]]"
                yield from _lines_of_entry(entry, (*path, key))


def _lines_of_entry(entry: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for key, value in entry.items():
        if not isinstance(value, Mapping):
            yield f"{key} = {_value(value)}"
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from _lines(value, (*path, key))
    yield ""


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value)}]"
    # A JSON string is a TOML basic string, escapes included.
    return msgspec.json.encode(value).decode()
