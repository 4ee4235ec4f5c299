"""`borzoi pipeline` without Spark."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.spark.conftest import fill

from borzoi.__main__ import main
from borzoi.spark.broker import Broker


def invoke(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, arguments)
    return done.exit_code, done.output


def test_a_new_file_can_be_validated_and_is_not_overwritten(tmp_path: Path) -> None:
    path = str(tmp_path / "orders.toml")
    assert invoke("pipeline", "new", path)[0] == 0
    assert invoke("pipeline", "validate", path) == (0, f"{path}: 1 sources, 1 steps, 1 sinks\n")
    code, output = invoke("pipeline", "new", path)
    assert code != 0
    assert "is there already" in output


def test_a_wrong_file_is_one_sentence_and_code_2(tmp_path: Path) -> None:
    path = tmp_path / "orders.toml"
    path.write_text('[pipeline]\nname = "x"\ntriger = "5s"\n')
    code, output = invoke("pipeline", "validate", str(path))
    assert code == 2
    assert output == "error: [pipeline] has no key 'triger'; did you mean 'trigger'?\n"
    assert invoke("pipeline", "run", str(tmp_path / "absent.toml"))[0] == 2


def test_plan_status_and_reset(
    servers: str, broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    fill(broker, topic, 0, [b"x"] * 7)
    path = tmp_path / "p.toml"
    path.write_text(
        f"""
        [pipeline]
        name = "p"
        [server]
        address = "{servers}"
        [source.raw]
        subscribe = "{topic}"
        start = "earliest"
        [sink.lake]
        from = "raw"
        table = {{ parquet = "lake" }}
        """
    )
    code, output = invoke("pipeline", "plan", str(path))
    assert code == 0, output
    assert "bulk" in output
    code, output = invoke("pipeline", "status", str(path))
    assert code == 0, output
    assert "lake" in output
    (tmp_path / "checkpoints" / "p").mkdir(parents=True)
    assert invoke("pipeline", "reset", "--yes", str(path)) == (0, "removed\n")
    assert invoke("pipeline", "reset", "--yes", str(path)) == (0, "there was no checkpoint\n")
