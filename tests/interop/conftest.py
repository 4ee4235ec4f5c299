"""A server for a module of scenarios, and how a program is let loose on it."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from borzoi.testing.server import RunningServer, running_server

SCENARIO_SECONDS_MAX = 60.0

Play = Callable[..., None]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running
        assert running.stop() == 0, running.output


@pytest.fixture
def play(server: RunningServer) -> Play:
    """Run a program with the name of a scenario and the server's address; it must succeed."""

    def run(program: Sequence[str | Path], scenario: str, *arguments: str) -> None:
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

    return run
