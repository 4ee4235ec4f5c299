"""A class name means one thing, wherever in the package a reader meets it."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

SOURCE = Path(__file__).resolve().parents[2] / "src" / "borzoi"
#: Made by tools/unasync.py.
GENERATED = SOURCE / "client" / "_sync"

_BOTH_ENDS = "the same thing at both ends: the client's class is public, the server's is not"
_TWO_PROTOCOLS = "a message of the replicas' protocol, and one of the clients' protocol"

#: Names that may stand for two classes, and why.
SHARED: Mapping[str, str] = MappingProxyType(
    {
        "Message": _BOTH_ENDS,
        "Ping": _TWO_PROTOCOLS,
        "Polled": _BOTH_ENDS,
        "Request": _TWO_PROTOCOLS,
        "Token": _BOTH_ENDS,
        "ValueMessage": "the same thing with and without the accelerator",
    }
)


def class_names(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def defined_twice(files: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Class names with the files that define them, where there are several definitions."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, text in files:
        for name in class_names(text):
            places[name].append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def written_files() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if not path.is_relative_to(GENERATED):
            yield path.relative_to(SOURCE).as_posix(), path.read_text()


def test_no_public_class_name_is_defined_twice() -> None:
    twice = defined_twice(written_files())
    assert {name: paths for name, paths in twice.items() if name not in SHARED} == {}


def test_every_exception_is_needed() -> None:
    assert SHARED.keys() <= defined_twice(written_files()).keys()


def test_a_second_definition_is_found() -> None:
    files = [("a.py", "class Row: ..."), ("b.py", "def f():\n class Row: ..."), ("c.py", "Row = 1")]
    assert defined_twice([*files, ("d.py", "class _Row: ...")]) == {"Row": ["a.py", "b.py"]}
