import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.logs import batch_of, payloads_in
from tests.support.partitions import CIPHER, DIRECTORY, NEW_IDS, open_partition

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import ConsumerOffsetNotFound, InvalidOffset
from borzoi.model.namespace import Namespace
from borzoi.partitions.appending import Appender
from borzoi.partitions.deduplication import Deduplicator
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.storage.log import open_log
from borzoi.storage.offsets import OffsetWriter, open_offsets
from borzoi.storage.reading import Reading
from borzoi.storage.segment import SegmentFacts
from borzoi.storage.settings import Acknowledge

CONSUMER = ConsumerKind.CONSUMER


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def partition(disk: SimulatedDisk) -> Partition:
    """Ten messages, two in each segment, at times 0, 10, …"""
    made = open_partition(disk)
    for number in range(10):
        made.append(batch_of([b"%d" % number + bytes(500)]), now=number * 10)
    return made


def poll(
    partition: Partition, strategy: PollingStrategy, count: int = 3, *, commit: bool = False
) -> Polled:
    polled = partition.poll(strategy, count, kind=CONSUMER, consumer_id=1, auto_commit=commit)
    assert isinstance(polled, Polled)
    return polled


def numbers(polled: Polled) -> list[int]:
    return [int(payload.split(b"\0")[0]) for payload in payloads_in(polled.reading.materialise())]


def test_every_strategy_finds_its_messages(partition: Partition) -> None:
    assert numbers(poll(partition, PollingStrategy.offset(4))) == [4, 5, 6]
    assert numbers(poll(partition, PollingStrategy.timestamp(41))) == [5, 6, 7]
    assert numbers(poll(partition, PollingStrategy.first())) == [0, 1, 2]
    assert numbers(poll(partition, PollingStrategy.last())) == [7, 8, 9]
    assert numbers(poll(partition, PollingStrategy.next())) == [0, 1, 2]


@pytest.mark.parametrize("strategy", [PollingStrategy.offset(10), PollingStrategy.timestamp(91)])
def test_behind_the_last_message_there_is_an_empty_answer(
    partition: Partition, strategy: PollingStrategy
) -> None:
    polled = poll(partition, strategy)
    assert (polled.reading.count, polled.current_offset) == (0, 9)


def test_an_empty_partition_stands_at_offset_0(disk: SimulatedDisk) -> None:
    partition = open_partition(disk)
    for strategy in (PollingStrategy.first(), PollingStrategy.last(), PollingStrategy.next()):
        polled = poll(partition, strategy, commit=True)
        assert (polled.reading.count, polled.current_offset) == (0, 0)
    assert partition.load_offset(CONSUMER, 1) is None
    with pytest.raises(InvalidOffset):
        partition.store_offset(CONSUMER, 1, 0)


def test_auto_commit_stores_the_last_offset_handed_out(partition: Partition) -> None:
    handed_out = []
    while found := numbers(poll(partition, PollingStrategy.next(), 4, commit=True)):
        handed_out += found
    assert handed_out == [*range(10)]
    assert partition.load_offset(CONSUMER, 1) == 9
    assert partition.load_offset(ConsumerKind.GROUP, 1) is None


def test_an_offset_may_go_back_but_not_past_the_end(partition: Partition) -> None:
    partition.store_offset(CONSUMER, 1, 9)
    partition.store_offset(CONSUMER, 1, 2)
    with pytest.raises(InvalidOffset):
        partition.store_offset(CONSUMER, 1, 10)
    assert numbers(poll(partition, PollingStrategy.next())) == [3, 4, 5]
    partition.delete_offset(CONSUMER, 1)
    with pytest.raises(ConsumerOffsetNotFound):
        partition.delete_offset(CONSUMER, 1)


def test_encrypted_messages_are_polled_in_the_clear(disk: SimulatedDisk) -> None:
    partition = open_partition(disk, cipher=CIPHER)
    partition.append(batch_of([b"1", b"2"]), now=1)
    assert numbers(poll(partition, PollingStrategy.first())) == [1, 2]
    reading = partition.log.read(0, 10)
    assert isinstance(reading, Reading)
    assert b"1" not in payloads_in(reading.materialise())


