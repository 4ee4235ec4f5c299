import subprocess
import sys


def test_the_simulator_is_a_program_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "borzoi.simulator", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--seed" in done.stdout
