"""docs/protocol.md says what the code does."""

import re
from pathlib import Path
from typing import Any

from borzoi.model.errors import ServerError
from borzoi.protocol.catalog import REQUESTS
from borzoi.protocol.errors import ERRORS

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "protocol.md").read_text("utf-8")


def rows(columns: int) -> list[list[str]]:
    """The rows of all tables with this many columns whose first column is a number."""
    cells = [line.strip("| ").split(" | ") for line in DOCUMENT.splitlines()]
    return [row for row in cells if len(row) == columns and row[0].isdigit()]


def test_every_command_is_in_the_table_with_its_answer():
    expected = [
        [str(code), request.__name__, request.RESPONSE.__name__ if request.RESPONSE else "–"]
        for code, request in sorted(REQUESTS.items())
    ]
    assert [[code, name, answer] for code, name, _, answer in rows(4)] == expected


def test_every_field_of_a_request_is_in_the_table():
    values: dict[str, Any] = {request.__name__: request for request in REQUESTS.values()}
    for _, name, layout, _ in rows(4):
        assert set(values[name].__struct_fields__) <= set(re.findall(r"\w+", layout)), name


def test_every_status_with_an_exception_is_in_the_table():
    expected = [
        [str(row.code), row.name, row.error.__name__]
        for row in ERRORS
        if row.error is not ServerError
    ]
    assert rows(3) == expected
    assert f"All {len(ERRORS)} are in" in DOCUMENT
