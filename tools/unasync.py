"""Makes the blocking client from the asynchronous one, and its tests from those.

    python tools/unasync.py            write the files
    python tools/unasync.py --check    say which files differ from what would be written, and fail

Only words are replaced (`RULES`); what differs by more than its name comes in both colours from
``borzoi/client/_colours.py``. A rule that no file needs is a fault, so that none outlives its use.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src/borzoi/client", "tests/client")

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


def expected() -> dict[Path, str]:
    """The files that should be there, with their texts."""
    files: dict[Path, str] = {}
    used: set[str] = set()
    for folder in FOLDERS:
        for source in sources(ROOT / folder / "_async"):
            target = ROOT / folder / "_sync" / source.relative_to(ROOT / folder / "_async")
            header = HEADER.format(source=source.relative_to(ROOT).as_posix())
            files[target] = formatted(header + converted(source.read_text(), used))
    unneeded = [pattern for pattern, _ in RULES if pattern not in used]
    if unneeded:
        raise SystemExit(f"no file needs these rules: {unneeded}")
    return files


def sources(folder: Path) -> list[Path]:
    """All modules; a package's own file only speaks about it."""
    return sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")


def strays(files: dict[Path, str]) -> list[Path]:
    """Files that stand where only made ones may, and are none."""
    there = [path for folder in FOLDERS for path in sources(ROOT / folder / "_sync")]
    return sorted(set(there) - files.keys())


def main(arguments: list[str]) -> int:
    files = expected()
    if arguments == ["--check"]:
        differing = [
            path for path, text in files.items() if not path.exists() or path.read_text() != text
        ]
        for path in [*differing, *strays(files)]:
            print(f"{path.relative_to(ROOT)} is not what tools/unasync.py makes")
        return 1 if differing or strays(files) else 0
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for path in strays(files):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
