"""Sends in pieces: in order, together, and either whole or reported as failed."""

import asyncio
from asyncio import Future
from pathlib import Path
from typing import Any

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium
from tests.support.logs import ManualSyncer, batch_of, payloads_in
from tests.support.partitions import CIPHER, open_partition

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import StorageFailure
from borzoi.partitions import appending, turns
from borzoi.partitions.deduplication import Deduplicator
from borzoi.partitions.partition import Partition
from borzoi.records.batch import Batch, verify, walk
from borzoi.storage.reading import Reading
from borzoi.storage.settings import Acknowledge

PIECE = 10


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "PIECE_MESSAGES_MAX", PIECE)
    # One share in each turn of the loop.
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def batch(first: int, last: int) -> Batch:
    return batch_of(numbers(first, last))


def content(partition: Partition) -> bytes:
    reading = partition.log.read(0, 10_000)
    assert isinstance(reading, Reading)
    return reading.materialise()


def stored(partition: Partition) -> list[bytes]:
    found = content(partition)
    assert verify(walk(memoryview(found))) is None
    assert walk(memoryview(found)).offsets().tolist() == [*range(len(payloads_in(found)))]
    return payloads_in(found)


async def finished(*appends: "Future[None] | None") -> None:
    async with asyncio.timeout(60):
        for one in appends:
            if one is not None:
                await one


async def test_a_long_send_is_stored_piece_by_piece_and_others_have_turns() -> None:
    partition = open_partition(SimulatedDisk())
    waiting = partition.append(batch(0, 95), now=5)
    assert isinstance(waiting, Future)
    seen = []
    while not waiting.done():
        seen.append(partition.log.messages_count)
        await asyncio.sleep(0)
    assert stored(partition) == numbers(0, 95)
    assert seen == [*range(0, 91, PIECE), 95]
    assert walk(memoryview(content(partition))).timestamps().max() == 5


async def test_the_messages_of_a_send_stay_together() -> None:
    partition = open_partition(SimulatedDisk())
    waiting = [partition.append(batch(start, start + 25), now=1) for start in (0, 25)]
    waiting.append(partition.append(batch(50, 51), now=1))
    assert all(isinstance(one, Future) for one in waiting)
    await finished(*waiting)
    assert stored(partition) == numbers(0, 51)
    assert partition.append(batch(51, 52), now=1) is None


def starts(partition: Partition) -> list[int]:
    return [one.start_offset for one in partition.log.segments()]


