import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from borzoi.server.config_command import config


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.chdir(tmp_path)
    return CliRunner(env={"BORZOI_TCP_ADDRESS": "127.0.0.1:1"})


def test_check_says_whether_a_server_would_start(runner: CliRunner) -> None:
    good = runner.invoke(config, ["check"])
    assert good.exit_code == 0
    assert "all settings are valid" in good.output
    bad = runner.invoke(config, ["check"], env={"BORZOI_TCP_ADDRESS": "nowhere"})
    assert bad.exit_code == 1
    assert "tcp.address" in bad.output
    warned = runner.invoke(config, ["check"], env={"BORZOI_TPC_ADDRESS": "x"})
    assert warned.exit_code == 1
    assert "did you mean" in warned.output
    assert "all settings are valid" not in warned.output
    assert "a server would start, without 1 setting that it does not know" in warned.output


def test_check_looks_at_the_places_a_server_would_write_to(
    runner: CliRunner, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for variable in ("BORZOI_SYSTEM_LOGGING_PATH", "BORZOI_SYSTEM_PATH"):
        bad = runner.invoke(config, ["check"], env={variable: str(tmp_path / "file" / "x")})
        assert bad.exit_code == 1
        assert "Not a directory" in bad.output
        assert "a server would not start" in bad.output
    off = {
        "BORZOI_SYSTEM_LOGGING_PATH": str(tmp_path / "file"),
        "BORZOI_SYSTEM_LOGGING_FILE_ENABLED": "false",
    }
    assert runner.invoke(config, ["check"], env=off).exit_code == 0
    taken = tmp_path / "taken"
    (taken / "borzoi.log").mkdir(parents=True)
    told = runner.invoke(config, ["check"], env={"BORZOI_SYSTEM_LOGGING_PATH": str(taken)})
    assert "Is a directory" in told.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "taken"]


def test_check_looks_whether_the_shards_find_their_place(runner: CliRunner) -> None:
    name = "BORZOI_SYSTEM_SHARDING_CPU_ALLOCATION"
    result = runner.invoke(config, ["check"], env={name: "numa:nodes=4000"})
    assert result.exit_code == 1
    assert "there is no node 4000" in result.output


def test_a_number_is_no_path(runner: CliRunner, tmp_path: Path) -> None:
    (tmp_path / "borzoi.toml").write_text("[system]\npath = 5\n")
    told = runner.invoke(config, ["check"])
    assert told.exit_code == 1
    assert "system.path: 5 is not allowed; it takes a path" in told.output


def test_show_prints_toml_without_secrets(runner: CliRunner) -> None:
    shown = runner.invoke(config, ["show"], env={"BORZOI_SYSTEM_ENCRYPTION_KEY": "hidden"})
    document = tomllib.loads(shown.output)
    assert document["tcp"]["address"] == "127.0.0.1:1"
    assert document["system"]["encryption"]["key"] == "******"


def test_schema_prints_both_forms(runner: CliRunner) -> None:
    assert json.loads(runner.invoke(config, ["schema"]).output)["type"] == "object"
    assert "| `tcp.address` |" in runner.invoke(config, ["schema", "--format", "markdown"]).output
