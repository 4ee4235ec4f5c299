"""The command line in this process, against a real server: quick, and still the whole way."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.support.server import running_server

from borzoi.__main__ import main
from borzoi.client import Client

FORMATS = ("table", "json", "yaml", "jsonl")


def in_formats(*spellings: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Every format once, with the spellings of a command in turn."""
    return [(form, spellings[number % len(spellings)]) for number, form in enumerate(FORMATS)]


@dataclass(slots=True)
class CommandLine:
    """``borzoi`` for the user iggy at one server, with a home of its own."""

    address: tuple[str, int]
    home: Path
    credentials: tuple[str, ...] = ("-u", "iggy", "-p", "iggy")
    environment: Mapping[str, str] = field(default_factory=dict)

    def invoke(self, *arguments: object, text: str | None = None) -> Result:
        """Run it as it is; the caller looks at the exit code."""
        where = ("--tcp-server-address", "{}:{}".format(*self.address))
        return CliRunner().invoke(
            main,
            [*where, *self.credentials, *map(str, arguments)],
            input=text,
            prog_name="borzoi",
            env={"BORZOI_HOME": str(self.home), "COLUMNS": "250", **self.environment},
        )

    def run(self, *arguments: object, text: str | None = None) -> str:
        """Standard output of a call that has to succeed."""
        result = self.invoke(*arguments, text=text)
        assert result.exit_code == 0, result.output
        return result.stdout

    def refused(self, exit_code: int, *arguments: object) -> str:
        """Standard error of a call that has to end with this exit code and print nothing else."""
        result = self.invoke(*arguments)
        assert (result.exit_code, result.stdout) == (exit_code, ""), result.output
        return result.stderr

    def document(self, *arguments: object, form: str = "json", option: str = "-o") -> Any:
        """The document of a call in a format; a table stays text."""
        return parsed(self.run(*arguments, option, form), form)

    def client(self) -> Client:
        host, port = self.address
        return Client(f"borzoi://iggy:iggy@{host}:{port}")


def parsed(text: str, form: str) -> Any:
    """JSON lines are a list, also a list of one."""
    if form == "json":
        return json.loads(text)
    if form == "yaml":
        return yaml.safe_load(text)
    if form == "jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return text


def one_of(document: Any, form: str) -> Any:
    """The one thing that a document of any format but a table describes."""
    if form == "jsonl":
        (only,) = document
        return only
    return document


def assert_said(said: Any, form: str, sentence: str, record: Any) -> None:
    """A sentence for people, and the same as a document for programs."""
    if form == "table":
        assert said == f"{sentence}\n"
    else:
        assert one_of(said, form) == record


def assert_shown(shown: Any, form: str, text: str, document: Any) -> None:
    """A table in which people find the text, and the whole document for programs."""
    if form == "table":
        assert text in shown
    else:
        assert (shown if isinstance(document, list) else one_of(shown, form)) == document


@pytest.fixture(scope="session")
def server():
    """One server for all tests of a worker; a conftest imports it."""
    with running_server() as running:
        yield running


@pytest.fixture
def borzoi(server, tmp_path):
    return CommandLine(server.tcp_address, tmp_path / "home")
