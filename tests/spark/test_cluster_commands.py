"""`borzoi spark` without a cluster."""

import json
from pathlib import Path

from click.testing import CliRunner

from borzoi.__main__ import main


def test_down_says_whether_anything_was_running(tmp_path: Path) -> None:
    arguments = ["spark", "down", "--directory", str(tmp_path)]
    assert CliRunner().invoke(main, arguments).output == "nothing is running\n"
    (tmp_path / "cluster.json").write_text(json.dumps({"master": "x", "processes": []}))
    assert CliRunner().invoke(main, arguments).output == "ended\n"


def test_up_refuses_a_second_cluster(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    done = CliRunner().invoke(main, ["spark", "up", "--directory", str(tmp_path)])
    assert done.exit_code == 2
    assert "borzoi spark down" in done.output