@pytest.mark.parametrize("required", [1, 100, 300])
@pytest.mark.parametrize("level", list(Acknowledge))
async def test_segments_end_where_they_would_if_sends_were_stored_at_once(
    level: Acknowledge, required: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is full by what was saved before a send, and ends behind it."""

    async def stored_by(partition: Partition) -> list[int]:
        first = 0
        for count in (95, 3, 200, 7, 40, 11, 60, 150, 1, 1, 500):
            await finished(partition.append(batch(first, first + count), now=1))
            first += count
        return starts(partition)

    in_pieces = await stored_by(open_partition(SimulatedDisk(), level=level, required=required))
    monkeypatch.setattr(appending, "PIECE_MESSAGES_MAX", 10_000)
    at_once = await stored_by(open_partition(SimulatedDisk(), level=level, required=required))
    assert in_pieces == at_once
    assert len(at_once) > 1


async def test_a_send_whose_last_piece_brings_nothing_new_ends_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(appending, "PIECE_MESSAGES_MAX", 16 * PIECE)
    partition = open_partition(SimulatedDisk(), deduplicator=Deduplicator(1000, 10**9))
    for number in (1, 2):
        ids = [*range(40 * number, 40 * number + 20)] * 2
        waiting = partition.append(batch_of([b"x"] * 40, ids=ids), now=1)
        assert isinstance(waiting, Future)
        await finished(waiting)
    assert starts(partition) == [0, 40]


async def test_pieces_are_bounded_by_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "PIECE_BYTES_MAX", 300)
    partition = open_partition(SimulatedDisk())
    payloads = [b"a" * size for size in (10, 10, 500, 10, 150, 150, 1)]
    pieces = list(partition._appender.pieces(batch_of(payloads)))
    assert [[len(one) for one in payloads_in(piece.messages)] for piece in pieces] == [
        [10, 10],
        [500],
        [10, 150],
        [150, 1],
    ]


@pytest.mark.parametrize("level", list(Acknowledge))
async def test_every_level_is_acknowledged_when_all_of_it_is(level: Acknowledge) -> None:
    syncer = ManualSyncer()
    partition = open_partition(SimulatedDisk(), level=level, syncer=syncer)
    waiting = partition.append(batch(0, 95), now=5)
    assert isinstance(waiting, Future)
    for _ in range(100):
        await asyncio.sleep(0)
    assert waiting.done() is (level is not Acknowledge.SYNCED)
    while not waiting.done():
        syncer.run_all()
        await asyncio.sleep(0)
    assert stored(partition) == numbers(0, 95)


@pytest.mark.parametrize("kind", ["encrypted", "deduplicated"])
async def test_what_is_looked_at_one_by_one_has_smaller_pieces(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "PIECE_MESSAGES_MAX", 16 * PIECE)
    options = (
        {"cipher": CIPHER} if kind == "encrypted" else {"deduplicator": Deduplicator(1000, 10**9)}
    )
    partition = open_partition(SimulatedDisk(), **options)
    ids = [*range(1, 51), *range(26, 51), *range(51, 76)]
    sent = batch_of([b"%d" % number for number in ids], ids=ids)
    assert [len(piece) for piece in partition._appender.pieces(sent)] == [PIECE] * 10
    await finished(partition.append(sent, now=1))
    assert partition.log.messages_count == (100 if kind == "encrypted" else 75)


async def test_a_failure_is_told_and_those_behind_go_on() -> None:
    full: set[str] = set()

    def choose(operation: str, path: Path) -> Fault | None:
        if operation not in full or path.suffix != ".log":
            return None
        full.clear()
        return Fault.NO_SPACE

    medium = FaultyMedium(SimulatedDisk(), choose)
    partition = open_partition(medium)
    first = partition.append(batch(0, 50), now=1)
    second = partition.append(batch(50, 80), now=1)
    assert isinstance(first, Future)
    assert isinstance(second, Future)
    while partition.log.messages_count < 20:
        await asyncio.sleep(0)
    full.add("write")
    await finished(second)
    assert isinstance(first.exception(), StorageFailure)
    assert stored(partition) == [*numbers(0, 20), *numbers(50, 80)]


async def test_a_sync_that_fails_is_told() -> None:
    failing: set[str] = set()
    syncer = ManualSyncer()
    medium = FaultyMedium(
        SimulatedDisk(), lambda operation, _: Fault.IO_ERROR if operation in failing else None
    )
    partition = open_partition(medium, Acknowledge.SYNCED, syncer=syncer)
    waiting = partition.append(batch(0, 50), now=1)
    assert isinstance(waiting, Future)
    failing.add("fdatasync")
    while not waiting.done():
        syncer.run_all()
        await asyncio.sleep(0)
    assert isinstance(waiting.exception(), StorageFailure)


@pytest.mark.parametrize("purged", [False, True])
async def test_a_partition_that_goes_away_ends_what_waits(purged: bool) -> None:
    partition = open_partition(SimulatedDisk())
    waiting = [partition.append(batch(0, 50), now=1), partition.append(batch(50, 80), now=1)]
    await asyncio.sleep(0)
    partition.abandon(purged=purged)
    for one in waiting:
        assert isinstance(one, Future)
        assert (one.exception() is None) is purged
    for _ in range(5):
        await asyncio.sleep(0)


async def test_consumers_that_wait_hear_of_the_first_piece() -> None:
    partition = open_partition(SimulatedDisk())
    arrival = partition.arrivals.wait(60)
    waiting = partition.append(batch(0, 95), now=1)
    await arrival
    assert partition.log.messages_count
    await finished(waiting)


@pytest.mark.parametrize("level", list(Acknowledge))
@pytest.mark.parametrize("kind", ["plain", "encrypted", "deduplicated"])
async def test_a_single_message_of_any_size_is_stored(
    kind: str, level: Acknowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "PIECE_MESSAGES_MAX", 16 * PIECE)
    monkeypatch.setattr(appending, "PIECE_BYTES_MAX", 1000)
    monkeypatch.setattr("borzoi.partitions.partition.PIECE_BYTES_MAX", 1000)
    monkeypatch.setattr("borzoi.storage.log_files.AHEAD_BYTES", 1000)
    options: dict[str, dict[str, Any]] = {
        "plain": {},
        "encrypted": {"cipher": CIPHER},
        "deduplicated": {"deduplicator": Deduplicator(1000, 10**9)},
    }
    partition = open_partition(SimulatedDisk(), level=level, **options[kind])
    payloads = [b"first", b"x" * 10_000, b"behind", b"y" * 5000]
    sends = [partition.append(batch_of([one]), now=1) for one in payloads]
    assert isinstance(sends[1], Future)
    await finished(*sends)
    polled = partition.poll(PollingStrategy.first(), 10, kind=ConsumerKind.CONSUMER, consumer_id=1)
    found = await polled if isinstance(polled, Future) else polled
    assert payloads_in(found.reading.materialise()) == payloads
    partition.close()
