"""The same pipeline file in this process, on a standalone cluster and over Spark Connect."""

import json
import subprocess
import sys
from pathlib import Path

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


def run(path: Path, *arguments: str) -> list[dict]:
    """Run the file in a process of its own; its reports."""
    done = subprocess.run(
        [sys.executable, "-m", "borzoi", "pipeline", "run", str(path), "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr + log_of(path)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def log_of(path: Path) -> str:
    logs = list(path.parent.glob("*.spark.log"))
    return logs[0].read_text()[-5000:] if logs else ""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("where", ["local", "cluster", "connect"])
def test_the_same_file_gives_the_same_rows_everywhere(
    server: RunningServer, servers: str, broker: Broker, topic: str, tmp_path: Path, where: str
) -> None:
    fill(broker, topic, 0, [payload(n) for n in range(MESSAGES)])
    path = tmp_path / "orders.toml"
    path.write_text(FILE.format(servers=servers, topic=topic, data=server.directory))
    if where == "local":
        reports = run(path, "--master", "local[2]")
    elif where == "connect":
        reports = run(path, "--remote", "local[2]")
    else:
        cluster = start(tmp_path / "cluster", cores=2, memory="1g")
        try:
            reports = run(path, "--master", cluster.master)
        finally:
            stop(tmp_path / "cluster")
    assert sum(report["rows"] for report in reports) == MESSAGES
    expected = [n for n in range(MESSAGES) if not is_bad(n)]
    rows = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table()
    assert sorted(rows.column("id").to_pylist()) == expected
    assert set(rows.column("country").to_pylist()) == {"at", "ch", "de", "fr", "it", "pl"}
