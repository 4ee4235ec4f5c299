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


def test_show_prints_toml_without_secrets(runner: CliRunner) -> None:
    shown = runner.invoke(config, ["show"], env={"BORZOI_SYSTEM_ENCRYPTION_KEY": "hidden"})
    document = tomllib.loads(shown.output)
    assert document["tcp"]["address"] == "127.0.0.1:1"
    assert document["system"]["encryption"]["key"] == "******"


def test_schema_prints_both_forms(runner: CliRunner) -> None:
    assert json.loads(runner.invoke(config, ["schema"]).output)["type"] == "object"
    assert "| `tcp.address` |" in runner.invoke(config, ["schema", "--format", "markdown"]).output
