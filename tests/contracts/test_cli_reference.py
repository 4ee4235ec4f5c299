"""The command reference is what the commands say themselves."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_of_commands_is_up_to_date() -> None:
    checked = subprocess.run(
        [sys.executable, "tools/cli_reference.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
