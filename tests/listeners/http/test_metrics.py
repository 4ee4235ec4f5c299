"""The metrics, read with the parser of Prometheus' own client."""

import asyncio
from pathlib import Path
from typing import Any

from tests.support.embedded import EmbeddedServer, embedded_server, sent, with_topic
from tests.support.http_calls import Caller, app_of, metrics_of
from tests.support.listening import turns
from tests.support.metrics import Series, samples_in, series

from borzoi.listeners.http.metrics import Metrics, lag_of
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.protocol.commands.groups import CreateConsumerGroup, JoinConsumerGroup
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.users import LoginUser


async def scraped(metrics: Metrics) -> dict[Series, float]:
    return samples_in(await metrics.text())


async def test_the_names_people_know_count_what_there_is(server: EmbeddedServer) -> None:
    metrics = metrics_of(server)
    empty = await scraped(metrics)
    assert [empty[series(name)] for name in ("streams", "messages", "users")] == [0, 0, 1]
    await with_topic(server, messages=7)
    metrics.sources.calls = lambda: 5
    found = await scraped(metrics)
    expected = {
        "http_requests_total": 5,
        "streams": 1,
        "topics": 1,
        "partitions": 2,
        "segments": 2,
        "messages": 7,
        "users": 1,
        "clients": len(server.services.sessions),
    }
    assert {name: found[series(name)] for name in expected} == expected


async def test_they_are_right_after_a_restart(tmp_path: Path) -> None:
    async with embedded_server(tmp_path / "data") as server:
        await with_topic(server, messages=7)
        before = await scraped(metrics_of(server))
    async with embedded_server(tmp_path / "data") as server:
        after = await scraped(metrics_of(server))
    for name in ("streams", "topics", "partitions", "segments", "messages", "users"):
        assert after[series(name)] == before[series(name)]


async def test_partitions_have_series_of_their_own(server: EmbeddedServer) -> None:
    await with_topic(server)
    await sent(server, 7, size=10)
    found = await scraped(metrics_of(server))
    place = {"stream": "s", "topic": "t", "partition": "0"}
    assert found[series("borzoi_partition_messages", **place)] == 7
    assert found[series("borzoi_partition_size_bytes", **place)] == 7 * (64 + 10)
    assert found[series("borzoi_partition_segments", **place)] == 1
    assert found[series("borzoi_partition_current_offset", **place)] == 6
    place["partition"] = "1"
    assert found[series("borzoi_partition_messages", **place)] == 0


async def test_series_of_partitions_are_bounded(server: EmbeddedServer) -> None:
    await with_topic(server)
    found = await scraped(metrics_of(server, partitions_max=1))
    assert found[series("borzoi_partitions_left_out")] == 1
    assert sum(name == "borzoi_partition_messages" for name, _ in found) == 1
    assert found[series("partitions")] == 2


async def test_lag_is_what_the_offsets_say_for_three_groups(server: EmbeddedServer) -> None:
    await with_topic(server, messages=10)
    root = server.root()
    for name, offset in (("ahead", 9), ("behind", 3), ("new", None)):
        await root.call(CreateConsumerGroup("s", "t", name))
        if offset is not None:
            await root.call(JoinConsumerGroup("s", "t", name))
            consumer = Consumer(ConsumerKind.GROUP, name)
            await root.call(StoreConsumerOffset(consumer, "s", "t", 0, offset))
            stored: Any = await root.call(GetConsumerOffset(consumer, "s", "t", 0))
            assert (stored.stored_offset, stored.current_offset) == (offset, 9)
    found = await scraped(metrics_of(server))
    place = {"stream": "s", "topic": "t", "partition": "0"}
    lags = {
        group: found[series("borzoi_group_lag", **place, group=group)]
        for group in ("ahead", "behind", "new")
    }
    assert lags == {"ahead": 0, "behind": 6, "new": 10}
    place["partition"] = "1"
    assert found[series("borzoi_group_lag", **place, group="new")] == 0


async def test_lags_are_bounded_too(server: EmbeddedServer) -> None:
    await with_topic(server)
    for name in ("a", "b", "c"):
        await server.root().call(CreateConsumerGroup("s", "t", name))
    found = await scraped(metrics_of(server, lags_max=4))
    assert sum(name == "borzoi_group_lag" for name, _ in found) == 4
    assert found[series("borzoi_group_lags_left_out")] == 2
    # A partition without series has no lag either.
    found = await scraped(metrics_of(server, partitions_max=1))
    assert sum(name == "borzoi_group_lag" for name, _ in found) == 3
    assert found[series("borzoi_group_lags_left_out")] == 3


def test_lag_never_counts_what_is_not_there() -> None:
    assert lag_of(PartitionStatistics(1, 0, 0, 0), None) == 0
    assert lag_of(PartitionStatistics(1, 99, 0, 10), 5) == 10  # the others were deleted
    assert lag_of(PartitionStatistics(1, 5, 0, 6), 7) == 0


async def test_requests_are_timed_by_command_and_transport(server: EmbeddedServer) -> None:
    await with_topic(server)
    for _ in range(64):
        await sent(server, 1)
    async with Caller(app_of(server)) as caller:
        await caller.get("/ping")
    found = await scraped(metrics_of(server))
    name = "borzoi_request_seconds_count"
    assert found[series(name, command="ping", transport="http")] == 1
    assert found[series(name, command="create_stream", transport="tcp")] == 1
    # One in sixteen is measured and counts for all.
    assert 32 <= found[series(name, command="send_messages", transport="tcp")] <= 96
    assert found[series("borzoi_pool_limit_bytes")] > 0
    for queue in ("passwords", "polls", "others", "syncs"):
        assert found[series("borzoi_queue_depth", queue=queue)] == 0


async def test_who_waits_is_counted_by_what_it_waits_for(tmp_path: Path) -> None:
    settings = {"SYSTEM_PARTITION_ACKNOWLEDGE": "synced"}
    async with embedded_server(tmp_path / "data", settings) as server:
        await with_topic(server)
        root = server.root()
        consumer = Consumer(ConsumerKind.CONSUMER, 1)
        poll = PollMessages(consumer, "s", "t", 1, PollingStrategy.next(), 1, wait_ms=60_000)
        waiting = [
            server.dispatcher.perform(root.session, request)
            for request in (poll, LoginUser("iggy", "iggy"), LoginUser("iggy", "iggy"))
        ]
        sending = asyncio.ensure_future(sent(server, 1))
        await turns(1)  # it is handed over, and its sync has not begun
        found = await scraped(metrics_of(server))
        depths = [
            found[series("borzoi_queue_depth", queue=queue)]
            for queue in ("polls", "passwords", "others", "syncs")
        ]
        assert depths == [1, 2, 1, server.services.syncs.pending]
        await sending
        for answer in waiting:
            assert isinstance(answer, asyncio.Future)
            server.dispatcher.abandon(answer)
        await server.dispatcher.drain()
        found = await scraped(metrics_of(server))
        assert sum(value for (name, _), value in found.items() if name == "borzoi_queue_depth") == 0
