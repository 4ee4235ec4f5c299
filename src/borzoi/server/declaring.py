"""How a setting is declared: its default, its kind, what it means, and what else it must satisfy.

A section is a frozen dataclass whose fields are made by `setting`; everything that is said about a
key (its default, its environment variables, its documentation, its JSON schema) is read from there,
so nothing can be said twice and differently.
"""

from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from borzoi.model.errors import InvalidConfiguration

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """What values a key takes: a parser, the sentence about what is allowed, and the way back."""

    name: str
    allowed: str
    parse: Callable[[Any], Any]
    show: Callable[[Any], Any]
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Declaration:
    """All that is known about one key besides its name."""

    kind: Kind
    default: Any
    meaning: str
    secret: bool = False
    #: The part of borzoi that will use the key; until it is there, start-up says so in a line.
    later: str | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """A key with its full dotted path."""

    path: str
    declaration: Declaration

    @property
    def variable(self) -> str:
        """The environment variable, without its prefix: ``TCP_TLS_ENABLED``."""
        return self.path.replace(".", "_").upper()


def setting(
    kind: Kind, default: Any, meaning: str, *, secret: bool = False, later: str | None = None
) -> Any:
    """A field of a section. `default` is written the way people write it in the file."""
    parsed = kind.parse(default)
    declaration = Declaration(kind, default, meaning, secret, later)
    return field(default=parsed, repr=not secret, metadata={"declaration": declaration})


def section(kind: type[T]) -> T:
    """A field of a section that is a section itself, all of it at its defaults."""
    made: T = field(default_factory=kind)
    return made


def tables(kind: type[T], meaning: str) -> tuple[T, ...]:
    """A field that is an array of tables, empty by default."""
    made: tuple[T, ...] = field(default=(), metadata={"tables": kind, "meaning": meaning})
    return made


def keys_of(kind: type, prefix: str = "") -> Iterator[Key]:
    """Every key below a section, in the order of declaration; array tables as ``name[]``."""
    hints = get_type_hints(kind)
    for entry in fields(kind):
        path = f"{prefix}{entry.name}"
        if "declaration" in entry.metadata:
            yield Key(path, entry.metadata["declaration"])
        elif "tables" in entry.metadata:
            yield from keys_of(entry.metadata["tables"], f"{path}[].")
        else:
            yield from keys_of(hints[entry.name], f"{path}.")


def parsed_section(kind: type[T], given: Any, prefix: str = "") -> T:
    """The section with what was given in place of its defaults; names the key when it cannot."""
    if not isinstance(given, dict):
        raise InvalidConfiguration(f"{prefix.rstrip('.')} is a section, not {given!r}")
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for entry in fields(kind):  # type: ignore[arg-type]
        if entry.name in given:
            values[entry.name] = _parsed_entry(
                entry, hints, given[entry.name], f"{prefix}{entry.name}"
            )
    return kind(**values)


def _parsed_entry(entry: Field[Any], hints: dict[str, Any], value: Any, path: str) -> Any:
    if "declaration" in entry.metadata:
        return parsed_value(Key(path, entry.metadata["declaration"]), value)
    if "tables" in entry.metadata:
        if not isinstance(value, list):
            raise InvalidConfiguration(f"{path} is an array of tables, not {value!r}")
        kind = entry.metadata["tables"]
        return tuple(
            parsed_section(kind, table, f"{path}[{number}].") for number, table in enumerate(value)
        )
    return parsed_section(hints[entry.name], value, f"{path}.")


def parsed_value(key: Key, value: Any) -> Any:
    """The value in its own type; the error names the key, the value and what is allowed."""
    declaration = key.declaration
    try:
        return declaration.kind.parse(value)
    except (ValueError, TypeError) as fault:
        shown = "the value given" if declaration.secret else repr(value)
        raise InvalidConfiguration(
            f"{key.path}: {shown} is not allowed; it takes {declaration.kind.allowed}"
        ) from fault


def shown_section(settings: Any, *, secrets: bool = False) -> dict[str, Any]:
    """The section as it would stand in the file; secrets are masked unless asked for."""
    shown: dict[str, Any] = {}
    for entry in fields(settings):
        value = getattr(settings, entry.name)
        if "declaration" in entry.metadata:
            declaration = entry.metadata["declaration"]
            masked = declaration.secret and not secrets and value
            shown[entry.name] = "******" if masked else declaration.kind.show(value)
        elif "tables" in entry.metadata:
            shown[entry.name] = [shown_section(table, secrets=secrets) for table in value]
        elif is_dataclass(value):
            shown[entry.name] = shown_section(value, secrets=secrets)
    return shown
