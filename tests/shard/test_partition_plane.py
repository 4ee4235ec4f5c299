import asyncio
import contextlib
import gc
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.embedded import (
    EmbeddedServer,
    asked,
    described,
    embedded_server,
    sent,
    totals_of,
    with_topic,
)
from tests.support.listening import turns

from borzoi.metadata.effects import (
    CheckRevocations,
    DeletedGroup,
    DeletedPartitions,
    DroppedUser,
    ForgetPolled,
    PurgedTopic,
)
from borzoi.metadata.groups import CompleteRevocation
from borzoi.metadata.proposals import Proposal
from borzoi.metadata.topics import resolved
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import BorzoiError, PartitionNotFound, StorageFailure
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning
from borzoi.partitions.operations import Describe, IsSettled, LoadOffset, Poll, StoreOffset
from borzoi.partitions.partition import Partition
from borzoi.partitions.statistics import EMPTY
from borzoi.protocol.commands.messages import SendMessages
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.streams import DeleteStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic
from borzoi.protocol.contract import Request
from borzoi.records.message import Message, encode_messages
from borzoi.shard.metadata_plane import MetadataPlane
from borzoi.shard.partition_plane import PartitionPlane
from borzoi.shard.trash import Trash

HOUR = 3_600_000_000
ZERO = Namespace(0, 0, 0)
GROUP = ConsumerKind.GROUP
CONSUMER = ConsumerKind.CONSUMER


def polled_by(group_id: int, count: int) -> Poll:
    return Poll(PollingStrategy.first(), count, GROUP, group_id)


