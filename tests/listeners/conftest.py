"""A whole server without a socket; the tests put their listeners in front of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.embedded import EmbeddedServer, embedded_server

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    async with embedded_server(tmp_path / "data", {"SYSTEM_SEGMENT_SIZE": "1 MiB"}) as running:
        yield running


@pytest.fixture
async def topic(server: EmbeddedServer) -> None:
    """The topic s/t with one partition."""
    root = server.root()
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 1))
