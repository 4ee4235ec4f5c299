"""Running shards with a client of each, and a topic with partitions on all of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.shards import Shards, clients_of, running_shards

from borzoi.client import AsyncClient
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.protocol.commands.messages import PolledMessages, PollMessages

PARTITIONS = 6


class Stage:
    """Running shards, a client of each, and a topic with partitions on all of them."""

    def __init__(self, shards: Shards, clients: list[AsyncClient]) -> None:
        self.shards = shards
        self.clients = clients

    def owner(self, partition: int) -> int:
        return self.shards.owner(0, 0, partition)

    def everywhere(self) -> list[tuple[AsyncClient, int]]:
        """Every client with every partition."""
        return [(client, number) for client in self.clients for number in range(PARTITIONS)]

    def apart(self, partition: int) -> tuple[int, int]:
        """The owner of the partition, and a shard that does not own it."""
        owner = self.owner(partition)
        return owner, self.shards.others(owner)[0]

    def wrong(self, partition: int) -> AsyncClient:
        """A client whose shard does not own the partition."""
        return self.clients[self.apart(partition)[1]]


@asynccontextmanager
async def running_stage(directory: Path, **settings: str) -> AsyncIterator[Stage]:
    """Connections stay on their shards."""
    async with (
        running_shards(directory, 3, TCP_SOCKET_MIGRATION="false", **settings) as shards,
        clients_of(shards) as clients,
    ):
        await clients[1].create_stream("s")
        await clients[2].create_topic("s/t", partitions=PARTITIONS)
        assert {shards.owner(0, 0, number) for number in range(PARTITIONS)} == {0, 1, 2}
        yield Stage(shards, clients)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with running_stage(tmp_path / "data") as running:
        yield running


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def payloads(client: AsyncClient, partition: int, **options: object) -> list[bytes]:
    polled = await client.poll_messages("s/t", partition=partition, start="first", **options)  # type: ignore[arg-type]
    return [bytes(one.payload) for one in polled.messages]


async def wait_for_messages(client: AsyncClient, partition: int, wait_ms: int) -> PolledMessages:
    request = PollMessages(
        Consumer(ConsumerKind.CONSUMER, 1),
        "s",
        "t",
        partition,
        PollingStrategy.offset(0),
        10,
        False,
        wait_ms,
    )
    return await client._ask(request, PolledMessages, None)
