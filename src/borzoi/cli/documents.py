"""Answers of a server as plain documents."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

from borzoi.cli.faults import CommandFailed, Exit

Found = TypeVar("Found")


def found(answer: Found | None, sentence: str) -> Found:
    """Return the answer; fail if the server found nothing."""
    if answer is None:
        raise CommandFailed(sentence, Exit.NOT_FOUND, "`list` shows what there is")
    return answer


def record_of(answer: Any) -> dict[str, Any]:
    """Return the fields of an answer, nested ones included."""
    value = _plain(answer)
    assert isinstance(value, dict)
    return value


def _plain(value: Any) -> Any:
    names = getattr(value, "__struct_fields__", None)
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value.name.lower() if isinstance(value, Enum) else value
