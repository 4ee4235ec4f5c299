"""One server for all tests of the client; each test has a stream of its own in it."""

from collections.abc import Iterator

import pytest
from tests.support.server import RunningServer, running_server


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running


@pytest.fixture(scope="session")
def url(server: RunningServer) -> str:
    """A connection string for root."""
    host, port = server.tcp_address
    return f"borzoi://iggy:iggy@{host}:{port}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need the server belong to the tier of those that start one."""
    for item in items:
        if "server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.system)
