"""Documentation of the keys, derived from their declarations. Pure."""

from collections.abc import Sequence
from typing import Any

from borzoi.server.declaring import SettingKey


def markdown_table(keys: Sequence[SettingKey]) -> str:
    """Return the reference for docs/configuration.md; a test compares the two."""
    rows = ["| Key | Default | Takes | Meaning |", "|---|---|---|---|"]
    for key in keys:
        declaration = key.declaration
        default = "" if declaration.secret else _shown(declaration.default)
        meaning = declaration.meaning
        if declaration.later is not None:
            meaning += f" (needs {declaration.later}, not available yet)"
        rows.append(
            f"| `{key.path}` | {default} | {_cell(declaration.kind.allowed)} | {_cell(meaning)} |"
        )
    return "\n".join(rows) + "\n"


def _shown(default: Any) -> str:
    if default == "":
        return "empty"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def json_schema(keys: Sequence[SettingKey]) -> dict[str, Any]:
    """A JSON schema of the file, for editors."""
    root: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "borzoi configuration",
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    for key in keys:
        target = root
        *sections, name = key.path.split(".")
        for part in sections:
            target = _inner(target, part)
        target["properties"][name] = {
            **key.declaration.kind.schema,
            "description": key.declaration.meaning,
            "default": key.declaration.default,
        }
    return root


def _inner(target: dict[str, Any], part: str) -> dict[str, Any]:
    """Return the schema of a section or of an array's tables (``name[]``), created if missing."""
    empty: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    properties: dict[str, Any] = target["properties"]
    name = part.removesuffix("[]")
    if name == part:
        section: dict[str, Any] = properties.setdefault(name, empty)
        return section
    items: dict[str, Any] = properties.setdefault(name, {"type": "array", "items": empty})["items"]
    return items
