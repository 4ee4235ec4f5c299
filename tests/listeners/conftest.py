"""A whole server without a socket; the tests put their listeners in front of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.embedded import EmbeddedServer, embedded_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    async with embedded_server(tmp_path / "data", {"SYSTEM_SEGMENT_SIZE": "1 MiB"}) as running:
        yield running
