import threading
from collections import Counter
from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.embedded import (
    asked,
    described,
    embedded_server,
    here,
    sent,
    totals_of,
    with_topic,
)
from tests.support.faults import FaultyMedium
from tests.support.logs import numbered
from tests.support.stores import store_in

from borzoi.metadata.effects import CheckRevocations
from borzoi.metadata.groups import CompleteRevocation
from borzoi.model.consuming import ConsumerKind
from borzoi.model.errors import PartitionNotFound, StorageFailure, TooManyPartitions
from borzoi.model.namespace import Namespace
from borzoi.partitions.operations import LoadOffset, StoreOffset
from borzoi.partitions.partition import Partition
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, GetTopic
from borzoi.shard.partition_table import PartitionTable, Totals
from borzoi.storage.durability import DIRECTORIES_ON_THE_WAY
from borzoi.storage.layout import DRAFT_SUFFIX, RECOVERY_POINT, partition_directory
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.offsets import OffsetWriter, open_offsets
from borzoi.storage.syncing import ThreadSyncer

ZERO = Namespace(0, 0, 0)
GROUP = ConsumerKind.GROUP


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
        topic = await server.root().call(GetTopic("s", "t"))
        assert [one.messages_count for one in topic.partitions] == [0, 0]
        plane = server.services.partitions
        check = CheckRevocations(0, 0, 0, (0, 1))
        assert await plane.carry_out(check) == [
            CompleteRevocation(0, 0, 0, 0),
            CompleteRevocation(0, 0, 0, 1),
        ]
        in_the_way.unlink()
        await sent(server)
        assert described(plane, ZERO).messages_count == 1


async def test_many_partitions_are_closed_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(4)
    close = SegmentedLog.close

    def met(self: SegmentedLog) -> None:
        together.wait(60)
        close(self)

    async with embedded_server(tmp_path) as server:
        await with_topic(server, partitions=4)
        await sent(server, 3)
        asked(server.services.partitions, ZERO, StoreOffset(GROUP, 1, 2))
        # Each waits until all four are being closed: one after another they would never be.
        monkeypatch.setattr(SegmentedLog, "close", met)
    monkeypatch.undo()
    async with embedded_server(tmp_path) as server:
        plane = server.services.partitions
        assert described(plane, ZERO).messages_count == 3
        assert asked(plane, ZERO, LoadOffset(GROUP, 1)).stored == 2


@pytest.mark.parametrize("count", [1, 20])
async def test_a_stop_syncs_what_lies_above_the_partitions_once(count: int) -> None:
    medium = FaultyMedium(SimulatedDisk(), lambda *_: None)
    writer = OffsetWriter(medium)
    syncer = ThreadSyncer()

    def open_partition(namespace: Namespace, folder: Path, generation: int) -> Partition:
        log = open_log(folder, medium, syncer=syncer, generation=generation)
        return Partition(namespace, log, open_offsets(folder, writer), new_ids=bytes)

    table = PartitionTable(store_in(Path("/data"), medium, open_partition))
    namespaces = [Namespace(0, 0, number) for number in range(count)]
    await table.open_new(namespaces)
    for namespace in namespaces:
        table.find(namespace).log.append(numbered([b"x"], base_offset=0, timestamp=1), timestamp=1)
    medium.operations.clear()
    await table.close()
    syncer.close()

    folders = [partition_directory(Path("/data"), namespace) for namespace in namespaces]
    above = folders[0].parents[:DIRECTORIES_ON_THE_WAY]
    synced = Counter(path for name, path in medium.operations if name == "fsync_directory")
    # Its own directory before the recovery point is moved, which relies on it, and after.
    assert synced == Counter(above) + Counter(2 * folders)
    order = {operation: place for place, operation in enumerate(medium.operations)}
    moved = [order["rename", folder / f"{RECOVERY_POINT}{DRAFT_SUFFIX}"] for folder in folders]
    assert max(order["fsync_directory", path] for path in above) < min(moved)


async def test_a_partition_that_cannot_be_closed_does_not_keep_the_others_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    close = SegmentedLog.close

    def fail(self: SegmentedLog) -> None:
        close(self)
        raise StorageFailure("the disk is tired")

    async with embedded_server(tmp_path) as server:
        await with_topic(server)
        await sent(server, 3)
        monkeypatch.setattr(SegmentedLog, "close", fail)
    assert "partition 0/0/0 was not closed" in caplog.text
    assert "partition 0/0/1 was not closed" in caplog.text


async def test_totals_are_sums_over_what_is_open(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        await with_topic(server)
        await sent(server, 3, size=36)
        plane = server.services.partitions
        both = here(plane.describe([ZERO, Namespace(0, 0, 1)]))
        for totals in (totals_of(plane), Totals.of(both)):
            assert (totals.messages_count, totals.size_bytes, totals.segments_count) == (3, 300, 2)


def test_what_metadata_does_not_know_is_not_found() -> None:
    def never(namespace: Namespace, folder: Path, generation: int) -> Partition:
        raise AssertionError(namespace)

    table = PartitionTable(store_in(Path("/data"), SimulatedDisk(), never))
    assert table.get(ZERO) is None
    with pytest.raises(PartitionNotFound):
        table.find(ZERO)


async def test_more_partitions_than_can_be_served_are_refused_and_those_that_are_there_served(
    tmp_path: Path,
) -> None:
    def open_partition(namespace: Namespace, folder: Path, generation: int) -> Partition:
        log = open_log(folder, medium)
        return Partition(namespace, log, open_offsets(folder, OffsetWriter(medium)), new_ids=bytes)

    medium = SimulatedDisk()
    table = PartitionTable(store_in(Path("/data"), medium, open_partition), partitions_max=3)
    table.refuse_beyond_limit(3)
    await table.open_new([Namespace(0, 0, number) for number in range(2)])
    table.refuse_beyond_limit(1)
    with pytest.raises(TooManyPartitions, match="has 2 partitions and memory for 3; 2 more cannot"):
        table.refuse_beyond_limit(2)
    await table.open_new([Namespace(0, 1, number) for number in range(5)])
    assert len(table.opened) == 7