def test_a_consumer_gets_past_messages_no_key_opens(disk: SimulatedDisk) -> None:
    open_partition(disk).append(batch_of([b"1", b"2"]), now=1)
    disk.kill()
    partition = open_partition(disk, cipher=CIPHER)
    polled = poll(partition, PollingStrategy.next(), commit=True)
    assert (polled.reading.count, polled.reading.left_out) == (0, 2)
    partition.append(batch_of([b"3"]), now=2)
    assert numbers(poll(partition, PollingStrategy.next(), commit=True)) == [3]


def test_retention_keeps_what_was_not_read(partition: Partition) -> None:
    partition.store_offset(CONSUMER, 1, 4)
    partition.store_offset(ConsumerKind.GROUP, 5, 8)
    assert partition.barrier() == 4
    assert partition.delete_segments(6).segments == 2
    assert partition.log.first_offset == 4


def test_retention_takes_unread_messages_where_the_server_is_configured_so(
    disk: SimulatedDisk, partition: Partition
) -> None:
    partition.store_offset(CONSUMER, 1, 2)
    partition.close()
    again = open_partition(disk, keep_unread=False)
    assert again.barrier() is None
    assert again.delete_segments(3).segments == 3
    assert again.log.first_offset == 6


async def test_where_only_archived_segments_may_go_the_others_stay(
    disk: SimulatedDisk, partition: Partition
) -> None:
    partition.close()
    asked = []

    def first_four(namespace: Namespace, segments: Sequence[SegmentFacts], count: int) -> int:
        asked.append((namespace, count))
        return min(count, sum(facts.end_offset < 4 for facts in segments))

    again = open_partition(disk, archived=first_four)
    again.store_offset(CONSUMER, 1, 1)
    assert (await again.delete_oldest(5)).segments == 1
    again.delete_offset(CONSUMER, 1)
    # Two at once do not delete more than one of them would.
    removed = await asyncio.gather(again.delete_oldest(2), again.delete_oldest(50))
    assert sum(one.segments for one in removed) == 1
    assert again.log.first_offset == 4
    assert (await again.delete_oldest(0)).segments == 0
    assert asked == [(again.namespace, 1), (again.namespace, 2), (again.namespace, 3)]


async def test_segments_are_deleted_from_the_oldest_on(partition: Partition) -> None:
    partition.append(batch_of([b"10"]), now=100)
    assert partition.delete_segments(1).segments == 1
    size = partition.log.size
    partition.store_offset(CONSUMER, 1, 5)
    removed = await partition.delete_oldest(5)
    assert removed == (2, 4, size - partition.log.size)
    partition.delete_offset(CONSUMER, 1)
    assert (await partition.delete_oldest(50)).segments == 2
    assert partition.statistics == (1, 10, partition.log.size, 1)
    assert numbers(poll(partition, PollingStrategy.first())) == [10]


async def test_a_poll_whose_commit_waits_is_a_future(disk: SimulatedDisk) -> None:
    writer = OffsetWriter(disk, Acknowledge.SYNCED, loop=asyncio.get_running_loop())
    partition = Partition(
        Namespace(0, 0, 0),
        open_log(DIRECTORY, disk),
        open_offsets(DIRECTORY, writer),
        new_ids=NEW_IDS,
    )
    partition.append(batch_of([b"1", b"2"]), now=1)
    polled = partition.poll(
        PollingStrategy.first(), 9, kind=CONSUMER, consumer_id=1, auto_commit=True
    )
    assert isinstance(polled, asyncio.Future)
    assert numbers(await polled) == [1, 2]
    assert partition.load_offset(CONSUMER, 1) == 1


def test_a_group_is_settled_when_it_has_committed_all_it_polled(partition: Partition) -> None:
    def polled_by_group(count: int) -> None:
        partition.poll(PollingStrategy.first(), count, kind=ConsumerKind.GROUP, consumer_id=7)

    assert partition.is_settled(7)
    polled_by_group(3)
    polled_by_group(1)
    partition.store_offset(ConsumerKind.GROUP, 7, 1)
    assert not partition.is_settled(7)
    partition.store_offset(ConsumerKind.GROUP, 7, 2)
    assert partition.is_settled(7)
    polled_by_group(9)
    assert not partition.is_settled(7)
    partition.forget_polled(7)
    assert partition.is_settled(7)


