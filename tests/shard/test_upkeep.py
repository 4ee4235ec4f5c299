import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.embedded import (
    EmbeddedClient,
    EmbeddedServer,
    described,
    embedded_server,
    sent,
    sent_singly,
    totals_of,
    with_topic,
)
from tests.support.logs import payloads_in
from tests.support.sends import send_of

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning
from borzoi.model.topics import Compression
from borzoi.partitions import operations
from borzoi.partitions.futures import arrived
from borzoi.partitions.operations import Poll
from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, PurgeTopic

HOUR = 3_600_000_000
ZERO = Namespace(0, 0, 0)


async def test_the_cleaner_deletes_what_is_too_old_and_what_is_too_much(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, {"SYSTEM_SEGMENT_SIZE": "1 KiB"}) as server:
        await with_topic(server, message_expiry=HOUR)
        plane, state = server.services.partitions, server.services.metadata.state
        await sent_singly(server, 5)
        await plane.upkeep.clean(state, now=server.services.clock())
        assert totals_of(plane).segments_count == 4
        await plane.upkeep.clean(state, now=server.services.clock() + 2 * HOUR)
        assert totals_of(plane).segments_count == 2
        await server.root().call(CreateTopic("s", "bounded", 1, max_topic_size=2048))
        for _ in range(4):
            balanced = Partitioning.balanced()
            await server.root().call(send_of(b"x" * 1000, topic="bounded", partitioning=balanced))
        await plane.upkeep.clean(state, now=server.services.clock())
        assert described(plane, Namespace(0, 1, 0)).size < 2048 * 0.9


@pytest.mark.parametrize(
    ("limit", "elsewhere", "left"), [(3000, 0, 2), (3000, 1, 0), (12_000, 1, 4)]
)
async def test_a_shard_brings_its_part_of_a_topic_below_its_part_of_the_limit(
    tmp_path: Path, limit: int, elsewhere: int, left: int
) -> None:
    """Four messages of 1064 bytes are here, two in a segment, and `elsewhere` times as much on
    other shards."""
    async with embedded_server(tmp_path, {"SYSTEM_SEGMENT_SIZE": "1 KiB"}) as server:
        await with_topic(server)
        plane, state = server.services.partitions, server.services.metadata.state
        await server.root().call(CreateTopic("s", "bounded", 1, max_topic_size=limit))
        for _ in range(4):
            send = send_of(b"x" * 1000, topic="bounded", partitioning=Partitioning.balanced())
            await server.root().call(send)
        place = Namespace(0, 1, 0)

        async def everywhere(namespaces: Sequence[Namespace]) -> int:
            assert list(namespaces) == [place]
            return described(plane, place).size * (elsewhere + 1)

        plane.upkeep.topic_size = everywhere
        await plane.upkeep.clean(state, now=server.services.clock())
        assert described(plane, place).messages_count == left


async def test_others_have_their_turn_while_many_segments_are_deleted(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, {"SYSTEM_SEGMENT_SIZE": "1 KiB"}) as server:
        await with_topic(server, message_expiry=HOUR)
        plane, clock = server.services.partitions, server.services.clock

        async def counted(work: Coroutine[Any, Any, None]) -> int:
            task, others = asyncio.create_task(work), 0
            while not task.done():
                await asyncio.sleep(0)
                others += 1
            await task
            return others

        for work in (
            lambda: server.root().call(DeleteSegments("s", "t", 0, 2**32 - 1)),
            lambda: plane.upkeep.clean(server.services.metadata.state, now=clock() + 2 * HOUR),
        ):
            await sent_singly(server, 60)
            assert described(plane, ZERO).segments_count == 31
            assert await counted(work()) > 25
            assert described(plane, ZERO).segments_count == 1
            await server.root().call(PurgeTopic("s", "t"))


async def test_deleting_segments_ends_with_their_partition(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, {"SYSTEM_SEGMENT_SIZE": "1 KiB"}) as server:
        await with_topic(server)
        await sent_singly(server, 30)
        plane = server.services.partitions
        deleting = plane.run(ZERO, operations.RemoveSegments(29), now=1)
        assert isinstance(deleting, asyncio.Future)
        await asyncio.sleep(0)
        await server.root().call(PurgeTopic("s", "t"))
        await sent(server, 2)
        await deleting
        assert described(plane, ZERO).messages_count == 2


async def test_a_purged_topic_is_read_from_its_new_compressed_segments(tmp_path: Path) -> None:
    """The files of a purged partition have the names of those before it: none may stay open."""
    settings = {"SYSTEM_SEGMENT_SIZE": "1 KiB"}
    async with embedded_server(tmp_path, settings) as server:
        root = await with_compressed_topic(server)
        plane, state = server.services.partitions, server.services.metadata.state
        for letter in (b"a", b"b", b"c"):
            for _ in range(12):
                await root.call(send_of(letter * 1000))
            await plane.upkeep.compress(state, lambda topic: topic.compression)
            assert list((tmp_path / "streams/0/topics/0/partitions/0").glob("*.zst"))
            poll = Poll(PollingStrategy.first(), 100, ConsumerKind.CONSUMER, 1)
            polled = await arrived(plane.run(ZERO, poll, now=1))
            payloads = payloads_in(polled.reading.materialise())
            assert payloads == [letter * 1000] * 12
            await root.call(PurgeTopic("s", "t"))


async def with_compressed_topic(server: EmbeddedServer) -> EmbeddedClient:
    root = server.root()
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 1, compression=Compression.ZSTD))
    return root


async def test_a_consumer_that_never_returns_is_named_when_it_pins_a_topic(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with embedded_server(tmp_path, {"SYSTEM_SEGMENT_SIZE": "1 KiB"}) as server:
        await with_topic(server, message_expiry=HOUR)
        root, clock = server.root(), server.services.clock
        plane, state = server.services.partitions, server.services.metadata.state
        await sent_singly(server, 5)
        gone = Consumer(ConsumerKind.CONSUMER, 77)
        await root.call(StoreConsumerOffset(gone, "s", "t", 0, 0))
        await plane.upkeep.clean(state, now=clock())
        assert plane.upkeep.pinned == {}, "retention wants nothing yet"
        for _ in range(3):
            await plane.upkeep.clean(state, now=clock() + 2 * HOUR)
        assert plane.upkeep.pinned == {ZERO: (ConsumerKind.CONSUMER, 77, 0)}
        told = [record.message for record in caplog.records if "from retention" in record.message]
        assert len(told) == 1
        assert "consumer 77 holds back" in told[0]
        assert "partition 0/0/0" in told[0]
        assert "offset is 0" in told[0]
        await root.call(StoreConsumerOffset(gone, "s", "t", 0, 4))
        await plane.upkeep.clean(state, now=clock() + 2 * HOUR)
        assert plane.upkeep.pinned == {}


async def test_a_consumer_that_pins_a_topic_of_a_bounded_size_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with embedded_server(tmp_path, {"SYSTEM_SEGMENT_SIZE": "1 KiB"}) as server:
        await server.root().call(CreateStream("s"))
        await server.root().call(CreateTopic("s", "t", 1, max_topic_size=3072))
        plane, state = server.services.partitions, server.services.metadata.state
        gone = Consumer(ConsumerKind.CONSUMER, 77)
        await sent(server, size=1000)
        await server.root().call(StoreConsumerOffset(gone, "s", "t", 0, 0))
        await sent_singly(server, 5)
        await plane.upkeep.clean(state, now=server.services.clock())
        assert plane.upkeep.pinned == {ZERO: (ConsumerKind.CONSUMER, 77, 0)}
        assert "consumer 77 holds back" in caplog.text
