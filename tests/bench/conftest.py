"""One server for all runs of a worker."""

import pytest
from tests.support.command_line import CommandLine, borzoi, server

__all__ = ["borzoi", "server"]


@pytest.fixture
def borzoi_offline(tmp_path):
    """For what needs no server."""
    return CommandLine(("127.0.0.1", 1), tmp_path / "home")
