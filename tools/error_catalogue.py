"""Makes ``docs/errors.md`` from the tables of statuses and of advice.

python tools/error_catalogue.py            write the file
python tools/error_catalogue.py --check    fail when it is not what would be written
"""

import sys
from pathlib import Path

from borzoi.client.advice import ADVICE
from borzoi.protocol.errors import ERRORS

TARGET = Path(__file__).resolve().parents[1] / "docs" / "errors.md"

HEAD = """# Errors

Made by `tools/error_catalogue.py` from the tables in the code.

Every exception of the client is a `borzoi.model.errors.BorzoiError` with `code` (the number),
`name` and `message`. Classes form families by what a program would do about them: `InvalidRequest`
(correct the call), `NotFound`, `AlreadyExists`, `LimitReached`, `AccessDenied`, `ConnectionLost`
(try again), `StorageFailure` (look at the server).

| Code | Name | Class | Cause | What to do |
|---:|---|---|---|---|
"""

REST = """
## All other codes

They say that the server itself failed, or are used by other clients only. Most arrive as
`ServerError` and keep their number.

| Code | Name |
|---:|---|
"""


def catalogue() -> str:
    lines = [HEAD]
    lines += [
        f"| {row.code} | `{row.name}` | `{row.error.__name__}` | {ADVICE[row.code].cause} "
        f"| {ADVICE[row.code].fix} |\n"
        for row in ERRORS
        if row.code in ADVICE
    ]
    lines.append(REST)
    lines += [f"| {row.code} | `{row.name}` |\n" for row in ERRORS if row.code not in ADVICE]
    return "".join(lines)


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        return 0 if TARGET.read_text() == catalogue() else 1
    TARGET.write_text(catalogue())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
