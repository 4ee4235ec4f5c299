"""The same pipeline file wherever Spark runs, with the same rows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable
from tests.spark.conftest import fill
from tests.spark.pipelines.orders import is_bad, payload
from tests.support.server import RunningServer

from borzoi.spark.broker import Broker
from borzoi.spark.clusters import start, stop

MESSAGES = 4000
PATIENCE_SECONDS = 300
FILE = """
[pipeline]
name = "orders"
checkpoint = "checkpoint"

[server]
address = "{servers}"

[source.orders]
subscribe = "{topic}"
start = "earliest"
data_directory = "{data}"
format = {{ json = "id long, amount double, country string" }}
on_error = "drop"
expect = "amount >= 0"

[[step]]
name = "named"
from = "orders"
sql = "select id, amount, lower(country) country, _meta from orders"

[sink.lake]
from = "named"
table = {{ delta = "lake" }}
"""


SPECIFICATION = """
name: orders
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""
TRANSFORMATIONS = """
from borzoi.spark.pipelines.declarative import define

define({path!r})
"""


def run(path: Path, *arguments: str) -> int:
    """Run the file in a process of its own; how many messages it read."""
    command = [sys.executable, "-m", "borzoi", "pipeline", "run", str(path), "--json", *arguments]
    return messages_in(output_of(command, path))


def submit(path: Path) -> int:
    command = [sys.executable, "-m", "borzoi", "spark", "submit", str(path), "--master", "local[2]"]
    return messages_in(output_of(command, path))


def run_declarative(path: Path) -> None:
    """As a Declarative Pipeline, which does not say how much it read."""
    folder = path.parent
    (folder / "transformations").mkdir()
    (folder / "transformations" / "orders.py").write_text(TRANSFORMATIONS.format(path=str(path)))
    specification = folder / "spark-pipeline.yml"
    specification.write_text(SPECIFICATION.format(storage=(folder / "storage").as_uri()))
    script = str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines")
    output_of([script, "run", "--spec", str(specification)], path)


def output_of(command: list[str], path: Path) -> str:
    environment = dict(os.environ) | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr + log_of(path)
    return done.stdout


def messages_in(output: str) -> int:
    reports = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return sum(report["rows"] for report in reports)


def log_of(path: Path) -> str:
    logs = list(path.parent.glob("*.spark.log"))
    return logs[0].read_text()[-5000:] if logs else ""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("where", ["local", "cluster", "connect", "submit", "declarative"])
def test_the_same_file_gives_the_same_rows_everywhere(
    server: RunningServer, servers: str, broker: Broker, topic: str, tmp_path: Path, where: str
) -> None:
    fill(broker, topic, 0, [payload(n) for n in range(MESSAGES)])
    path = tmp_path / "orders.toml"
    path.write_text(FILE.format(servers=servers, topic=topic, data=server.directory))
    if where == "local":
        assert run(path, "--master", "local[2]") == MESSAGES
    elif where == "connect":
        assert run(path, "--remote", "local[2]") == MESSAGES
    elif where == "submit":
        assert submit(path) == MESSAGES
    elif where == "declarative":
        run_declarative(path)
    else:
        cluster = start(tmp_path / "cluster", cores=2, memory="1g")
        try:
            assert run(path, "--master", cluster.master) == MESSAGES
        finally:
            stop(tmp_path / "cluster")
    expected = [n for n in range(MESSAGES) if not is_bad(n)]
    rows = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table()
    assert sorted(rows.column("id").to_pylist()) == expected
    assert set(rows.column("country").to_pylist()) == {"at", "ch", "de", "fr", "it", "pl"}
