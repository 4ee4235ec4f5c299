import logging

import click
import pytest
from click.testing import CliRunner

from borzoi.__main__ import main
from borzoi.cli.connecting import Connecting
from borzoi.cli.global_options import TUNING, global_options, write_trace


@pytest.fixture
def trace(tmp_path):
    """A file to trace into; logging is as it was afterwards."""
    logger = logging.getLogger("borzoi")
    before, level = list(logger.handlers), logger.level
    yield tmp_path / "trace.log"
    for handler in set(logger.handlers) - set(before):
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)


@pytest.mark.parametrize("name", TUNING)
def test_options_about_buffers_are_taken(name):
    assert CliRunner().invoke(main, [name, "1", "completion", "bash"]).exit_code == 0


@pytest.mark.parametrize("transport", ["tcp", "quic", "websocket"])
def test_reconnection_has_an_effect(transport):
    found = {}

    @click.command()
    @global_options
    def command(**options):
        found.update(options)

    retries = (f"--{transport}-reconnection-max-retries", "7")
    interval = (f"--{transport}-reconnection-interval", "250ms")
    result = CliRunner().invoke(command, [*retries, *interval])
    assert result.exit_code == 0, result.output
    options = Connecting(found).client_options(log_in=False)
    assert options.reconnection.retries == 7
    assert options.reconnection.interval == 0.25


def test_the_name_of_a_server_reaches_the_client():
    tls = Connecting({"tcp_tls_enabled": True, "tcp_tls_domain": "a b&c"}).client_options(
        log_in=False
    )
    assert tls.tls is not None
    assert tls.tls.domain == "a b&c"


def test_the_client_leaves_a_trace(trace):
    write_trace(trace)
    logging.getLogger("borzoi.client").debug("a sign of life")
    assert "DEBUG borzoi.client a sign of life" in trace.read_text()


def test_a_trace_that_cannot_be_written(tmp_path):
    result = CliRunner().invoke(main, ["-d", str(tmp_path / "no" / "x"), "completion", "bash"])
    assert result.exit_code == 1
    assert "cannot be written" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_as_the_published_command_line_gives_it(shell):
    asked = CliRunner().invoke(main, ["--generate", shell])
    assert asked.exit_code == 0
    assert asked.output == CliRunner().invoke(main, ["completion", shell]).output


def test_no_command_is_an_overview():
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 2
    assert "Commands:" in result.output
