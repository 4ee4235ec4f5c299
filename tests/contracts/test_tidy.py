"""Rules for every file of the repository.

Each rule is a function from a file to its faults. A guilty file may argue its case in `EXCUSES`;
an excuse that nobody needs any more is a fault itself.
"""

import ast
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "borzoi"
CODE_FOLDERS = ("src", "tests", "bench", "examples", "tools")

HOMELESS = {"util", "utils", "helper", "helpers", "misc", "common", "shared", "stuff"}
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 800
PACKAGE_DOCSTRING_WORDS_MIN = 12

LEFT_IN = re.compile(r"\b(?:FIXME|TODO|XXX|NotImplementedError)\b")
MACHINE_PATH = re.compile(r"(?<![\w.:/}-])/(?:work|root|home|Users)/[\w.-]")
REGISTRY_HOST = re.compile(
    r"\b(?:(?:test\.)?pypi\.org|pythonhosted\.org|registry\.npmjs\.org|registry\.yarnpkg\.com"
    r"|static\.crates\.io|index\.crates\.io|conda\.anaconda\.org|repo\.maven\.apache\.org"
    r"|repo1\.maven\.org|proxy\.golang\.org|rubygems\.org)\b"
    r"|\b(?:artifactory|jfrog|devpi)\b|/simple/?[\"'\s]"
)

#: Rule, then file (or folder, with a slash at its end): why this one may.
EXCUSES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "left_in": {
            "tests/contracts/test_tidy.py": "has to write down what it forbids",
        },
        "machine_paths": {
            "tests/contracts/test_tidy.py": "plants a path to see it found",
        },
        "reexports": {
            "src/borzoi/__init__.py": "imports what loads the client late, and nothing of ours",
            "src/borzoi/testing/__init__.py": "the public face of the test broker, a few names",
            "src/borzoi/client/__init__.py": "the public face of the client, pinned by a test",
            "src/borzoi/spark/__init__.py": "people write borzoi.spark.session()",
        },
        "registry_hosts": {
            "tests/contracts/test_tidy.py": "has to write down what it forbids",
            "uv.lock": "a lock file says where each wheel comes from",
        },
    }
)

Rule = Callable[[Path, str], Iterator[str]]


# ---- rules for Python files ---------------------------------------------------------------------


def homeless_names(path: Path, _: str) -> Iterator[str]:
    """A module is named after what it holds."""
    for name in path.relative_to(ROOT).with_suffix("").parts:
        if name.strip("_").removeprefix("test_") in HOMELESS:
            yield f"is called {name!r}"


def long_functions(_: Path, text: str) -> Iterator[str]:
    """A function can be seen whole."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name} has {lines} lines"


def long_modules(_: Path, text: str) -> Iterator[str]:
    """A module is about one thing, and can be read at once."""
    lines = text.count("\n")
    if lines > MODULE_LINES_MAX:
        yield f"has {lines} lines"


def left_in(_: Path, text: str) -> Iterator[str]:
    """What was postponed is written into the list of open work, not into the code."""
    return lines_with(LEFT_IN, text)


def imports_for_types_only(_: Path, text: str) -> Iterator[str]:
    """An import that only a type checker may see hides a dependency that points upwards."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield f"line {node.lineno}: if TYPE_CHECKING"


def defaults_for_what_is_empty(_: Path, text: str) -> Iterator[str]:
    """`given or Default()` replaces an empty cache that is shared; test for `is None` instead."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            made = node.values[-1]
            if isinstance(made, ast.Call):
                name = ast.unparse(made.func).rpartition(".")[2].lstrip("_")
                if name[:1].isupper():
                    yield f"line {node.lineno}: {ast.unparse(node)}"


# ---- rules for the source tree ------------------------------------------------------------------


def missing_mirror_tests(path: Path, _: str) -> Iterator[str]:
    """tests/ has the shape of src/borzoi/, so the tests of a module are easy to find."""
    if path.stem != "__init__":
        # The tests of the blocking client are made of those of the asynchronous one.
        module = Path(*(part.replace("_sync", "_async") for part in path.relative_to(SOURCE).parts))
        mirror = ROOT / "tests" / module.parent / f"test_{path.stem.strip('_')}.py"
        if not mirror.exists():
            yield f"has no {mirror.relative_to(ROOT)}"


def undocumented_packages(path: Path, text: str) -> Iterator[str]:
    """A package says what lives there, who hands it work, and what does not belong."""
    if path.stem == "__init__":
        docstring = ast.get_docstring(ast.parse(text)) or ""
        if len(docstring.split()) < PACKAGE_DOCSTRING_WORDS_MIN:
            yield "does not say what lives in this package"
    elif not (path.parent / "__init__.py").exists():
        yield "lies in a folder without __init__.py"


def reexports(path: Path, text: str) -> Iterator[str]:
    """Everything has one address, so a package's own file imports nothing."""
    if path.stem == "__init__":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield f"line {node.lineno}: {ast.unparse(node)}"


# ---- rules for every tracked text file ----------------------------------------------------------


def machine_paths(_: Path, text: str) -> Iterator[str]:
    """No file names a machine or a home directory."""
    return lines_with(MACHINE_PATH, text)


