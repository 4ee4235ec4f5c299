"""How a setting is declared: its default, its kind, what it means, and what else it must satisfy.

A section is a class whose body declares its keys with `setting`, `section` and `tables`. Everything
about a key (its default, its environment variables, its documentation, its JSON schema) is derived
from the declaration, so it is stated once.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, cast, dataclass_transform

from borzoi.model.errors import InvalidConfiguration
from borzoi.model.value import Value


class Kind(Value):
    """The values of a key: a parser, a description of what is allowed, and a formatter."""

    name: str
    allowed: str
    parse: Callable[[Any], Any]
    show: Callable[[Any], Any]
    schema: dict[str, Any]


class Declaration(Value):
    """Everything about a key except its name."""

    kind: Kind
    default: Any
    meaning: str
    secret: bool = False
    #: The part of borzoi that will use the key; until it exists, a start logs a warning.
    later: str | None = None


class SettingKey(Value):
    """A key with its full dotted path."""

    path: str
    declaration: Declaration

    @property
    def variable(self) -> str:
        """The environment variable, without its prefix: ``TCP_TLS_ENABLED``."""
        return self.path.replace(".", "_").upper()


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Section:
    """Settings that belong together: an immutable value that stores only what differs from the
    defaults.

    It is not a struct, because the fields of a struct cannot carry a declaration, and not a
    dataclass, because 45 of those would cost every start 50 ms.
    """

    #: What the body declared, in its order.
    declared: ClassVar[Mapping[str, "Entry"]] = {}

    def __init_subclass__(cls) -> None:
        cls.declared = {
            name: entry
            for name, entry in vars(cls).items()
            if isinstance(entry, Declaration | Inner | Tables)
        }
        for name, entry in cls.declared.items():
            setattr(cls, name, _default_of(entry))

    def __init__(self, **given: Any) -> None:
        for name in given:
            if name not in self.declared:
                raise TypeError(f"{type(self).__name__} has no setting {name!r}")
        # Missing values are found in the class.
        vars(self).update(given)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def replaced(self, **changes: Any) -> Self:
        """Return the section with these values replaced."""
        return type(self)(**{**vars(self), **changes})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.declared)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.declared))

    def __repr__(self) -> str:
        shown = (
            f"{name}={getattr(self, name)!r}"
            for name, entry in self.declared.items()
            if not (isinstance(entry, Declaration) and entry.secret)
        )
        return f"{type(self).__name__}({', '.join(shown)})"


S = TypeVar("S", bound=Section)


class Inner(Value):
    """A section within a section."""

    kind: type[Section]


class Tables(Value):
    """An array of tables, each of them a section."""

    kind: type[Section]
    meaning: str
    #: The default tables, as written in a file.
    default: tuple[Mapping[str, Any], ...] = ()


Entry: TypeAlias = Declaration | Inner | Tables


def setting(
    kind: Kind, default: Any, meaning: str, *, secret: bool = False, later: str | None = None
) -> Any:
    """Declare a key. `default` is written as in a file."""
    return Declaration(kind, default, meaning, secret, later)


def section(kind: type[S]) -> S:
    """A section within a section, all of it at its defaults."""
    return cast(S, Inner(kind))


def tables(
    kind: type[S], meaning: str, *, default: tuple[Mapping[str, Any], ...] = ()
) -> tuple[S, ...]:
    """An array of tables."""
    return cast(tuple[S, ...], Tables(kind, meaning, default))


def _default_of(entry: Entry) -> Any:
    match entry:
        case Declaration():
            return entry.kind.parse(entry.default)
        case Inner():
            return entry.kind()
        case Tables():
            return tuple(parsed_section(entry.kind, table) for table in entry.default)


def keys_of(kind: type[Section], prefix: str = "") -> Iterator[SettingKey]:
    """Every key below a section, in the order of declaration; array tables as ``name[]``."""
    for name, entry in kind.declared.items():
        path = f"{prefix}{name}"
        match entry:
            case Declaration():
                yield SettingKey(path, entry)
            case Inner():
                yield from keys_of(entry.kind, f"{path}.")
            case Tables():
                yield from keys_of(entry.kind, f"{path}[].")


def parsed_section(kind: type[S], given: Any, prefix: str = "") -> S:
    """Build the section from the given values and defaults; errors name the key."""
    if not isinstance(given, dict):
        raise InvalidConfiguration(f"{prefix.rstrip('.')} is a section, not {given!r}")
    return kind(
        **{
            name: _parsed_entry(entry, given[name], f"{prefix}{name}")
            for name, entry in kind.declared.items()
            if name in given
        }
    )


def _parsed_entry(entry: Entry, value: Any, path: str) -> Any:
    match entry:
        case Declaration():
            return parsed_value(SettingKey(path, entry), value)
        case Inner():
            return parsed_section(entry.kind, value, f"{path}.")
        case Tables():
            if not isinstance(value, list):
                raise InvalidConfiguration(f"{path} is an array of tables, not {value!r}")
            return tuple(
                parsed_section(entry.kind, table, f"{path}[{number}].")
                for number, table in enumerate(value)
            )


def parsed_value(key: SettingKey, value: Any) -> Any:
    """Parse a value; the error names the key, the value and what is allowed."""
    declaration = key.declaration
    try:
        return declaration.kind.parse(value)
    except (ValueError, TypeError) as fault:
        shown = "the value given" if declaration.secret else repr(value)
        raise InvalidConfiguration(
            f"{key.path}: {shown} is not allowed; it takes {declaration.kind.allowed}"
        ) from fault


def shown_section(settings: Section, *, secrets: bool = False) -> dict[str, Any]:
    """Return the section as in a file; secrets are masked by default."""
    shown: dict[str, Any] = {}
    for name, entry in settings.declared.items():
        value = getattr(settings, name)
        match entry:
            case Declaration():
                masked = entry.secret and not secrets and value
                shown[name] = "******" if masked else entry.kind.show(value)
            case Inner():
                shown[name] = shown_section(value, secrets=secrets)
            case Tables():
                shown[name] = [shown_section(table, secrets=secrets) for table in value]
    return shown
