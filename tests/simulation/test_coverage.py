"""How much of the core the simulation reaches by itself: seeds, planted bugs and scripts.

The unit tests of the core have no part in this. What is not reached is named, with the reason, in
`docs/reliability.md`; a share below the one written there is a failure.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from borzoi.simulator.planted import SCRIPTED_ELSEWHERE

SEEDS = os.environ.get("BORZOI_COVERAGE_SEEDS", "1..300")
REACHED_MIN = 97.0


def measured(folder: Path, *arguments: str, fine: tuple[int, ...] = (0,)) -> str:
    environment = {**os.environ, "COVERAGE_FILE": str(folder / "coverage")}
    command = [sys.executable, "-m", "coverage", *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=3600
    )
    assert done.returncode in fine, done.stdout + done.stderr
    return done.stdout


@pytest.mark.deep
def test_the_simulation_reaches_the_core(tmp_path, capsys):
    run = ("run", "--append", "--branch", "--source=borzoi.consensus", "-m", "borzoi.simulator")
    measured(tmp_path, *run, "--seeds", SEEDS, "--jobs", "1")
    measured(tmp_path, *run, "--hunt")
    # Switches that no search finds: their branches run, whether anybody objects or not.
    for name in SCRIPTED_ELSEWHERE:
        measured(tmp_path, *run, "--seeds", "1..3", "--jobs", "1", "--bug", name, fine=(0, 1))
    report = measured(tmp_path, "report", "--show-missing", "--skip-covered")
    measured(tmp_path, "json", "-o", str(tmp_path / "coverage.json"))
    with capsys.disabled():
        print()
        print(report)
    totals = json.loads((tmp_path / "coverage.json").read_text())["totals"]
    assert totals["percent_covered"] >= REACHED_MIN