def registry_hosts(_: Path, text: str) -> Iterator[str]:
    """The place packages come from is chosen when they are installed."""
    return lines_with(REGISTRY_HOST, text)


def lines_with(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        if found := pattern.search(line):
            yield f"line {number}: {found[0]}"


PYTHON_RULES: tuple[Rule, ...] = (
    homeless_names,
    long_functions,
    long_modules,
    left_in,
    imports_for_types_only,
)
SOURCE_RULES: tuple[Rule, ...] = (
    missing_mirror_tests,
    undocumented_packages,
    reexports,
    defaults_for_what_is_empty,
)
TEXT_RULES: tuple[Rule, ...] = (machine_paths, registry_hosts)


def python_files() -> list[Path]:
    return [path for folder in CODE_FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    return [path for name in listing.split("\0") if name and (path := ROOT / name).is_file()]


FILES_OF_RULE: tuple[tuple[Rule, Callable[[], list[Path]]], ...] = (
    *((rule, python_files) for rule in PYTHON_RULES),
    *((rule, source_files) for rule in SOURCE_RULES),
    *((rule, tracked_files) for rule in TEXT_RULES),
)


def text_of(path: Path) -> str | None:
    """The text of a file, or None for bytes."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize(("rule", "files"), FILES_OF_RULE, ids=lambda part: part.__name__)
def test_every_file_keeps(rule: Rule, files: Callable[[], list[Path]]) -> None:
    excuses = EXCUSES.get(rule.__name__, {})
    guilty: dict[str, list[str]] = {}
    for path in files():
        text = text_of(path)
        if text is not None and (faults := list(rule(path, text))):
            guilty[path.relative_to(ROOT).as_posix()] = faults
    accused = [
        f"{name}: {fault}"
        for name, faults in guilty.items()
        if not any(is_meant(excuse, name) for excuse in excuses)
        for fault in faults
    ]
    assert not accused, "\n".join([rule.__doc__ or rule.__name__, *accused])
    unneeded = [excuse for excuse in excuses if not any(is_meant(excuse, name) for name in guilty)]
    assert unneeded == [], "these files have nothing to be excused for"


def is_meant(excuse: str, name: str) -> bool:
    return name.startswith(excuse) if excuse.endswith("/") else name == excuse


def test_every_excuse_is_for_a_rule_and_gives_a_reason() -> None:
    assert EXCUSES.keys() <= {rule.__name__ for rule, _ in FILES_OF_RULE}
    assert all(len(reason) > 20 for excuses in EXCUSES.values() for reason in excuses.values())


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (homeless_names, "src/borzoi/model/helpers.py", ""),
        (homeless_names, "tests/model/test_utils.py", ""),
        (homeless_names, "src/borzoi/common/names.py", ""),
        (long_functions, "x.py", "async def f():\n" + "    pass\n" * 70),
        (long_functions, "x.py", "class A:\n  def f():\n" + "    pass\n" * 70),
        (long_modules, "x.py", "\n" * 801),
        (left_in, "x.py", "x = 1  # TODO: later\n"),
        (left_in, "x.py", "raise NotImplementedError\n"),
        (imports_for_types_only, "x.py", "if TYPE_CHECKING:\n    import asyncio\n"),
        (imports_for_types_only, "x.py", "if typing.TYPE_CHECKING:\n    import asyncio\n"),
        (defaults_for_what_is_empty, "x.py", "self.cache = cache or storage.Cache(8)"),
        (missing_mirror_tests, "src/borzoi/model/absent.py", ""),
        (undocumented_packages, "src/borzoi/model/__init__.py", '"""."""'),
        (undocumented_packages, "src/borzoi/absent/module.py", ""),
        (reexports, "src/borzoi/model/__init__.py", "from borzoi.model.units import parse_bytes"),
        (machine_paths, "x.md", "see /home/someone/notes"),
        (registry_hosts, "x.toml", 'index = "https://pypi.org/simple"'),
    ],
)
def test_a_fault_is_found(rule: Rule, name: str, text: str) -> None:
    assert list(rule(ROOT / name, text)) != []


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (homeless_names, "src/borzoi/model/units.py", ""),
        (long_functions, "x.py", "def f():\n" + "    pass\n" * 69),
        (long_modules, "x.py", "\n" * 800),
        (left_in, "x.py", "# a todo list is kept elsewhere"),
        (imports_for_types_only, "x.py", "if checking:\n    import asyncio\n"),
        (defaults_for_what_is_empty, "x.py", "Cache() if cache is None else cache"),
        (missing_mirror_tests, "src/borzoi/model/units.py", ""),
        (undocumented_packages, "src/borzoi/model/units.py", ""),
        (reexports, "src/borzoi/__init__.py", '__version__ = "1"'),
        (machine_paths, "x.md", "GET /users/root/permissions, {stream}/home/x, ./work/y"),
        (registry_hosts, "x.md", "iggy.apache.org"),
    ],
)
def test_a_tidy_file_is_left_in_peace(rule: Rule, name: str, text: str) -> None:
    assert list(rule(ROOT / name, text)) == []


def test_bytes_are_not_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "frame.bin").write_bytes(b"\xff\xfe\x00")
    assert text_of(tmp_path / "frame.bin") is None
