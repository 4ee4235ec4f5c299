"""The command reference is what the commands say themselves."""

from pathlib import Path

from tests.support.interpreter import run_python

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_of_commands_is_up_to_date() -> None:
    checked = run_python("tools/cli_reference.py", "--check", cwd=ROOT)
    assert checked.returncode == 0, checked.stderr
