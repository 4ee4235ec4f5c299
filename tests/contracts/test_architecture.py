"""What import contracts cannot express: packages outside the layers, and the place of imports.

The layers themselves and the purity of the pure packages are checked by ``lint-imports``, from the
table in ``pyproject.toml``.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "borzoi"
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]

#: Packages that use the layers from outside, and why none of the layers may know them.
OUTSIDE = {
    "testing": "a test broker for users; a server must not need it",
    "simulator": "plays the world around the replicas",
    "cli": "talks to a server, or to the files of one that is down",
    "bench": "loads any server of the protocol, and measures nothing but what a client sees",
    "client": "is installed where no server is",
    "spark": "runs in Spark's processes, and reads what servers store",
}

#: Files that may import inside a function, and why.
LATE = {
    "src/borzoi/objectstore/locations.py": "obstore weighs 16 MB, and only remote stores need it",
    "src/borzoi/server/listening.py": "TLS, HTTP and QUIC weigh megabytes and slow the start",
    "src/borzoi/server/launching.py": "emptying knows all of a server, and few starts empty",
    "src/borzoi/server/shard_process.py": "a shard is loaded into memory near its processor",
    "src/borzoi/diagnostics/snapshots.py": "few servers are asked for a snapshot",
    "src/borzoi/server/config.py": "few servers have an archive, whose settings it checks",
    "src/borzoi/server/process.py": "few servers have an archive",
    "src/borzoi/server/token_rules.py": "only RSA and other issuers need the keys of RSA",
    "src/borzoi/server/arguments.py": "a wrong setting is reported before a whole server loads",
}


def contract(kind: str) -> dict[str, list[str]]:
    """The first contract of a kind: the layers, and what the pure packages may not touch."""
    found: dict[str, list[str]]
    found, *_ = [each for each in LINTER["contracts"] if each["type"] == kind]
    return found


LAYERED = set(re.findall(r"\w+", " ".join(contract("layers")["layers"])))
PACKAGES = {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every module of borzoi that is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "borzoi":
            names = [f"borzoi.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        else:
            continue
        for name in names:
            if name.startswith(("borzoi", ".")):
                yield node.lineno, name


def deferred_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The imports of borzoi that wait until a function runs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imports(node)


def modules(packages: set[str]) -> list[Path]:
    return [
        path for package in sorted(packages) for path in sorted((SOURCE / package).rglob("*.py"))
    ]


def test_every_package_is_in_a_layer_or_outside_for_a_reason() -> None:
    assert PACKAGES - LAYERED - OUTSIDE.keys() == set()
    assert LAYERED & OUTSIDE.keys() == set()


def test_the_pure_packages_are_layers_too() -> None:
    pure = {name.removeprefix("borzoi.") for name in contract("forbidden")["source_modules"]}
    assert pure == {"model", "records", "protocol", "metadata", "consensus"}
    assert pure <= LAYERED


def test_no_layer_knows_what_stands_outside() -> None:
    outside = tuple(f"borzoi.{package}" for package in OUTSIDE)
    guilty = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(PACKAGES & LAYERED)
        for line, name in imports(ast.parse(path.read_text()))
        if name.startswith(outside)
    ]
    assert guilty == []


def test_imports_stand_at_the_top_where_they_can_be_seen() -> None:
    """An import inside a function hides a dependency, and nearly always a circle."""
    guilty = {
        path.relative_to(ROOT).as_posix(): found
        for path in modules(PACKAGES & LAYERED)
        if (found := list(deferred_imports(ast.parse(path.read_text()))))
    }
    assert {name: found for name, found in guilty.items() if name not in LATE} == {}
    assert LATE.keys() <= guilty.keys(), "these files have nothing to be excused for"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import borzoi.model.units", ["borzoi.model.units"]),
        ("from borzoi import testing", ["borzoi.testing"]),
        ("from borzoi.model import units", ["borzoi.model"]),
        ("from . import units", ["."]),
        ("import json\nfrom json import loads", []),
    ],
)
def test_an_import_of_borzoi_is_found_in_every_form(text: str, found: list[str]) -> None:
    assert [name for _, name in imports(ast.parse(text))] == found
    inside = "def f():\n" + "".join(f"    {line}\n" for line in text.splitlines())
    assert [name for _, name in deferred_imports(ast.parse(inside))] == found
    assert list(deferred_imports(ast.parse(text))) == []
