"""A status becomes an exception that says what it was about, why, and what to do."""

import subprocess
import sys
from pathlib import Path

import pytest

from borzoi.client.advice import ADVICE, error_answered
from borzoi.model.errors import ServerError, StreamNotFound
from borzoi.protocol.errors import ERRORS

ROOT = Path(__file__).parents[2]


def test_a_known_status_is_its_class_and_says_what_to_do() -> None:
    error = error_answered(1009, "GetTopics")
    assert isinstance(error, StreamNotFound)
    assert (error.code, error.name) == (1009, "stream_id_not_found")
    assert error.message == (
        "GetTopics: there is no such stream; create it with create_stream or ensure_topic"
    )


def test_an_unknown_status_keeps_its_number() -> None:
    error = error_answered(77_777, "Ping")
    assert isinstance(error, ServerError)
    assert (error.code, error.name) == (77_777, "error")


def test_advice_is_about_statuses_that_there_are() -> None:
    assert ADVICE.keys() <= {row.code for row in ERRORS}


@pytest.mark.parametrize(
    "code", [3, 8, 40, 41, 42, 1009, 2010, 3007, 4022, 5000, 5006, 8000, 12001]
)
def test_what_programs_meet_has_advice(code: int) -> None:
    assert code in ADVICE


def test_the_catalogue_is_what_the_tool_makes() -> None:
    tool = ROOT / "tools" / "error_catalogue.py"
    assert subprocess.run([sys.executable, tool, "--check"]).returncode == 0
