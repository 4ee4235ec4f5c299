"""A standalone cluster on loopback."""

import json
import os
from pathlib import Path

import pytest

from borzoi.spark.clusters import CannotStart, start, stop


def test_a_directory_has_one_cluster(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(json.dumps({"master": "x", "processes": []}))
    with pytest.raises(CannotStart, match="spark down"):
        start(tmp_path, cores=1)
    assert stop(tmp_path)
    assert not stop(tmp_path)


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
