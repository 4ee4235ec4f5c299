import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from tests.support.embedded import described, embedded_server, sent, totals_of, with_topic

from borzoi.model.consuming import ConsumerKind
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning
from borzoi.partitions import operations
from borzoi.protocol.commands.messages import SendMessages
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.topics import CreateTopic, PurgeTopic
from borzoi.records.message import Message, encode_messages

HOUR = 3_600_000_000
ZERO = Namespace(0, 0, 0)
GROUP = ConsumerKind.GROUP


async def test_the_cleaner_deletes_what_is_too_old_and_what_is_too_much(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, {"SYSTEM_SEGMENT_SIZE": "1 KiB"}) as server:
        await with_topic(server, message_expiry=HOUR)
        plane, state = server.services.partitions, server.services.metadata.state
        for _ in range(5):
            await sent(server, size=1000)
        await plane.upkeep.clean(state, now=server.services.clock())
        assert totals_of(plane).segments_count == 6
        await plane.upkeep.clean(state, now=server.services.clock() + 2 * HOUR)
        assert totals_of(plane).segments_count == 2
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
        await plane.upkeep.clean(state, now=server.services.clock())
        assert described(plane, Namespace(0, 1, 0)).size < 2048 * 0.9


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
            for _ in range(30):
                await sent(server, size=1000)
            assert described(plane, ZERO).segments_count == 30
            assert await counted(work()) > 25
            assert described(plane, ZERO).segments_count == 1
            await server.root().call(PurgeTopic("s", "t"))


async def test_deleting_segments_ends_with_their_partition(tmp_path: Path) -> None:
    async with embedded_server(tmp_path, {"SYSTEM_SEGMENT_SIZE": "1 KiB"}) as server:
        await with_topic(server)
        for _ in range(30):
            await sent(server, size=1000)
        plane = server.services.partitions
        deleting = plane.run(ZERO, operations.DeleteSegments(29), now=1)
        assert isinstance(deleting, asyncio.Future)
        await asyncio.sleep(0)
        await server.root().call(PurgeTopic("s", "t"))
        await sent(server, 2)
        await deleting
        assert described(plane, ZERO).messages_count == 2
