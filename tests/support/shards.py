"""A server of several shards on one event loop: real sockets between them, one port for each.

A test picks the shard that serves it by its port, so every way to the wrong shard can be taken. The
supervisor is played by `LocalControl`. For processes that can be killed see `tests/crash/`.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from tests.support.starts import start_with

from borzoi.client import AsyncClient
from borzoi.model.namespace import Namespace, shard_of
from borzoi.server.data_directory import DataDirectory
from borzoi.server.shard_serving import ShardServer, serve_shard
from borzoi.shard.links import Links, Peer


@dataclass
class Supervision:
    """What the controls of all shards share."""

    count: int
    ready: set[int] = field(default_factory=set)
    drained: set[int] = field(default_factory=set)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def note(self, group: set[int], shard: int) -> None:
        async with self.changed:
            group.add(shard)
            self.changed.notify_all()

    async def all_in(self, group: set[int]) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: len(group) == self.count)


class LocalControl:
    """The supervisor, as one shard sees it."""

    def __init__(self, shard: int, supervision: Supervision, *, first_start: bool = True) -> None:
        self.first_start = first_start
        self.shard = shard
        self.addresses: Mapping[str, tuple[str, int]] = {}
        self.stop = asyncio.Event()
        self._supervision = supervision
        self._tasks: set[asyncio.Task[None]] = set()

    def ready(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        self.addresses = addresses
        task = asyncio.create_task(self._supervision.note(self._supervision.ready, self.shard))
        self._tasks.add(task)

    async def bound(self) -> Mapping[str, tuple[str, int]]:
        return {}

    async def all_ready(self) -> bool:
        await self._supervision.all_in(self._supervision.ready)
        return True

    async def stopped(self) -> None:
        await self.stop.wait()

    async def drained(self) -> None:
        await self._supervision.note(self._supervision.drained, self.shard)
        await self._supervision.all_in(self._supervision.drained)

    def attach(self, links: Links) -> None:
        self.links = links


@dataclass
class Shards:
    """The running shards."""

    directory: Path
    count: int
    supervision: Supervision
    controls: dict[int, LocalControl] = field(default_factory=dict)
    servers: dict[int, ShardServer] = field(default_factory=dict)
    tasks: dict[int, asyncio.Task[int]] = field(default_factory=dict)

    def url(self, shard: int) -> str:
        host, port = self.controls[shard].addresses["tcp"]
        return f"borzoi://iggy:iggy@{host}:{port}"

    def owner(self, stream_id: int, topic_id: int, partition_id: int) -> int:
        return shard_of(Namespace(stream_id, topic_id, partition_id), self.count)

    def join(self, first: int, second: int) -> None:
        """Connect two shards anew, as a supervisor does after one of them was replaced."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        links, others = self.controls[first].links, self.controls[second].links
        links.on_peer_lost(second)
        others.on_peer_lost(first)
        links.on_peer(Peer(second, one, os.dup(others.arena)))
        others.on_peer(Peer(first, other, os.dup(links.arena)))

    def others(self, shard: int) -> list[int]:
        return [one for one in range(self.count) if one != shard]


@asynccontextmanager
async def running_shards(directory: Path, count: int = 3, **settings: str) -> AsyncIterator[Shards]:
    """A server of `count` shards, all of which accept; stopped gracefully at the end."""
    environment = {
        "BORZOI_SYSTEM_PATH": str(directory),
        "BORZOI_TCP_ADDRESS": "127.0.0.1:0",
        "BORZOI_HTTP_ADDRESS": "127.0.0.1:0",
        "BORZOI_QUIC_ENABLED": "false",
        "BORZOI_WEBSOCKET_ENABLED": "false",
        **{f"BORZOI_{name}": value for name, value in settings.items()},
    }
    directory.mkdir(parents=True, exist_ok=True)
    start = start_with(environment, directory)
    shards = Shards(directory, count, Supervision(count))
    links = linked(count)
    made = ShardServer.__init__

    def noted(self, start, directory, opened, bus, copy=None):
        made(self, start, directory, opened, bus, copy)
        shards.servers[bus.shard] = self

    with DataDirectory(directory), mock.patch.object(ShardServer, "__init__", noted):
        for shard, own in enumerate(links):
            control = shards.controls[shard] = LocalControl(shard, shards.supervision)
            shards.tasks[shard] = asyncio.create_task(serve_shard(start, directory, own, control))
        try:
            waiting = asyncio.create_task(shards.supervision.all_in(shards.supervision.ready))
            await asyncio.wait(
                {waiting, *shards.tasks.values()}, return_when=asyncio.FIRST_COMPLETED, timeout=30
            )
            assert waiting.done(), [task for task in shards.tasks.values() if task.done()]
            yield shards
        finally:
            for control in shards.controls.values():
                control.stop.set()
            async with asyncio.timeout(30):
                statuses = await asyncio.gather(*shards.tasks.values())
            assert statuses == [0] * count


def linked(count: int) -> list[Links]:
    """The links of all shards of a server."""
    arenas = [os.memfd_create(f"arena-{shard}", os.MFD_CLOEXEC) for shard in range(count)]
    peers: list[list[Peer]] = [[] for _ in range(count)]
    for first in range(count):
        for second in range(first + 1, count):
            one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            peers[first].append(Peer(second, one, os.dup(arenas[second])))
            peers[second].append(Peer(first, other, os.dup(arenas[first])))
    return [Links(shard, count, arenas[shard], peers[shard]) for shard in range(count)]


@asynccontextmanager
async def clients_of(shards: Shards) -> AsyncIterator[list[AsyncClient]]:
    """A client of each shard."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(AsyncClient(shards.url(shard)))
            for shard in range(shards.count)
        ]
