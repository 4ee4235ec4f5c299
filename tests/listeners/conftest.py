"""A whole server without a socket; the tests put their listeners in front of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.conversations import Sink, root_talk
from tests.support.embedded import EmbeddedServer, embedded_server

from borzoi.listeners.connection import Conversation
from borzoi.memory.pool import MemoryPool
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


@pytest.fixture
def pool() -> MemoryPool:
    return MemoryPool.disabled()


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def talk(server: EmbeddedServer, sink: Sink, pool: MemoryPool) -> Conversation:
    """A conversation that root is logged in on."""
    conversation = root_talk(server, sink, pool)
    server.services.sessions.add(conversation.session)
    return conversation
