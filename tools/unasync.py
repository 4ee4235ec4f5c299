"""Makes the blocking client from the asynchronous one, and its tests from those.

    python tools/unasync.py            write the files
    python tools/unasync.py --check    say which files differ from what would be written, and fail
    python tools/unasync.py --tests    write only the tests

The client is committed, because installations and editors need it. Its tests are not: pytest writes
them when it collects `tests/client`, and `scripts/check` before it reads them.

Only words are replaced (`RULES`); what differs by more than its name comes in both colours from
``borzoi/client/_colours.py``. A rule that no file needs is a fault, so that none outlives its use.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "src" / "borzoi" / "client"
TESTS = ROOT / "tests" / "client"

#: Read from top to bottom: a text that one rule made is seen by the next.
RULES = (
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", r""),
    (r"\bAsync([A-Z])", r"\1"),
    (r"\basync_(\w)", r"\1"),
    (r"\b_async\b", r"_sync"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\bStopAsyncIteration\b", r"StopIteration"),
)

HEADER = "# Made by tools/unasync.py from {source}: edit that one.\n"


def converted(source: str, used: set[str]) -> str:
    """The text of a blocking module; `used` collects the rules that found something."""
    for pattern, replacement in RULES:
        source, count = re.subn(pattern, replacement, source)
        if count:
            used.add(pattern)
    return source


def formatted(text: str) -> str:
    """As our formatter would have it: lines that became shorter are joined."""
    ruff = [sys.executable, "-m", "ruff"]
    for arguments in (["check", "--quiet", "--select", "I", "--fix", "-"], ["format", "-"]):
        text = subprocess.run(
            [*ruff, *arguments], input=text, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
    return text


def made(folder: Path, used: set[str]) -> dict[Path, str]:
    """The blocking modules that belong beside the asynchronous ones of a folder, unformatted."""
    files: dict[Path, str] = {}
    for source in sources(folder / "_async"):
        target = folder / "_sync" / source.relative_to(folder / "_async")
        header = HEADER.format(source=source.relative_to(ROOT).as_posix())
        files[target] = header + converted(source.read_text(), used)
    return files


def expected() -> dict[Path, str]:
    """The files that should be committed, with their texts."""
    used: set[str] = set()
    files = {path: formatted(text) for path, text in made(CLIENT, used).items()}
    made(TESTS, used)
    unneeded = [pattern for pattern, _ in RULES if pattern not in used]
    if unneeded:
        raise SystemExit(f"no file needs these rules: {unneeded}")
    return files


def write(folder: Path, files: dict[Path, str]) -> None:
    """Bring the blocking side of a folder in line with the files."""
    for path, text in files.items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Processes of one test run write the same files, and read them at the same time.
            unfinished = path.with_suffix(f".{os.getpid()}.tmp")
            unfinished.write_text(text)
            unfinished.replace(path)
    for path in strays(folder, files):
        path.unlink(missing_ok=True)


def write_tests() -> None:
    write(TESTS, made(TESTS, set()))


def sources(folder: Path) -> list[Path]:
    """All modules; a package's own file only speaks about it."""
    return sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")


def strays(folder: Path, files: dict[Path, str]) -> list[Path]:
    """Files that stand where only made ones may, and are none."""
    return sorted(set(sources(folder / "_sync")) - files.keys())


def main(arguments: list[str]) -> int:
    if arguments == ["--tests"]:
        write_tests()
        return 0
    files = expected()
    if arguments == ["--check"]:
        differing = [
            path for path, text in files.items() if not path.exists() or path.read_text() != text
        ]
        wrong = [*differing, *strays(CLIENT, files)]
        for path in wrong:
            print(f"{path.relative_to(ROOT)} is not what tools/unasync.py makes")
        return 1 if wrong else 0
    write(CLIENT, files)
    write_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
