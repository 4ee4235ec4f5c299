from click.testing import CliRunner

from borzoi import __version__
from borzoi.__main__ import COMMANDS, main


def test_every_sub_command_is_there_when_it_is_asked_for() -> None:
    runner = CliRunner()
    for name in COMMANDS:
        assert runner.invoke(main, [name, "--help"]).exit_code == 0, name
    assert set(COMMANDS) <= set(runner.invoke(main, ["--help"]).output.split())


def test_the_version_is_told_and_an_unknown_command_is_not_there() -> None:
    assert __version__ in CliRunner().invoke(main, ["--version"]).output
    assert CliRunner().invoke(main, ["fly"]).exit_code == 2
