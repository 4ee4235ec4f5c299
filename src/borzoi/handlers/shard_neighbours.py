"""Queries the other shards over the bus; not loaded by a server with one process."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from borzoi.diagnostics.host import Host
from borzoi.handlers.neighbours import ShardUsage
from borzoi.handlers.sessions import SessionRecord, Sessions
from borzoi.model.errors import ShardUnavailable
from borzoi.shard.bus import Arrived, Bus, Letter
from borzoi.shard.envelopes import Subject
from borzoi.telemetry.exposition import Family

_ENCODER: Final = msgspec.msgpack.Encoder()
_SESSIONS: Final = msgspec.msgpack.Decoder(list[SessionRecord])
_FAMILIES: Final = msgspec.msgpack.Decoder(list[Family])
_USAGE: Final = msgspec.msgpack.Decoder(ShardUsage)


class ShardNeighbours:
    """Queries the other shards, and answers theirs. A shard that dies meanwhile has no clients."""

    def __init__(self, bus: Bus, sessions: Sessions, host: Host) -> None:
        self._bus = bus
        self._sessions = sessions
        self._host = host
        bus.answer(Subject.SESSIONS, self._own_sessions)
        bus.answer(Subject.USAGE, lambda _: Letter(_ENCODER.encode(self.own_usage())))

    async def sessions(self) -> list[SessionRecord]:
        """The clients of all other shards."""
        found = await self._ask_all(Subject.SESSIONS, _SESSIONS)
        return [record for records in found for record in records]

    async def usage(self) -> list[ShardUsage]:
        """All processes, by number, this one included."""
        found: list[ShardUsage] = [
            self.own_usage(),
            *await self._ask_all(Subject.USAGE, _USAGE),
        ]
        return sorted(found, key=lambda one: one.shard)

    def publish(self, families: Callable[[], list[Family]]) -> None:
        """Tell the others the metrics of this process when they ask."""
        self._bus.answer(Subject.METRICS, lambda _: Letter(_ENCODER.encode(families())))

    async def metrics(self) -> list[list[Family]]:
        """What each of the other processes publishes of itself."""
        return await self._ask_all(Subject.METRICS, _FAMILIES)

    def own_usage(self) -> ShardUsage:
        host = self._host
        return ShardUsage(
            self._bus.shard, host.process_id, host.started_at, len(self._sessions), host.sample()
        )

    def _own_sessions(self, _: Arrived) -> Letter:
        return Letter(_ENCODER.encode([session.record for session in self._sessions]))

    async def _ask_all(self, subject: Subject, decoder: msgspec.msgpack.Decoder[Any]) -> list[Any]:
        bus = self._bus
        asked = [bus.request(one, subject, urgent=True) for one in bus.others if bus.is_there(one)]
        found = []
        for answer in asked:
            try:
                found.append(decoder.decode((await answer).body))
            except ShardUnavailable:
                continue
        return found
