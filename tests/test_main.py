import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from tests.support.interpreter import run_python

from borzoi import __version__
from borzoi.__main__ import COMMANDS, main
from borzoi.command_tree import CommandTree

#: Modules that the help may load; the interpreter and click need most of them.
MODULES_MAX = 200


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_explains_itself(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_a_command_that_is_not_there_is_an_error_not_a_traceback() -> None:
    result = CliRunner().invoke(main, ["fetch"])
    assert result.exit_code == 2
    assert "No such command" in result.output
    assert isinstance(main, CommandTree)
    assert main.get_command(click.Context(main), "fetch") is None


def test_the_help_names_every_command() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    assert all(name in text for name in COMMANDS)


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"borzoi, version {__version__}\n"


def test_asking_for_help_loads_nothing_that_only_a_server_needs() -> None:
    program = (
        f"MODULES_MAX = {MODULES_MAX};"
        "import sys; from click.testing import CliRunner; from borzoi.__main__ import main;"
        "CliRunner().invoke(main, ['--help']);"
        "heavy = ('numpy', 'uvloop', 'cryptography', 'rich', 'msgspec', 'borzoi.client');"
        "print([name for name in heavy if name in sys.modules], len(sys.modules) < MODULES_MAX)"
    )
    found = run_python("-c", program, check=True)
    assert found.stdout == "[] True\n"


def test_a_closed_pipe_ends_quietly() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "borzoi", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert errors == b""
    assert process.returncode in (0, 1)


def test_an_option_that_is_not_there_names_the_nearest() -> None:
    result = CliRunner().invoke(main, ["--usrname", "x", "me"])
    assert result.exit_code == 2
    assert "--username" in result.output


def test_it_runs_as_a_module_under_its_own_name() -> None:
    found = run_python("-m", "borzoi", "fetch")
    assert found.returncode == 2
    assert found.stderr.startswith("Usage: borzoi ")


#: The commands of the published command line: a group with its alias, and what it has.
PUBLISHED_GROUPS = {
    ("stream", "s"): "create/c delete/d get/g purge/p update/u list/l",
    ("topic", "t"): "create/c update/u delete/d get/g purge/p list/l",
    ("partition", "p"): "create/c delete/d",
    ("segment", "seg"): "delete/d",
    ("pat", "pat"): "create/c delete/d list/l",
    ("user", "u"): ("create/c delete/d get/g list/l name/n status/s password/pwd permissions/p"),
    ("client", "c"): "get/g list/l",
    ("cluster", "cl"): "metadata/m",
    ("consumer-group", "g"): "create/c delete/d get/g list/l",
    ("consumer-offset", "o"): "get/g set/s",
    ("message", "m"): "send/s poll/p flush/f",
    ("context", "ctx"): "list/l use/u create/c delete/d",
}
PUBLISHED_COMMANDS = "ping/ping me/me stats/stats snapshot/snapshot login/li logout/lo"


def found(tree: click.Command, name: str) -> click.Command:
    assert isinstance(tree, CommandTree)
    command = tree.get_command(click.Context(tree), name)
    assert command is not None, name
    return command


@pytest.mark.parametrize("group", PUBLISHED_GROUPS, ids=lambda group: group[0])
def test_published_commands_answer_to_their_names_and_aliases(group: tuple[str, str]) -> None:
    name, alias = group
    tree = found(main, name)
    assert found(main, alias) is tree
    for pair in PUBLISHED_GROUPS[group].split():
        command, short = pair.split("/")
        assert found(tree, command) is found(tree, short), pair


@pytest.mark.parametrize("pair", PUBLISHED_COMMANDS.split())
def test_published_commands_without_a_group(pair: str) -> None:
    name, alias = pair.split("/")
    assert found(main, name) is found(main, alias)
