"""A server for a module of scenarios, and how a program is let loose on it."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.support.server import RunningServer, running_server

from borzoi.security.certificates import self_signed

#: More than all that a program itself waits for, with its start.
SCENARIO_SECONDS_MAX = 300.0

Program = Sequence[str | Path]
Play = Callable[..., None]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running
        assert running.stop() == 0, running.output


@pytest.fixture
def play(server: RunningServer) -> Play:
    """Run a program with the name of a scenario and the server's address; it must succeed."""

    def run(program: Program, scenario: str, *arguments: str) -> None:
        run_scenario(server, program, scenario, *arguments)

    return run


@pytest.fixture
def play_over_tls(tmp_path: Path) -> Iterator[Play]:
    """The same with a server that speaks TLS; the program also gets its certificate's file."""
    pair = self_signed("localhost")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    settings = {
        "TCP_TLS_ENABLED": "true",
        "TCP_TLS_SELF_SIGNED": "false",
        "TCP_TLS_CERT_FILE": str(certificate),
        "TCP_TLS_KEY_FILE": str(key),
    }
    with running_server(settings) as server:

        def run(program: Program, scenario: str) -> None:
            run_scenario(server, program, scenario, str(certificate))

        yield run
        assert server.stop() == 0, server.output


def run_scenario(server: RunningServer, program: Program, scenario: str, *arguments: str) -> None:
    host, port = server.tcp_address
    done = subprocess.run(
        [*program, scenario, f"{host}:{port}", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SCENARIO_SECONDS_MAX,
    )
    assert done.returncode == 0, f"{done.stdout}\n-- the server:\n{server.output}"