def test_a_purged_partition_begins_again(disk: SimulatedDisk) -> None:
    partition = open_partition(disk, deduplicator=Deduplicator(10, 0))
    partition.append(batch_of([b"1"], ids=[1]), now=1)
    partition.store_offset(CONSUMER, 1, 0)
    partition.purge()
    assert partition.statistics == (1, 0, 0, 0)
    assert partition.load_offset(CONSUMER, 1) is None
    partition.append(batch_of([b"1"], ids=[1]), now=2)
    assert numbers(poll(partition, PollingStrategy.next())) == [1]


@pytest.mark.parametrize("seed", range(5))
def test_offsets_of_messages_a_power_cut_took_are_moved_back(seed: int) -> None:
    disk = SimulatedDisk()
    partition = open_partition(disk)
    for number in range(4):
        partition.append(batch_of([b"%d" % number]), now=number)
    partition.store_offset(CONSUMER, 1, 3)
    partition.offsets.flush(sync=True)
    disk.power_cut(Random(seed))
    partition = open_partition(disk)
    left = partition.log.visible_offset
    partition.append(batch_of([b"77"]), now=10)
    stored = partition.load_offset(CONSUMER, 1)
    assert stored is None or stored < left
    assert numbers(poll(partition, PollingStrategy.next(), 10))[-1] == 77


def test_everything_is_there_after_a_clean_end(disk: SimulatedDisk, partition: Partition) -> None:
    partition.store_offset(CONSUMER, 1, 4)
    partition.flush(sync=True)
    partition.close()
    disk.power_cut(Random(1))
    again = open_partition(disk)
    assert again.fenced is None
    assert numbers(poll(again, PollingStrategy.next(), 10)) == [5, 6, 7, 8, 9]


def test_a_fenced_partition_keeps_its_offsets(disk: SimulatedDisk, partition: Partition) -> None:
    partition.store_offset(CONSUMER, 1, 4)
    partition.close()
    disk.kill()
    names = sorted(name for name in disk.list(DIRECTORY) if name.endswith(".log"))
    disk.unlink(DIRECTORY / names[3])
    again = open_partition(disk)
    assert again.fenced is not None
    assert again.load_offset(CONSUMER, 1) == 4


def test_an_abandoned_partition_leaves_its_directory_alone(
    disk: SimulatedDisk, partition: Partition
) -> None:
    partition.store_offset(CONSUMER, 1, 4)
    disk.remove_tree(DIRECTORY)
    partition.abandon()
    assert disk.list(DIRECTORY) == []


def test_a_replica_recognises_duplicates_of_what_the_leader_stored() -> None:
    leader = open_partition(SimulatedDisk())
    follower = open_partition(SimulatedDisk(), deduplicator=Deduplicator(10, 0))
    stamped = Appender(leader.log, NEW_IDS).stamp(batch_of([b"1"], ids=[1]), now=1)
    follower.append_stamped(stamped)
    follower.append(batch_of([b"1", b"2"], ids=[1, 2]), now=2)
    assert numbers(poll(follower, PollingStrategy.first())) == [1, 2]


async def test_a_long_encrypted_poll_is_decrypted_in_shares_and_committed(
    disk: SimulatedDisk,
) -> None:
    partition = open_partition(disk, cipher=CIPHER)
    payloads = [b"%d" % number + bytes(2000) for number in range(1000)]
    partition.append(batch_of(payloads), now=1)
    polled = partition.poll(
        PollingStrategy.first(), 1000, kind=CONSUMER, consumer_id=1, auto_commit=True
    )
    assert isinstance(polled, asyncio.Future)
    found = await polled
    assert payloads_in(found.reading.materialise()) == payloads
    assert partition.load_offset(CONSUMER, 1) == 999
