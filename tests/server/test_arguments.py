from pathlib import Path

import pytest
from click.testing import CliRunner

from borzoi.__main__ import main
from borzoi.server.arguments import serve


def test_a_wrong_setting_is_told_at_once_with_exit_code_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(serve, [], env={"BORZOI_SYSTEM_SEGMENT_SIZE": "huge"})
    assert result.exit_code == 2
    assert "system.segment.size" in result.output
    assert "'huge'" in result.output


def test_a_follower_without_a_leader_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "borzoi.toml").write_text("[cluster]\nenabled = true\nnode.others = []\n")
    refused = CliRunner().invoke(serve, ["--follower"])
    assert refused.exit_code == 2
    assert "borzoi cannot start: --follower: cluster.node.others is empty" in refused.output
    assert [path.name for path in tmp_path.iterdir()] == ["borzoi.toml"]


def test_the_flags_are_those_of_the_published_server() -> None:
    text = CliRunner().invoke(serve, ["--help"]).output
    for flag in ("--fresh", "--with-default-root-credentials", "--follower", "--config-provider"):
        assert flag in text


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_is_that_of_the_whole_command(flag: str) -> None:
    said = CliRunner().invoke(serve, [flag])
    assert said.exit_code == 0
    assert said.output == CliRunner().invoke(main, [flag]).output != ""
