"""Clients and processes of the other shards."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from borzoi.diagnostics.host import Usage
from borzoi.handlers.sessions import SessionRecord
from borzoi.model.value import Value


class ShardUsage(Value):
    """One process of the server."""

    shard: int
    process_id: int
    started_at: float
    clients_count: int
    usage: Usage


class Neighbours(Protocol):
    """The other shards of a server that has several; see `shard_neighbours.py`."""

    async def sessions(self) -> list[SessionRecord]:
        """The clients of all other shards."""

    async def usage(self) -> list[ShardUsage]:
        """All processes, by number, this one included."""


def summed(shards: Sequence[ShardUsage]) -> Usage:
    """Add up the usage of all processes; machine-wide figures are taken from the first."""
    first = shards[0].usage
    return msgspec.structs.replace(
        first,
        cpu_percent=sum(one.usage.cpu_percent for one in shards),
        memory_bytes=sum(one.usage.memory_bytes for one in shards),
        read_bytes=sum(one.usage.read_bytes for one in shards),
        written_bytes=sum(one.usage.written_bytes for one in shards),
        threads=sum(one.usage.threads for one in shards),
    )
