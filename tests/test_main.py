import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from borzoi import __version__
from borzoi.__main__ import COMMANDS, LazyGroup, main


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_explains_itself(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_a_command_that_is_not_there_is_an_error_not_a_traceback() -> None:
    result = CliRunner().invoke(main, ["fetch"])
    assert result.exit_code == 2
    assert "No such command" in result.output
    assert isinstance(main, LazyGroup)
    assert main.get_command(click.Context(main), "fetch") is None


def test_the_help_names_every_command() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    assert all(name in text for name in COMMANDS)


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"borzoi, version {__version__}\n"


def test_asking_for_help_loads_nothing_that_only_a_server_needs() -> None:
    program = (
        "import sys; from click.testing import CliRunner; from borzoi.__main__ import main;"
        "CliRunner().invoke(main, ['--version']);"
        "print([name for name in ('numpy', 'uvloop', 'cryptography') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"


def test_it_runs_as_a_module_under_its_own_name() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "borzoi", "fetch"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert found.stderr.startswith("Usage: borzoi ")
