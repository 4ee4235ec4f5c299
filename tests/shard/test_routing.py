"""Two shards with real partitions on one loop: what runs where, and what crosses."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.lenient import LenientMedium
from tests.support.logs import batch_of, payloads_in
from tests.support.shards import linked

from borzoi.memory.pool import MIB, MemoryPool
from borzoi.metadata import effects
from borzoi.metadata.groups import CompleteRevocation
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.state import Metadata
from borzoi.metadata.users import root_creation
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import InvalidOffset, PartitionNotFound, ShardUnavailable
from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.model.namespace import Namespace
from borzoi.model.topics import Compression
from borzoi.partitions import operations
from borzoi.partitions.futures import arrived
from borzoi.partitions.partition import Partition
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic
from borzoi.records.batch import walk
from borzoi.shard.bus import Bus
from borzoi.shard.links import Peer
from borzoi.shard.local_store import LocalPartitionStore
from borzoi.shard.ownership import Ownership
from borzoi.shard.partition_table import PartitionTable
from borzoi.shard.routing import RoutedPartitionPlane, narrow
from borzoi.shard.trash import Trash
from borzoi.shard.upkeep import Upkeep
from borzoi.storage.compressed import TwinOpener
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.layout import place_directory
from borzoi.storage.local import LocalMedium
from borzoi.storage.log import open_log
from borzoi.storage.offsets import OffsetWriter, open_offsets

PARTITIONS = 8
WORDS = ("streams", "topics", "partitions")
NAMESPACES = [Namespace(0, 0, number) for number in range(PARTITIONS)]


@dataclass
class Shard:
    bus: Bus
    plane: RoutedPartitionPlane
    pool: MemoryPool
    state: Metadata


def metadata() -> Metadata:
    state = Metadata()
    for command in (
        root_creation("root", "hash"),
        CreateStream("s"),
        CreateTopic(0, "t", PARTITIONS, Compression.NONE, NEVER, UNLIMITED, 1),
    ):
        apply(state, Entry(1, 0, command))
    return state


def shard_of(directory: Path, bus: Bus) -> Shard:
    medium = LocalMedium()
    descriptors = Descriptors(medium)
    twins, writer = TwinOpener(descriptors), OffsetWriter(medium)

    def open_partition(namespace: Namespace, folder: Path, generation: int) -> Partition:
        log = open_log(folder, medium, descriptors=descriptors, generation=generation)
        offsets = open_offsets(folder, writer)
        return Partition(namespace, log, offsets, new_ids=lambda count: b"\1" * 16 * count)

    store = LocalPartitionStore(
        medium,
        lambda place: place_directory(directory, place, WORDS),
        open_partition,
        twins,
        Trash(medium, directory / "trash", durable=False, shard=bus.shard, count=bus.count),
    )
    table = PartitionTable(store)
    pool = MemoryPool(4 * MIB, descriptor=os.dup(bus.links.arena))
    ownership = Ownership(bus.shard, bus.count)
    plane = RoutedPartitionPlane(
        table,
        Upkeep(table, store),
        store,
        bus=bus,
        ownership=ownership,
        arena=pool.arena,
        files_max=256,
        clients_max=4,
    )
    state = metadata()
    table.open_all(state, ownership.is_own)
    plane.begin()
    return Shard(bus, plane, pool, state)


@asynccontextmanager
async def two_shards(directory: Path) -> AsyncIterator[list[Shard]]:
    made = [shard_of(directory, Bus(links)) for links in linked(2)]
    try:
        yield made
    finally:
        for shard in made:
            await shard.plane.close()
        for shard in made:
            shard.bus.close()
            shard.bus.links.close()
            shard.pool.close()


@pytest.fixture
async def shards(tmp_path: Path) -> AsyncIterator[list[Shard]]:
    async with two_shards(tmp_path) as made:
        yield made


def owned_by(shard: Shard) -> Namespace:
    return next(one for one in NAMESPACES if shard.plane.ownership.is_own(one))


def poll(offset: int = 0) -> operations.Poll:
    return operations.Poll(PollingStrategy.offset(offset), 100, ConsumerKind.CONSUMER, 1)


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def test_each_partition_is_open_on_its_owner_only(shards):
    opened = [set(shard.plane.opened()) for shard in shards]
    assert opened[0] & opened[1] == set()
    assert opened[0] | opened[1] == set(NAMESPACES)
    assert sorted(await shards[0].plane.opened_everywhere()) == NAMESPACES


async def test_an_operation_on_an_own_partition_is_answered_at_once(shards):
    for shard in shards:
        place = owned_by(shard)
        assert shard.plane.run(place, operations.Append(batch_of([b"x"])), now=1) is None
        assert shard.plane.run(place, poll(), now=1).reading.count == 1


async def test_an_operation_on_another_shards_partition_crosses(shards):
    first, second = shards
    place = owned_by(second)
    await first.plane.run(place, operations.Append(batch_of([b"one", b"two"])), now=77)
    found = await first.plane.run(place, poll(), now=1)
    assert payloads_in(found.reading.materialise()) == [b"one", b"two"]
    assert not found.reading.tail, "the answer is a range of a file"
    assert first.plane.files_held == 1
    await first.plane.run(place, operations.StoreOffset(ConsumerKind.CONSUMER, 1, 1), now=1)
    assert await first.plane.run(
        place, operations.LoadOffset(ConsumerKind.CONSUMER, 1), now=1
    ) == operations.OffsetPair(1, 1)
    with pytest.raises(InvalidOffset):
        await first.plane.run(place, operations.StoreOffset(ConsumerKind.CONSUMER, 1, 9), now=1)
    await first.plane.run(place, operations.Flush(sync=True), now=1)
    assert (await first.plane.run(place, operations.RemoveSegments(3), now=1)).segments == 0
    with pytest.raises(PartitionNotFound):
        await arrived(first.plane.run(Namespace(9, 9, 9), poll(), now=1))


async def test_a_large_batch_leaves_at_once_and_small_ones_leave_together(shards):
    first, second = shards
    place, arriving = owned_by(second), second.bus.links.peers[0].socket
    small = first.plane.run(place, operations.Append(batch_of([b"small"])), now=1)
    with pytest.raises(BlockingIOError):
        arriving.recv(1, socket.MSG_PEEK)
    large = first.plane.run(place, operations.Append(batch_of([bytes(1000)] * 100)), now=1)
    assert arriving.recv(1, socket.MSG_PEEK)
    await asyncio.gather(small, large)
    found = second.plane.run(place, poll(), now=1)
    assert payloads_in(found.reading.materialise()) == [b"small", *[bytes(1000)] * 99]


async def test_a_lent_batch_is_stamped_where_it_lies(shards):
    first, second = shards
    place = owned_by(second)
    plain = batch_of([bytes(1000)] * 50)
    buffer = first.pool.acquire(plain.size)
    messages = buffer.view[: plain.size]
    messages[:] = plain.messages
    await first.plane.run(place, operations.Append(walk(messages)), now=5_000)
    stamped = walk(messages)
    assert stamped.offsets().tolist() == list(range(50))
    assert set(stamped.timestamps().tolist()) == {5_000}
    found = second.plane.run(place, poll(), now=1)
    assert found.reading.materialise() == bytes(messages)


async def test_a_file_crosses_once_and_is_closed_when_it_is_deleted(shards, tmp_path):
    first, second = shards
    place = owned_by(second)
    await first.plane.run(place, operations.Append(batch_of([b"x"])), now=1)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await first.plane.run(place, poll(), now=1)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    await second.plane.carry_out(effects.PurgedTopic(0, 0, tuple(range(PARTITIONS))))
    await until(lambda: first.plane.files_held == 0)
    assert (await first.plane.run(place, poll(), now=1)).reading.count == 0


async def test_waiting_for_messages_crosses_and_may_be_given_up(shards):
    first, second = shards
    place = owned_by(second)
    arrivals = second.plane.owned[place].arrivals
    waiting = first.plane.run(place, operations.AwaitMessages(60_000_000), now=1)
    await until(lambda: bool(arrivals.waiting))
    second.plane.run(place, operations.Append(batch_of([b"x"])), now=1)
    await waiting
    given_up = first.plane.run(place, operations.AwaitMessages(60_000_000), now=1)
    await until(lambda: bool(arrivals.waiting))
    given_up.cancel()
    await until(lambda: not arrivals.waiting)
    # Its shard dies: nothing is to be waited for any more, and no error either.
    lost = first.plane.run(place, operations.AwaitMessages(60_000_000), now=1)
    await until(lambda: bool(arrivals.waiting))
    first.bus.close()
    assert await lost is None


async def test_what_a_peer_lent_and_opened_is_released_when_it_dies(shards):
    first, second = shards
    place = owned_by(second)
    plain = batch_of([bytes(100)] * 50)
    buffer = first.pool.acquire(plain.size)
    buffer.view[: plain.size] = plain.messages
    await first.plane.run(place, operations.Append(walk(buffer.view[: plain.size])), now=1)
    await first.plane.run(place, poll(), now=1)
    assert second.plane._arenas._arenas
    assert second.plane._polls._sent
    second.bus.links.on_peer_lost(0)
    assert not second.plane._arenas._arenas
    assert not second.plane._polls._sent
    await until(lambda: not first.bus.is_there(1))
    assert first.plane.files_held == 0
    with pytest.raises(ShardUnavailable):
        first.plane._polls.arrived(_polled_answer())


def _polled_answer():
    from borzoi.partitions.polling import Polled
    from borzoi.shard.bus import Arrived
    from borzoi.shard.crossing import encode_polled
    from borzoi.storage.reading import FileRange, Reading

    file = LenientMedium().open(Path("/dev/null"), writable=False)
    return Arrived(1, encode_polled(Polled(Reading(0, 1, [FileRange(file, 0, 1)]), 0), lambda _: 1))


async def test_totals_and_descriptions_are_of_all_shards(shards):
    for number, place in enumerate(NAMESPACES):
        await arrived(
            shards[0].plane.run(place, operations.Append(batch_of([b"x"] * (number + 1))), now=1)
        )
    for shard in shards:
        described = await arrived(shard.plane.describe(NAMESPACES))
        assert [one.messages_count for one in described] == list(range(1, PARTITIONS + 1))
        totals = await arrived(shard.plane.totals())
        assert totals.messages_count == sum(range(1, PARTITIONS + 1))
        assert totals.segments_count == PARTITIONS
        own = [one for one in NAMESPACES if shard.plane.ownership.is_own(one)]
        assert isinstance(shard.plane.describe(own), list), "no other shard is asked"
        assert (await arrived(shard.plane.describe([Namespace(7, 7, 7)])))[0].messages_count == 0


async def test_every_shard_shrinks_its_part_of_a_topic(shards):
    for place in NAMESPACES:
        await arrived(shards[0].plane.run(place, operations.Append(batch_of([bytes(100)])), now=1))
    size = await shards[0].plane._topic_size(NAMESPACES)
    assert size == PARTITIONS * 164
    for shard in shards:
        assert shard.plane.upkeep.topic_size is not None
        await shard.plane.upkeep.clean(shard.state, now=1)


def test_an_effect_is_narrowed_to_the_partitions_of_a_shard():
    ids = tuple(range(PARTITIONS))
    for shard in (0, 1):
        own = Ownership(shard, 2)
        mine = tuple(number for number in ids if own.is_own(Namespace(0, 0, number)))
        assert narrow(effects.PurgedTopic(0, 0, ids), own) == effects.PurgedTopic(0, 0, mine)
        assert narrow(effects.DeletedGroup(0, 0, 1, ids), own) == effects.DeletedGroup(
            0, 0, 1, mine
        )
        assert narrow(effects.ForgetPolled(0, 0, 1, ids), own) == effects.ForgetPolled(
            0, 0, 1, mine
        )
        assert narrow(effects.CheckRevocations(0, 0, 1, ids), own) == effects.CheckRevocations(
            0, 0, 1, mine
        )
        assert narrow(effects.PurgedStream(0, ((0, ids),)), own) == effects.PurgedStream(
            0, ((0, mine),)
        )
        for everyones in (
            effects.DeletedPartitions(0, 0, ids),
            effects.DeletedTopic(0, 0, ids),
            effects.DeletedStream(0, ((0, ids),)),
            effects.DroppedUser(3),
        ):
            assert narrow(everyones, own) is everyones
        assert narrow(effects.PurgedTopic(0, 0, ()), own) is None
    # The writer makes the place of a topic without partitions.
    assert narrow(
        effects.CreatedPartitions(0, 0, ()), Ownership(0, 2)
    ) == effects.CreatedPartitions(0, 0, ())
    assert narrow(effects.CreatedPartitions(0, 0, ()), Ownership(1, 2)) is None


async def test_what_is_deleted_is_removed_by_the_writer_after_the_owners_let_go(shards, tmp_path):
    first, second = shards
    for place in NAMESPACES:
        await arrived(first.plane.run(place, operations.Append(batch_of([b"x"])), now=1))
    folder = place_directory(tmp_path, (0, 0), WORDS)
    assert folder.exists()
    effect = effects.DeletedTopic(0, 0, tuple(range(PARTITIONS)))
    await second.plane.carry_out(effect)
    assert second.plane.opened() == []
    assert folder.exists()
    await first.plane.carry_out(effect)
    assert first.plane.opened() == []
    assert not folder.exists()


async def test_handovers_are_checked_by_the_owner_of_each_partition(shards):
    effect = effects.CheckRevocations(0, 0, 5, tuple(range(PARTITIONS)))
    found = [await shard.plane.carry_out(effect) for shard in shards]
    assert sorted(one.partition_id for commands in found for one in commands) == list(
        range(PARTITIONS)
    )
    assert all(isinstance(one, CompleteRevocation) for commands in found for one in commands)


async def test_a_shard_holds_what_the_state_of_a_new_writer_has(shards):
    first, _ = shards
    before, after = metadata(), metadata()
    apply(after, Entry(2, 0, DeleteTopic(0, 0)))
    create = CreateTopic(0, "t", 3, Compression.NONE, NEVER, UNLIMITED, 1)
    apply(after, Entry(3, 0, create))
    kept = {one: first.plane.owned[one] for one in first.plane.opened()}
    await first.plane.follow(before, metadata())
    assert {one: first.plane.owned[one] for one in first.plane.opened()} == kept
    await first.plane.follow(before, after)
    assert all(one.partition_id < 3 for one in first.plane.opened())
    assert all(first.plane.owned[one] is not kept[one] for one in first.plane.opened())


async def test_a_poll_is_asked_again_of_the_process_that_replaces_the_owner(shards):
    first, second = shards
    place = owned_by(second)
    await first.plane.run(place, operations.Append(batch_of([b"x"])), now=1)
    first.bus.links.on_peer_lost(1)
    asked = first.plane.run(place, poll(), now=1)
    await until(lambda: not second.bus.is_there(0))
    import socket

    one, other = socket.socketpair()
    first.bus.links.on_peer(Peer(1, one, os.dup(second.bus.links.arena)))
    second.bus.links.on_peer(Peer(0, other, os.dup(first.bus.links.arena)))
    assert payloads_in((await asked).reading.materialise()) == [b"x"]
