import asyncio
from asyncio import Future
from collections.abc import Iterable

import pytest
from tests.support.embedded import EmbeddedServer, sent, with_topic

from borzoi.handlers.call import Call
from borzoi.handlers.totals import partitions_of_stream, partitions_of_topic, with_totals
from borzoi.model.namespace import Namespace
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.protocol.commands.streams import GetStream, GetStreams
from borzoi.protocol.commands.system import GetStats
from borzoi.protocol.commands.topics import CreateTopic, GetTopic, GetTopics
from borzoi.protocol.contract import Request
from borzoi.shard.partition_plane import PartitionPlane
from borzoi.shard.partition_table import Totals


async def test_each_group_of_partitions_is_summed(server: EmbeddedServer) -> None:
    await with_topic(server)
    await server.root().call(CreateTopic("s", "u", 1))
    await sent(server, 3, size=36)
    call = Call(server.root().session, server.services)
    stream = server.services.metadata.state.streams[0]
    first = partitions_of_topic(0, stream.topics[0])
    assert first == [Namespace(0, 0, 0), Namespace(0, 0, 1)]
    groups = [first, partitions_of_stream(stream), []]
    assert with_totals(groups, list, call) == [
        Totals(300, 3, 2),
        Totals(300, 3, 3),
        Totals(),
    ]


async def test_listings_wait_for_partitions_of_other_owners(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers are the same when the owner is somewhere else and answers later."""
    await with_topic(server, messages=3)
    root = server.root()
    requests: list[Request] = [GetStreams(), GetStream("s"), GetTopics("s"), GetTopic("s", "t")]
    here = [await root.call(request) for request in requests]
    stats = await root.call(GetStats())
    describe, totals = PartitionPlane.describe, PartitionPlane.totals

    def later(value: object) -> "Future[object]":
        promised: Future[object] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(promised.set_result, value)
        return promised

    def describe_later(
        self: PartitionPlane, namespaces: Iterable[Namespace]
    ) -> "Future[list[PartitionStatistics]]":
        return later(describe(self, namespaces))  # type: ignore[return-value]

    monkeypatch.setattr(PartitionPlane, "describe", describe_later)
    monkeypatch.setattr(PartitionPlane, "totals", lambda self: later(totals(self)))
    assert [await root.call(request) for request in requests] == here
    assert (await root.call(GetStats())).messages_count == stats.messages_count == 3
