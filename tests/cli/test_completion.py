import pytest
from click.testing import CliRunner

from borzoi.__main__ import main
from borzoi.cli import completion
from borzoi.cli.completion import SHELLS, VARIABLE, live_streams, live_topics


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_every_shell(shell):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert VARIABLE in result.output


def test_without_a_server_there_are_no_names(monkeypatch, tmp_path):
    monkeypatch.setenv("BORZOI_HOME", str(tmp_path))
    assert live_streams("") == []
    assert live_topics("shop/") == []


@pytest.mark.system
def test_names_that_live_on_the_server(borzoi, stream, monkeypatch):
    host, port = borzoi.address
    monkeypatch.setattr(completion, "PATIENCE_SECONDS", 60.0)
    monkeypatch.setenv("BORZOI_HOME", str(borzoi.home))
    where = ("--tcp-server-address", f"{host}:{port}", "-u", "iggy", "-p", "iggy")
    borzoi.run("context", "create", "here", *where)
    borzoi.run("context", "use", "here")
    assert [one.value for one in live_streams("sh")] == ["shop"]
    assert live_streams("x") == []
    assert [one.value for one in live_topics("sh")] == ["shop/"]
    assert [one.value for one in live_topics("shop/o")] == ["shop/orders"]
