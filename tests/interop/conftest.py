"""A server for a module of scenarios, and the functions that run a program against it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.certificates import write_self_signed
from tests.support.interop import Program, run_scenario
from tests.support.server import RunningServer, running_server
from tests.support.wire_client import WireClient

from borzoi.protocol.commands.tokens import CreatePersonalAccessToken, RawToken

Play = Callable[..., None]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running
        assert running.stop() == 0, running.output


@pytest.fixture
def token(server: RunningServer) -> str:
    """A personal access token of the root user."""
    with WireClient(server.tcp_address) as client:
        client.login()
        made = client.call(CreatePersonalAccessToken("interop", 0))
    assert isinstance(made, RawToken)
    return made.token


@pytest.fixture
def play(server: RunningServer) -> Play:
    """Run a program with the name of a scenario and the server's address; it must succeed."""

    def run(program: Program, scenario: str, *arguments: str) -> None:
        run_scenario(server, program, scenario, "{}:{}".format(*server.tcp_address), *arguments)

    return run


@pytest.fixture
def play_over_tls(tmp_path: Path) -> Iterator[Play]:
    """The same with a server that speaks TLS; the program also gets its certificate's file."""
    certificate, key = write_self_signed(tmp_path)
    settings = {
        "TCP_TLS_ENABLED": "true",
        "TCP_TLS_SELF_SIGNED": "false",
        "TCP_TLS_CERT_FILE": str(certificate),
        "TCP_TLS_KEY_FILE": str(key),
    }
    with running_server(settings) as server:

        def run(program: Program, scenario: str) -> None:
            address = "{}:{}".format(*server.tcp_address)
            run_scenario(server, program, scenario, address, str(certificate))

        yield run
        assert server.stop() == 0, server.output
