"""A standalone cluster on loopback."""

import json
import os
from pathlib import Path

import pytest

from borzoi.spark.clusters import CannotStart, start, stop, submission


def test_a_directory_has_one_cluster(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(json.dumps({"master": "x", "processes": []}))
    with pytest.raises(CannotStart, match="spark down"):
        start(tmp_path, cores=1)
    assert stop(tmp_path)
    assert not stop(tmp_path)


def test_a_submission_names_the_program_behind_the_options(tmp_path: Path) -> None:
    file = tmp_path / "orders.toml"
    command, environment = submission(file, ["--master", "local[2]"])
    assert Path(command[0]).name == "spark-submit"
    assert command[1:3] == ["--master", "local[2]"]
    assert (Path(command[3]).name, command[4]) == ("submitted.py", str(file))
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    _, elsewhere = submission(file, ["--master", "spark://master:7077"])
    assert "SPARK_LOCAL_IP" not in elsewhere


@pytest.mark.spark
@pytest.mark.slow
def test_master_and_worker_come_and_go(tmp_path: Path) -> None:
    cluster = start(tmp_path, cores=1, memory="512m")
    try:
        assert cluster.master.startswith("spark://127.0.0.1:")
        for process in cluster.processes:
            os.kill(process, 0)
    finally:
        assert stop(tmp_path)
