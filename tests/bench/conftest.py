"""One server for all runs of a worker."""

import pytest
from tests.support.command_line import CommandLine
from tests.support.server import running_server


@pytest.fixture(scope="session")
def server():
    with running_server() as running:
        yield running


@pytest.fixture
def borzoi(server, tmp_path):
    return CommandLine(server.tcp_address, tmp_path / "home")


@pytest.fixture
def borzoi_offline(tmp_path):
    """For what needs no server."""
    return CommandLine(("127.0.0.1", 1), tmp_path / "home")
