from pathlib import Path

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
from borzoi.model.errors import PartitionNotFound
from borzoi.model.limits import NEVER
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.messages import SendMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
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
