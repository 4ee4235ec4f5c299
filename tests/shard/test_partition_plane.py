import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from borzoi.metadata.effects import (
    CheckRevocations,
    DeletedGroup,
    DeletedPartitions,
    DroppedUser,
    ForgetPolled,
    PurgedTopic,
)
from borzoi.metadata.groups import CompleteRevocation
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import BorzoiError, PartitionNotFound, StorageFailure
from borzoi.model.limits import NEVER
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning
from borzoi.partitions.partition import Partition
from borzoi.protocol.commands.messages import SendMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, GetTopic
from borzoi.records.message import Message, encode_messages
from borzoi.testing.embedded import EmbeddedServer, embedded_server

ZERO = Namespace(0, 0, 0)
GROUP = ConsumerKind.GROUP


async def sent(server: EmbeddedServer, count: int = 1, *, size: int = 1) -> None:
    indexes, body = encode_messages([Message(b"x" * size)] * count)
    await server.root().call(
        SendMessages(
            "s", "t", Partitioning.partition(0), count, memoryview(indexes), memoryview(body)
        )
    )


async def with_topic(server: EmbeddedServer, *, message_expiry: int = NEVER) -> EmbeddedServer:
    await server.root().call(CreateStream("s"))
    await server.root().call(CreateTopic("s", "t", 2, message_expiry=message_expiry))
    return server


