"""Fixtures for pytest, available as soon as borzoi is installed.

==================  ===============================================================================
``borzoi_server``   a `borzoi.testing.Server`, started once; empty at the beginning of each test
``borzoi``          a `borzoi.client.Client` that is connected to it
==================  ===============================================================================

An asynchronous test connects by itself: ``async with AsyncClient(borzoi_server.url)``. A test may
kill, pause or restart the server; the next one finds it running. Nothing is started, and no
part of borzoi imported, before a test uses one of the two.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest


class SessionServer:
    """The server of a test session, and the connection that cleans it."""

    def __init__(self) -> None:
        # Every pytest session loads this file; only those that use it should pay for it.
        self._cleaning = import_module("borzoi.testing.cleaning")
        self._client_class = import_module("borzoi.client").Client
        self.server = import_module("borzoi.testing.server").Server()
        self.server.start()
        self.url = self._cleaning.make_token(self.server.url)
        self._client = self._client_class(self.url)

    def connected(self) -> Any:
        return self._client_class(self.url)

    def recover(self) -> None:
        """Restore the server to its state before the test."""
        self.server.resume()
        if not self.server.is_running:
            self.server.start()
        self._cleaning.clean(self._client)

    def close(self) -> None:
        self._client.close()
        self.server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def _borzoi_broker() -> Iterator[SessionServer]:
    broker = SessionServer()
    try:
        yield broker
    finally:
        broker.close()


@pytest.fixture
def borzoi_server(_borzoi_broker: SessionServer) -> Iterator[Any]:
    """A real server, empty and running; `url` is its connection string."""
    yield _borzoi_broker.server
    _borzoi_broker.recover()


@pytest.fixture
def borzoi(_borzoi_broker: SessionServer, borzoi_server: Any) -> Iterator[Any]:
    """A client that is connected to a real, empty server."""
    with _borzoi_broker.connected() as client:
        yield client
