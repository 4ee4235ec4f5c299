import click
import pytest
from click.testing import CliRunner

from borzoi.command_tree import INTERRUPTED, CommandTree, LazyCommand


@click.group(
    cls=CommandTree, entries={"late": LazyCommand("click.testing_absent:x", "Loaded late.", ("l",))}
)
def tree() -> None:
    """A tree."""


assert isinstance(tree, CommandTree)


@tree.command_named("greet", "g", "hi")
def greet() -> None:
    """Say hello."""
    click.echo("hello")


@tree.command_named("wait")
def wait() -> None:
    """Wait for Ctrl-C."""
    raise KeyboardInterrupt


def run(*arguments: str):
    return CliRunner().invoke(tree, arguments)


@pytest.mark.parametrize("name", ["greet", "g", "hi"])
def test_a_command_answers_to_its_name_and_its_aliases(name):
    assert run(name).output == "hello\n"


def test_the_help_shows_aliases_and_loads_nothing():
    text = run("--help").output
    assert "late (l)" in text
    assert "Loaded late." in text
    assert "greet (g, hi)" in text


def test_an_unknown_command_names_the_nearest():
    result = run("gret")
    assert result.exit_code == 2
    assert "No such command 'gret'. Did you mean 'greet'?" in result.output
    assert "Did you mean" not in run("zzzzzz").output


def test_ctrl_c_ends_without_a_word():
    result = run("wait")
    assert (result.exit_code, result.output) == (INTERRUPTED, "")


def test_aliases_of_a_name():
    assert tree.aliases_of("greet") == ["g", "hi"]
    assert tree.aliases_of("late") == ["l"]
