import asyncio
from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium
from tests.support.logs import ManualSyncer, batch_of, payloads_in
from tests.support.partitions import CIPHER, NEW_IDS

from borzoi.model.errors import StorageFailure
from borzoi.partitions.appending import Appender
from borzoi.partitions.deduplication import Deduplicator
from borzoi.records.batch import verify, walk
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.settings import Acknowledge, PartitionSettings

DIRECTORY = Path("/d")


def new_log(level: Acknowledge = Acknowledge.WRITTEN, **options: object) -> SegmentedLog:
    return open_log(
        DIRECTORY,
        SimulatedDisk(),
        partition=PartitionSettings(acknowledge=level),
        **options,  # type: ignore[arg-type]
    )


def stored(log: SegmentedLog) -> bytes:
    return log.read(0, 1000).materialise()


def test_messages_are_numbered_stamped_and_sealed() -> None:
    log = new_log()
    appender = Appender(log, NEW_IDS)
    appender.append(batch_of([b"a", b"b"]), now=100)
    appender.append(batch_of([b"c"] * 20, ids=range(7, 27)), now=200)
    batch = walk(memoryview(stored(log)))
    assert verify(batch) is None
    assert batch.offsets().tolist() == [*range(22)]
    assert batch.timestamps().tolist() == [100] * 2 + [200] * 20
    ids = [int.from_bytes(each, "little") for each in batch.ids().tolist()]
    assert all(ids[:2])
    assert ids[2:] == [*range(7, 27)]


def test_a_clock_that_is_set_back_does_not_set_back_the_log() -> None:
    log = new_log()
    appender = Appender(log, NEW_IDS)
    for now in (100, 50, 120):
        appender.append(batch_of([b"x"]), now=now)
    assert walk(memoryview(stored(log))).timestamps().tolist() == [100, 100, 120]


async def test_nor_does_it_within_one_turn() -> None:
    log = new_log()
    appender = Appender(log, NEW_IDS)
    waiting = [appender.append(batch_of([b"x"]), now=now) for now in (100, 120, 50)]
    await asyncio.gather(*(waiter for waiter in waiting if waiter))
    assert walk(memoryview(stored(log))).timestamps().tolist() == [100, 120, 120]


def test_a_duplicate_gets_no_offset() -> None:
    log = new_log()
    appender = Appender(log, NEW_IDS, Deduplicator(100, 0))
    appender.append(batch_of([b"a", b"b"], ids=[1, 2]), now=1)
    appender.append(batch_of([b"b", b"c", b"c"], ids=[2, 3, 3]), now=2)
    assert payloads_in(stored(log)) == [b"a", b"b", b"c"]
    assert walk(memoryview(stored(log))).offsets().tolist() == [0, 1, 2]


def test_a_batch_of_nothing_but_duplicates_succeeds_and_stores_nothing() -> None:
    log = new_log()
    appender = Appender(log, NEW_IDS, Deduplicator(100, 0))
    appender.append(batch_of([b"a"], ids=[1]), now=1)
    assert appender.append(batch_of([b"a", b"a"], ids=[1, 1]), now=1) is None
    assert log.next_offset == 1


async def test_a_duplicate_waits_until_its_first_copy_is_safe() -> None:
    syncer = ManualSyncer()
    log = new_log(Acknowledge.SYNCED, syncer=syncer)
    appender = Appender(log, NEW_IDS, Deduplicator(100, 0))
    first = appender.append(batch_of([b"a"], ids=[1]), now=1)
    await asyncio.sleep(0)
    again = appender.append(batch_of([b"a"], ids=[1]), now=1)
    syncer.run_all_for(first, again)


def faulty(level: Acknowledge) -> tuple[SegmentedLog, list[bool]]:
    full = [False]
    medium = FaultyMedium(
        SimulatedDisk(), lambda name, _: Fault.NO_SPACE if full[0] and name == "write" else None
    )
    return open_log(DIRECTORY, medium, partition=PartitionSettings(acknowledge=level)), full


def test_a_retry_of_what_was_refused_is_no_duplicate() -> None:
    log, full = faulty(Acknowledge.WRITTEN)
    appender = Appender(log, NEW_IDS, Deduplicator(100, 0))
    full[0] = True
    with pytest.raises(StorageFailure):
        appender.append(batch_of([b"a"], ids=[1]), now=1)
    full[0] = False
    appender.append(batch_of([b"a"], ids=[1]), now=1)
    assert payloads_in(stored(log)) == [b"a"]


async def test_nor_is_a_retry_of_what_failed_later() -> None:
    log, full = faulty(Acknowledge.SYNCED)
    appender = Appender(log, NEW_IDS, Deduplicator(100, 0))
    full[0] = True
    batch = batch_of([b"a"], ids=[1])
    waiter = appender.append(batch, now=1)
    assert waiter is not None
    with pytest.raises(StorageFailure):
        await waiter
    batch.messages[:] = bytes(len(batch.messages))
    full[0] = False
    await asyncio.sleep(0)
    again = appender.append(batch_of([b"a"], ids=[1]), now=1)
    assert again is not None
    await again
    assert payloads_in(stored(log)) == [b"a"]


def test_bodies_are_encrypted_before_they_are_sealed() -> None:
    log = new_log()
    Appender(log, NEW_IDS, cipher=CIPHER).append(batch_of([b"secret"] * 3), now=1)
    found = stored(log)
    assert b"secret" not in found
    assert verify(walk(memoryview(found))) is None
    bodies = payloads_in(found)
    assert len(set(bodies)) == 3, "a nonce for each"
    assert [CIPHER.decrypt(body) for body in bodies] == [b"secret"] * 3


def test_a_replica_appends_what_the_leader_has_stamped_byte_for_byte() -> None:
    leader, follower = new_log(), new_log()
    appender = Appender(leader, NEW_IDS, cipher=CIPHER)
    for number in range(3):
        stamped = appender.stamp(batch_of([b"a", b"b"]), now=number)
        for log in (leader, follower):
            assert log.append(stamped.batch, timestamp=stamped.timestamp) is None
    assert stored(leader) == stored(follower) != b""
    assert follower.segments() == leader.segments()
    assert follower.last_timestamp == 2


def test_a_batch_that_does_not_continue_the_log_is_not_stored() -> None:
    log = new_log()
    appender = Appender(log, NEW_IDS)
    late = appender.stamp(batch_of([b"late"]), now=1)
    appender.append(batch_of([b"first"]), now=1)
    with pytest.raises(AssertionError):
        log.append(late.batch, timestamp=late.timestamp)
    assert payloads_in(stored(log)) == [b"first"]
