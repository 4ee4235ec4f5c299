"""A whole server without a socket, and root's session on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer, embedded_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    async with embedded_server(tmp_path) as running:
        yield running


@pytest.fixture
def root(server: EmbeddedServer) -> EmbeddedClient:
    return server.root()
