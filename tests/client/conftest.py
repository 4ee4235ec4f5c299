"""One server for all tests of the client; each test has a stream of its own in it.

The tests of the blocking client are written here, before pytest looks for them.
"""

from collections.abc import Iterator

import pytest
from tests.support.accelerators import both_ways
from tests.support.server import RunningServer, running_server
from tests.support.transports import EVERY_TRANSPORT, SECTIONS
from tools.unasync import write_tests

__all__ = ["both_ways"]

write_tests()


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    with running_server(EVERY_TRANSPORT) as running:
        yield running


@pytest.fixture
def transport() -> str:
    """What clients connect by; modules that try all of them override it."""
    return "tcp"


@pytest.fixture
def url(server: RunningServer, transport: str) -> str:
    """A connection string for root, with patience: tests share their machine."""
    host, port = server.addresses[SECTIONS[transport]]
    return f"borzoi+{transport}://iggy:iggy@{host}:{port}?connect_timeout=60s"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need the server belong to the tier of those that start one."""
    for item in items:
        if "server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.system)
