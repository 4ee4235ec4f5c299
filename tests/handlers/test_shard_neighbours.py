"""What shards tell each other of their clients and themselves."""

import asyncio
from pathlib import Path

from tests.support.shards import linked

from borzoi.diagnostics.host import Host
from borzoi.handlers.sessions import Session, Sessions
from borzoi.handlers.shard_neighbours import ShardNeighbours
from borzoi.model.system import TransportKind
from borzoi.shard.bus import Bus


def session(client_id: int) -> Session:
    return Session(client_id, f"127.0.0.1:{client_id}", TransportKind.TCP, lambda: None, 0.0)


async def test_clients_and_usage_of_all_shards_are_found(tmp_path: Path) -> None:
    buses = [Bus(links) for links in linked(3)]
    registries = [Sessions() for _ in buses]
    found = [
        ShardNeighbours(bus, registry, Host(tmp_path))
        for bus, registry in zip(buses, registries, strict=True)
    ]
    for number in (1, 2, 3, 4):
        registries[number % 3].add(session(number))
    assert sorted(one.client_id for one in await found[0].sessions()) == [1, 2, 4]
    usage = await found[1].usage()
    assert [one.shard for one in usage] == [0, 1, 2]
    assert [one.clients_count for one in usage] == [1, 2, 1]

    # A shard that is gone has no clients, and no request waits for it.
    buses[0].links.on_peer_lost(2)
    async with asyncio.timeout(5):
        assert sorted(one.client_id for one in await found[0].sessions()) == [1, 4]
    for bus in buses:
        bus.close()
        bus.links.close()
