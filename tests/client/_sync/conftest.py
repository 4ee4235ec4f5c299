# Made by tools/unasync.py from tests/client/_async/conftest.py: edit that one.
"""A client, and a stream that is there for one test only."""

from collections.abc import Iterator
from itertools import count

import pytest

from borzoi.client import Client

NUMBERS = count()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as connected:
        yield connected


@pytest.fixture
def stream(client: Client) -> Iterator[str]:
    name = f"{type(client).__name__}-{next(NUMBERS)}"
    client.create_stream(name)
    yield name
    if client.get_stream(name) is not None:
        client.delete_stream(name)


@pytest.fixture
def topic(client: Client, stream: str) -> str:
    """A topic with two partitions."""
    client.create_topic(f"{stream}/events", partitions=2)
    return f"{stream}/events"
