"""`borzoi job` from the command line; those that need Spark are tried in test_jobs.py."""

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.spark.conftest import commit_epochs, fill

from borzoi.__main__ import main
from borzoi.spark.broker import Broker
from borzoi.spark.job_commands import connector_options, job, section_of
from borzoi.spark.lake.files import TableLayout
from borzoi.spark.lake.parquet import ParquetTable


def invoke(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["job", *arguments])
    return done.exit_code, done.output


def test_every_job_is_there() -> None:
    assert set(job.commands) == {
        "archive",
        "compact",
        "copy",
        "ingest",
        "repartition",
        "replay",
        "stats",
        "verify",
    }


def test_verify_and_stats(
    servers: str, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    fill(broker, topic, 0, [b'{"a": 1}'] * 5)
    code, output = invoke("verify", topic, "--server", servers)
    assert (code, output) == (0, "5 messages, 360 B, 0 faults\n")
    code, output = invoke("stats", topic, "--server", servers, "--top", "a")
    assert code == 0, output
    assert "0 – 5" in output


def test_dead_letters_are_sent_to_a_named_topic(servers: str, broker: Broker, topic: str) -> None:
    fill(broker, topic, 0, [b"x"])
    target = f"{topic}-b"
    broker.ensure_topic(target, 1)
    arguments = ("replay", topic, target, "--from-dlq", "--server", servers)
    assert invoke(*arguments, "--rate", "1") == (0, "1 messages sent\n")
    assert invoke(*arguments) == (0, "0 messages sent\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("archive", "a/b", "orc:x"), "'orc:x' is not one of parquet, delta, iceberg with :DIR"),
        (("replay", "a/b"), "replay needs a TARGET"),
        (("replay", "a/b", "a/c", "--rate", "0"), "0 is not in the range x>=1"),
        (("compact", "iceberg:x"), "pyiceberg cannot rewrite files"),
        (("stats", "orders"), "stream/topic"),
    ],
)
def test_what_cannot_be_is_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    code, output = invoke(*arguments)
    assert code == 2
    assert sentence in output


def test_compact(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    batch = pa.RecordBatch.from_pydict({"n": [1]})
    commit_epochs(table, TableLayout(str(tmp_path)), batch, 2)
    code, output = invoke("compact", f"parquet:{tmp_path}")
    assert (code, output) == (0, "2 files became 1, 0 abandoned ones removed\n")


def test_credentials_are_named_not_given() -> None:
    options = {
        "server": "h:1",
        "username": "u",
        "password_env": "P",
        "token_env": None,
        "data": "/d",
    }
    assert section_of(options) == {"address": "h:1", "username": "u", "password": {"env": "P"}}
    assert connector_options(options) == {
        "servers": "h:1",
        "username": "u",
        "passwordEnv": "P",
        "dataDirectory": "/d",
    }
    by_token = section_of(options | {"username": None, "password_env": None, "token_env": "T"})
    assert by_token["token"] == {"env": "T"}
