"""Environment variables over the file: ``BORZOI_TCP_ADDRESS`` and ``IGGY_TCP_ADDRESS`` are one.

Pure: the environment is passed as a mapping.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from borzoi.model.errors import InvalidConfiguration
from borzoi.model.spelling import nearest
from borzoi.model.value import Value
from borzoi.server.declaring import SettingKey

PREFIXES = ("BORZOI_", "IGGY_")

#: Variables that are read elsewhere, or belong to other tools.
RESERVED = frozenset(
    {
        "ACCELERATOR",
        "CONFIG_PATH",
        "ROOT_USERNAME",
        "ROOT_PASSWORD",
        "ENV_PATH",
        "DISPLAY_CONFIG",
        "CI_BUILD",
        "USERNAME",
        "PASSWORD",
        "HOME",
        "CONNECTORS_CONFIG_PATH",
        "MCP_CONFIG_PATH",
        "TEST_CLEANUP_DISABLED",
        "TEST_VERBOSE",
        "CRASH_CYCLES",
        "LOAD_SECONDS",
        "LOAD_SEED",
    }
)
RESERVED_PREFIXES = ("CONNECTORS_", "MCP_", "TEST_")

#: Array tables can be set by index in the environment, up to this many of them.
TABLES_MAX = 10


class Override(Value):
    """One variable that took effect."""

    variable: str
    path: tuple[str | int, ...]
    value: str
    secret: bool


def variable(environment: Mapping[str, str], name: str) -> str | None:
    """Return the value of ``BORZOI_name`` or ``IGGY_name``; raises if both are set and differ."""
    found = {f"{prefix}{name}": environment.get(f"{prefix}{name}", "") for prefix in PREFIXES}
    values = {value for value in found.values() if value}
    if len(values) > 1:
        raise InvalidConfiguration(
            f"{' and '.join(found)} are the same setting with different values; keep one"
        )
    return values.pop() if values else None


def overrides(environment: Mapping[str, str], keys: Sequence[SettingKey]) -> Iterator[Override]:
    """Return the overrides in the environment, in the order of the keys."""
    for key in keys:
        for path in _paths(key.path):
            name = "_".join(str(part) for part in path).upper()
            value = variable(environment, name)
            if value is not None:
                given = next(p + name for p in PREFIXES if environment.get(p + name))
                yield Override(given, path, value, key.declaration.secret)


def _paths(path: str) -> Iterator[tuple[str | int, ...]]:
    if "[]" not in path:
        yield tuple(path.split("."))
        return
    before, _, after = path.partition("[].")
    for number in range(TABLES_MAX):
        yield (*before.split("."), number, *after.split("."))


def overlaid(document: dict[str, Any], found: Sequence[Override]) -> dict[str, Any]:
    """Apply the overrides to the document; raises if a parent key is not a section."""
    for override in found:
        target: Any = document
        place = ""
        for part, following in zip(override.path, override.path[1:], strict=False):
            empty: Any = [] if isinstance(following, int) else {}
            place += f"[{part}]" if isinstance(part, int) else f".{part}"
            if isinstance(part, int):
                target.extend({} for _ in range(part + 1 - len(target)))
                target = target[part]
            else:
                target = target.setdefault(part, empty)
            if not isinstance(target, type(empty)):
                kind = "an array of tables" if isinstance(following, int) else "a section"
                raise InvalidConfiguration(
                    f"{place[1:]} is {kind}, not {target!r}; {override.variable} sets a key in it"
                )
        target[override.path[-1]] = override.value
    return document


def unknown_variables(environment: Mapping[str, str], keys: Sequence[SettingKey]) -> Iterator[str]:
    """Return a warning for each variable with our prefix that is unknown, with the nearest name."""
    known = {
        "_".join(str(part) for part in path).upper() for key in keys for path in _paths(key.path)
    }
    for given in sorted(environment):
        prefix = next((p for p in PREFIXES if given.startswith(p)), None)
        if prefix is None:
            continue
        name = given.removeprefix(prefix)
        if name in known or name in RESERVED or name.startswith(RESERVED_PREFIXES):
            continue
        near = nearest(name, known | RESERVED, likeness=0.7)
        hint = f"; did you mean {prefix}{near}?" if near else ""
        yield f"the variable {given} is not a setting{hint}"