async def test_a_partition_is_settled_when_all_that_was_polled_is_committed(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        plane = (await with_topic(server)).services.partitions
        await sent(server, 3)
        assert plane.is_settled(ZERO, 0)
        plane.mark_polled(ZERO, 0, 2)
        plane.mark_polled(ZERO, 0, 1)
        assert not plane.is_settled(ZERO, 0)
        check = CheckRevocations(0, 0, 0, (0, 1))
        assert await plane.carry_out(check) == [CompleteRevocation(0, 0, 0, 1)]
        plane.store_offset(ZERO, GROUP, 0, 2)
        assert plane.is_settled(ZERO, 0)
        plane.mark_polled(ZERO, 1, 2)
        await plane.carry_out(ForgetPolled(0, 0, 1, (0,)))
        assert plane.is_settled(ZERO, 1)


async def test_a_deleted_group_leaves_no_offset(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        plane = (await with_topic(server)).services.partitions
        await sent(server)
        plane.store_offset(ZERO, GROUP, 7, 0)
        await plane.carry_out(DeletedGroup(0, 0, 7, (0, 1)))
        assert plane.stored_offset(ZERO, GROUP, 7) is None


async def test_purging_forgets_messages_offsets_and_marks(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        plane = (await with_topic(server)).services.partitions
        await sent(server, 2)
        plane.mark_polled(ZERO, 0, 1)
        plane.store_offset(ZERO, GROUP, 0, 0)
        await plane.carry_out(PurgedTopic(0, 0, (0, 1)))
        assert plane.is_settled(ZERO, 0)
        assert plane.totals().messages_count == 0
        assert plane.stored_offset(ZERO, GROUP, 0) is None


async def test_a_deleted_partition_is_not_found(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        plane = (await with_topic(server)).services.partitions
        await plane.carry_out(DeletedPartitions(0, 0, (1,)))
        with pytest.raises(PartitionNotFound):
            plane.statistics(Namespace(0, 0, 1))
        assert await plane.carry_out(DroppedUser(3)) == ()


async def test_the_cleaner_deletes_what_is_too_old_and_what_is_too_much(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, {"SYSTEM_SEGMENT_SIZE": "1 KiB"}) as server:
        await with_topic(server, message_expiry=1_000_000)
        plane, state = server.services.partitions, server.services.metadata.state
        for _ in range(5):
            await sent(server, size=1000)
        await plane.clean(state, now=server.services.clock())
        assert plane.totals().segments_count == 6
        await plane.clean(state, now=server.services.clock() + 2_000_000)
        assert plane.totals().segments_count == 2
        await server.root().call(CreateTopic("s", "bounded", 1, max_topic_size=2048))
        indexes, body = encode_messages([Message(b"x" * 1000)])
        for _ in range(4):
            await server.root().call(
                SendMessages(
                    "s",
                    "bounded",
                    Partitioning.balanced(),
                    1,
                    memoryview(indexes),
                    memoryview(body),
                )
            )
        await plane.clean(state, now=server.services.clock())
        bounded = plane.topic_totals(0, state.streams[0].topics[1])
        assert bounded.size_bytes < 2048 * 0.9


async def test_everything_is_saved_and_found_again(tmp_path: Path) -> None:
    settings = {"SYSTEM_PARTITION_ACKNOWLEDGE": "buffered"}
    async with embedded_server(tmp_path, settings) as server:
        await with_topic(server)
        await sent(server, 3)
        await server.services.partitions.flush_all(sync=True)
        await sent(server, 2)
    async with embedded_server(tmp_path, settings) as server:
        plane = server.services.partitions
        assert plane.statistics(ZERO).messages_count == 5
        polled = plane.poll(
            ZERO,
            PollingStrategy.first(),
            10,
            kind=ConsumerKind.CONSUMER,
            consumer_id=1,
            auto_commit=False,
        )
        assert polled.reading.count == 5


async def test_a_partition_without_room_is_opened_when_there_is_some(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        await server.root().call(CreateStream("s"))
        # A file where the topic's folder belongs: nothing can be made below it.
        in_the_way = tmp_path / "streams" / "0" / "topics"
        in_the_way.parent.mkdir(parents=True, exist_ok=True)
        in_the_way.write_bytes(b"")
        created = await server.root().call(CreateTopic("s", "t", 2))
        assert len(created.partitions) == 2
        with pytest.raises(StorageFailure):
            await sent(server)
        described = await server.root().call(GetTopic("s", "t"))
        assert [one.messages_count for one in described.partitions] == [0, 0]
        plane = server.services.partitions
        assert plane.is_settled(ZERO, 0)
        plane.mark_polled(ZERO, 0, 1)
        assert not plane.is_settled(ZERO, 0)
        in_the_way.unlink()
        await sent(server)
        assert plane.statistics(ZERO).messages_count == 1


async def test_a_new_topic_does_not_inherit_what_a_deletion_left_behind(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        await with_topic(server)
        await sent(server, 3)
        folder = tmp_path / "streams" / "0" / "topics" / "0"
        shutil.copytree(folder, tmp_path / "copy")
        await server.root().call(DeleteTopic("s", "t"))
        shutil.move(tmp_path / "copy", folder)
        await server.root().call(CreateTopic("s", "other", 1))
        assert server.services.partitions.statistics(ZERO).messages_count == 0


async def test_one_partition_that_fails_does_not_protect_or_starve_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded_server(tmp_path, {"SYSTEM_SEGMENT_SIZE": "1 KiB"}) as server:
        await with_topic(server, message_expiry=1_000_000)
        await server.root().call(
            CreateTopic("s", "u", 1, message_expiry=1_000_000, max_topic_size=2048)
        )
        plane, state = server.services.partitions, server.services.metadata.state
        indexes, body = encode_messages([Message(b"x" * 1000)])
        for topic, partition_id in [("t", 0), ("t", 1), ("u", 0)] * 3:
            partitioning = Partitioning.partition(partition_id)
            views = memoryview(indexes), memoryview(body)
            await server.root().call(SendMessages("s", topic, partitioning, 1, *views))
        sick = Namespace(0, 0, 0)

        def failing(method: Callable[..., Any]) -> Callable[..., Any]:
            def act(self: Partition, *given: Any, **named: Any) -> Any:
                if self.namespace == sick:
                    raise StorageFailure("the disk is tired")
                return method(self, *given, **named)

            return act

        for name in ("expire", "delete_segments", "purge", "abandon"):
            monkeypatch.setattr(Partition, name, failing(getattr(Partition, name)))
        later = server.services.clock() + 2_000_000
        await plane.clean(state, now=later)
        counts = {sick: 3, Namespace(0, 0, 1): 1, Namespace(0, 1, 0): 1}
        assert {one: plane.statistics(one).segments_count for one in counts} == counts
        with pytest.raises(StorageFailure):
            await plane.carry_out(PurgedTopic(0, 0, (0, 1)))
        assert plane.statistics(Namespace(0, 0, 1)).messages_count == 0
        await server.root().call(DeleteTopic("s", "t"))
        assert not (tmp_path / "streams" / "0" / "topics" / "0").exists()


async def test_a_poll_gives_no_more_than_its_bound_and_at_least_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("borzoi.shard.partition_plane.POLLED_BYTES_MAX", 2500)
    async with embedded_server(tmp_path) as server:
        plane = (await with_topic(server)).services.partitions
        await sent(server, 5, size=1000)
        await sent(server, 1, size=5000)
        found = [
            plane.poll(
                ZERO,
                PollingStrategy.offset(offset),
                1_000_000,
                kind=ConsumerKind.CONSUMER,
                consumer_id=1,
                auto_commit=False,
            ).reading
            for offset in (0, 2, 4, 5)
        ]
        assert [reading.count for reading in found] == [2, 2, 1, 1]


async def test_sends_that_wait_for_the_disk_end_with_their_partition(tmp_path: Path) -> None:
    settings = {"SYSTEM_PARTITION_ACKNOWLEDGE": "synced"}
    async with embedded_server(tmp_path, settings) as server:
        await with_topic(server)
        await sent(server)
        waiting = [asyncio.create_task(sent(server)) for _ in range(3)]
        await asyncio.sleep(0)
        await server.root().call(DeleteTopic("s", "t"))
        done, _ = await asyncio.wait(waiting, timeout=30)
        assert len(done) == 3
        for one in done:
            assert one.exception() is None or isinstance(one.exception(), BorzoiError)
        assert server.dispatcher.waiting == 0
        assert not (tmp_path / "streams" / "0" / "topics" / "0").exists()
