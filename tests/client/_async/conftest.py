"""A client, and a stream that is there for one test only."""

from collections.abc import AsyncIterator
from itertools import count

import pytest

from borzoi.client import AsyncClient

NUMBERS = count()


@pytest.fixture
async def client(url: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(url) as connected:
        yield connected


@pytest.fixture
async def stream(client: AsyncClient) -> AsyncIterator[str]:
    name = f"{type(client).__name__}-{next(NUMBERS)}"
    await client.create_stream(name)
    yield name
    if await client.get_stream(name) is not None:
        await client.delete_stream(name)


@pytest.fixture
async def topic(client: AsyncClient, stream: str) -> str:
    """A topic with two partitions."""
    await client.create_topic(f"{stream}/events", partitions=2)
    return f"{stream}/events"