async def test_a_partition_is_settled_when_all_that_was_polled_is_committed(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        plane = (await with_topic(server)).services.partitions
        await sent(server, 3)
        assert asked(plane, ZERO, IsSettled(0))
        asked(plane, ZERO, polled_by(0, 3))
        asked(plane, ZERO, polled_by(0, 1))
        assert not asked(plane, ZERO, IsSettled(0))
        check = CheckRevocations(0, 0, 0, (0, 1))
        assert await plane.carry_out(check) == [CompleteRevocation(0, 0, 0, 1)]
        asked(plane, ZERO, StoreOffset(GROUP, 0, 2))
        assert asked(plane, ZERO, IsSettled(0))
        asked(plane, ZERO, polled_by(1, 3))
        assert not asked(plane, ZERO, IsSettled(1))
        await plane.carry_out(ForgetPolled(0, 0, 1, (0,)))
        assert asked(plane, ZERO, IsSettled(1))


async def test_a_deleted_group_leaves_no_offset(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        plane = (await with_topic(server)).services.partitions
        await sent(server)
        asked(plane, ZERO, StoreOffset(GROUP, 7, 0))
        await plane.carry_out(DeletedGroup(0, 0, 7, (0, 1)))
        assert asked(plane, ZERO, LoadOffset(GROUP, 7)).stored is None


async def test_purging_forgets_messages_offsets_and_marks(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        plane = (await with_topic(server)).services.partitions
        await sent(server, 2)
        asked(plane, ZERO, polled_by(0, 2))
        asked(plane, ZERO, StoreOffset(GROUP, 0, 0))
        await plane.carry_out(PurgedTopic(0, 0, (0, 1)))
        assert asked(plane, ZERO, IsSettled(0))
        assert totals_of(plane).messages_count == 0
        assert asked(plane, ZERO, LoadOffset(GROUP, 0)).stored is None


async def test_a_deleted_partition_is_not_found(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        plane = (await with_topic(server)).services.partitions
        await plane.carry_out(DeletedPartitions(0, 0, (1,)))
        with pytest.raises(PartitionNotFound):
            asked(plane, Namespace(0, 0, 1), Describe())
        assert described(plane, Namespace(0, 0, 1)) == EMPTY
        assert await plane.carry_out(DroppedUser(3)) == ()


async def test_everything_is_saved_and_found_again(tmp_path: Path) -> None:
    settings = {"SYSTEM_PARTITION_ACKNOWLEDGE": "buffered"}
    async with embedded_server(tmp_path, settings) as server:
        await with_topic(server)
        await sent(server, 3)
        await server.services.partitions.flush_all(sync=True)
        await sent(server, 2)
    async with embedded_server(tmp_path, settings) as server:
        plane = server.services.partitions
        assert described(plane, ZERO).messages_count == 5
        polled = asked(plane, ZERO, Poll(PollingStrategy.first(), 10, CONSUMER, 1))
        assert polled.reading.count == 5


async def test_a_new_topic_does_not_inherit_what_a_deletion_left_behind(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        await with_topic(server)
        await sent(server, 3)
        folder = tmp_path / "streams" / "0" / "topics" / "0"
        shutil.copytree(folder, tmp_path / "copy")
        await server.root().call(DeleteTopic("s", "t"))
        shutil.move(tmp_path / "copy", folder)
        await server.root().call(CreateTopic("s", "other", 1))
        assert described(server.services.partitions, ZERO).messages_count == 0


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

        for name in ("delete_segments", "purge", "abandon"):
            monkeypatch.setattr(Partition, name, failing(getattr(Partition, name)))
        put = Trash.put

        def put_aside(self: Trash, folder: Path) -> bool:
            if folder == tmp_path / "streams/0/topics/0/partitions/0":
                raise StorageFailure("the disk is tired")
            return put(self, folder)

        monkeypatch.setattr(Trash, "put", put_aside)
        later = server.services.clock() + 2_000_000
        await plane.upkeep.clean(state, now=later)
        counts = {sick: 2, Namespace(0, 0, 1): 1, Namespace(0, 1, 0): 1}
        assert {one: described(plane, one).segments_count for one in counts} == counts
        with pytest.raises(StorageFailure):
            await plane.carry_out(PurgedTopic(0, 0, (0, 1)))
        assert described(plane, Namespace(0, 0, 1)).messages_count == 0
        await server.root().call(DeleteTopic("s", "t"))
        assert not (tmp_path / "streams" / "0" / "topics" / "0").exists()


async def test_a_poll_gives_no_more_than_its_bound_and_at_least_one_message(
    tmp_path: Path,
) -> None:
    async with embedded_server(tmp_path) as server:
        plane = (await with_topic(server)).services.partitions
        await sent(server, 5, size=1000)
        await sent(server, 1, size=5000)
        found = [
            asked(
                plane,
                ZERO,
                Poll(PollingStrategy.offset(offset), 1_000_000, CONSUMER, 1, size_max=2500),
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
        done, _ = await asyncio.wait(waiting, timeout=60)
        assert len(done) == 3
        for one in done:
            assert one.exception() is None or isinstance(one.exception(), BorzoiError)
        assert server.dispatcher.waiting == 0
        assert not (tmp_path / "streams" / "0" / "topics" / "0").exists()


async def test_a_deletion_does_not_wait_for_its_files_to_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    remove = shutil.rmtree

    def slow(path: Path, **options: Any) -> None:
        go_on.wait(120)
        remove(path, **options)

    async with embedded_server(tmp_path) as server, asyncio.timeout(60):
        monkeypatch.setattr(shutil, "rmtree", slow)
        await with_topic(server)
        await sent(server, 3)
        await server.root().call(DeletePartitions("s", "t", 1))
        await server.root().call(DeleteTopic("s", "t"))
        await server.root().call(CreateTopic("s", "t", 1))
        assert described(server.services.partitions, ZERO).messages_count == 0
        await sent(server, 2)
        await server.root().call(PurgeTopic("s", "t"))
        await sent(server, 1)
        await server.root().call(DeleteStream("s"))
        await with_topic(server)
        go_on.set()
        await sent(server, 4)
        assert described(server.services.partitions, ZERO).messages_count == 4


async def test_purging_a_topic_costs_one_sync_however_many_partitions_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded_server(tmp_path) as server:
        await with_topic(server, partitions=20)
        await sent(server, 3)
        syncs: list[int] = []

        def noted(real: Callable[[int], None]) -> Callable[[int], None]:
            def sync(descriptor: int) -> None:
                syncs.append(descriptor)
                real(descriptor)

            return sync

        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, noted(getattr(os, name)))
        await server.root().call(PurgeTopic("s", "t"))
        assert len(syncs) == 1
        assert totals_of(server.services.partitions).messages_count == 0
        await sent(server, 2)
    async with embedded_server(tmp_path) as server:
        assert described(server.services.partitions, ZERO).messages_count == 2


async def test_others_have_their_turn_while_many_partitions_are_made_or_emptied(
    tmp_path: Path,
) -> None:
    async with embedded_server(tmp_path) as server:
        await with_topic(server)
        for request in (CreatePartitions("s", "t", 100), PurgeTopic("s", "t")):
            work = asyncio.create_task(server.root().call(request))
            others = 0
            while not work.done():
                # Those that are not open yet are there for who asks.
                asked(server.services.partitions, Namespace(0, 0, 1), LoadOffset(GROUP, 1))
                await asyncio.sleep(0)
                others += 1
            await work
            assert others > 10
        await sent(server)
        assert totals_of(server.services.partitions).segments_count == 102


def open_files(directory: Path) -> list[str]:
    """What this process has open below the directory."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if target.startswith(str(directory / "streams")):
                found.append(target)
    return found


@pytest.mark.parametrize("acknowledge", ["written", "synced"])
async def test_deleted_files_are_closed_without_waiting_for_the_garbage_collector(
    tmp_path: Path, acknowledge: str
) -> None:
    """An open file keeps its space on the disk."""
    settings = {"SYSTEM_SEGMENT_SIZE": "16 KiB", "SYSTEM_PARTITION_ACKNOWLEDGE": acknowledge}
    gc.collect()
    gc.disable()
    try:
        async with embedded_server(tmp_path, settings) as server, asyncio.timeout(20):
            plane = (await with_topic(server)).services.partitions

            async def filled() -> None:
                for _ in range(20):
                    await sent(server, 10, size=1500)
                for offset in range(0, 200, 10):
                    asked(plane, ZERO, Poll(PollingStrategy.offset(offset), 10, CONSUMER, 1))

            async def closed() -> None:
                while any(
                    name.endswith(" (deleted)") or "/streams/trash/" in name
                    for name in open_files(tmp_path)
                ):
                    await asyncio.sleep(0.01)

            await filled()
            await server.root().call(DeleteSegments("s", "t", 0, 5))
            await closed()
            await server.root().call(PurgeTopic("s", "t"))
            await closed()
            await filled()
            await server.root().call(DeleteStream("s"))
            while open_files(tmp_path):
                await asyncio.sleep(0.01)
    finally:
        gc.enable()


class PowerOff(BaseException):
    """The process is gone: nothing behind this point happens."""


async def crash_at(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, method: str, *requests: Request
) -> None:
    """Make the requests; the last one is cut off where the plane comes to the method."""

    def die(*_given: object) -> None:
        raise PowerOff

    *before, last = requests
    for request in before:
        await server.root().call(request)
    with monkeypatch.context() as patched:
        patched.setattr(PartitionPlane, method, die)
        with pytest.raises(PowerOff):
            await server.services.metadata.submit(Proposal(last, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("deletion", "creation"),
    [
        (DeleteTopic("s", "t"), CreateTopic("s", "new", 2)),
        (DeletePartitions("s", "t", 2), CreatePartitions("s", "t", 1)),
    ],
)
@pytest.mark.parametrize("swept", [True, False], ids=["swept at the start", "left behind"])
async def test_a_deleted_partition_does_not_come_back_after_two_crashes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deletion: Request,
    creation: Request,
    swept: bool,
) -> None:
    """The first between logging the deletion and moving the files, the second between logging
    what gets the number next and opening it."""
    async with embedded_server(tmp_path) as server:
        await with_topic(server)
        await sent(server, 3)
        await crash_at(server, monkeypatch, "_drop", deletion)
    folder = tmp_path / "streams/0/topics/0/partitions/0"
    assert folder.exists()
    if not swept:
        # As if the sweep had failed: then the place is cleared before the creation is logged.
        monkeypatch.setattr(PartitionPlane, "finish_deletions", lambda *_: None)
    async with embedded_server(tmp_path) as server:
        assert folder.exists() is not swept
        if isinstance(creation, CreateTopic):
            metadata = server.services.metadata
            assert isinstance(metadata, MetadataPlane)
            creation = resolved(creation, metadata.defaults)
        await crash_at(server, monkeypatch, "_create", creation)
    async with embedded_server(tmp_path) as server:
        assert described(server.services.partitions, ZERO).messages_count == 0
        assert totals_of(server.services.partitions).messages_count == 0


async def test_a_deleted_stream_does_not_come_back_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded_server(tmp_path) as server:
        await with_topic(server)
        await sent(server, 3)
        await crash_at(server, monkeypatch, "_drop", DeleteStream("s"))
    assert (tmp_path / "streams" / "0").exists()
    async with embedded_server(tmp_path) as server:
        assert not (tmp_path / "streams" / "0").exists()
        assert not server.services.metadata.state.streams


async def test_a_start_leaves_alone_what_no_entry_deleted(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        await with_topic(server)
        await server.root().call(DeleteTopic("s", "t"))
        await server.root().call(CreateTopic("s", "t", 2))
        await server.root().call(DeletePartitions("s", "t", 1))
        await server.root().call(CreatePartitions("s", "t", 1))
        await sent(server, 3)
    unknown = tmp_path / "streams" / "7"
    unknown.mkdir()
    async with embedded_server(tmp_path) as server:
        assert described(server.services.partitions, ZERO).messages_count == 3
        assert (tmp_path / "streams/0/topics/0/partitions/1").exists()
        assert unknown.exists()


async def test_what_cannot_be_cleared_refuses_its_successor_and_is_not_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stuck(_self: Trash, folder: Path) -> None:
        raise StorageFailure(f"{folder} does not go")

    async with embedded_server(tmp_path) as server:
        await with_topic(server)
        await sent(server, 3)
        with monkeypatch.context() as patched:
            patched.setattr(Trash, "take", stuck)
            await server.root().call(DeleteTopic("s", "t"))
            with pytest.raises(StorageFailure):
                await server.root().call(CreateTopic("s", "new", 1))
        assert not server.services.metadata.state.streams[0].topics
        await server.root().call(CreateTopic("s", "new", 1))
        assert described(server.services.partitions, ZERO).messages_count == 0


async def test_sends_that_wait_for_the_disk_while_their_topic_is_purged_succeed(
    tmp_path: Path,
) -> None:
    settings = {"SYSTEM_PARTITION_ACKNOWLEDGE": "synced"}
    async with embedded_server(tmp_path, settings) as server:
        await with_topic(server)
        plane = server.services.partitions
        waiting = [asyncio.create_task(sent(server)) for _ in range(3)]
        await turns(2)
        assert server.dispatcher.waiting == 3
        await plane.carry_out(PurgedTopic(0, 0, (0, 1)))
        # Stored, then forgotten: both happened.
        await asyncio.gather(*waiting)
        assert described(plane, ZERO).messages_count == 0
        await sent(server, 2)
        assert described(plane, ZERO).messages_count == 2
