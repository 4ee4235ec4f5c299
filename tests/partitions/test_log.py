"""The conformance suite of logs: the segmented log passes, faulty ones do not."""

import asyncio
from asyncio import Future
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.support import log_conformance
from tests.support.disk import SimulatedDisk
from tests.support.log_conformance import CHECKS, Check
from tests.support.logs import batch_of, payloads_in

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.namespace import Namespace
from borzoi.partitions.log import Log
from borzoi.partitions.partition import Partition
from borzoi.records.batch import Batch
from borzoi.storage.kept import KeptMessages
from borzoi.storage.local import LocalMedium
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.media import Medium
from borzoi.storage.offsets import OffsetWriter, open_offsets
from borzoi.storage.reading import Reading
from borzoi.storage.segments import Removed
from borzoi.storage.settings import Acknowledge, PartitionSettings, SegmentSettings
from borzoi.storage.syncing import ThreadSyncer

A = TypeVar("A")


def segmented(directory: Path, medium: Medium, level: Acknowledge) -> SegmentedLog:
    return open_log(
        directory,
        medium,
        segment=SegmentSettings(size=512),
        partition=PartitionSettings(level, messages_required_to_save=1),
        syncer=ThreadSyncer(),
    )


@pytest.mark.parametrize("level", [Acknowledge.WRITTEN, Acknowledge.SYNCED])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_segmented_log_conforms(tmp_path: Path, check: Check, level: Acknowledge) -> None:
    await check(lambda: segmented(tmp_path / "partition", LocalMedium(), level))


class Wrapped:
    """A segmented log in most respects."""

    def __init__(self, log: SegmentedLog) -> None:
        self.log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)


def later(value: A) -> "Future[A]":
    loop = asyncio.get_running_loop()
    promised: Future[A] = loop.create_future()
    loop.call_soon(promised.set_result, value)
    return promised


class ReadsLater(Wrapped):
    """A log whose segments lie somewhere else."""

    def read(self, offset: int, count: int, size_max: int | None = None) -> "Future[Reading]":
        return later(self.log.read(offset, count, size_max=size_max))

    def offset_at(self, timestamp: int) -> "Future[int]":
        return later(self.log.offset_at(timestamp))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_log_may_answer_reads_later(tmp_path: Path, check: Check) -> None:
    await check(lambda: wrapped(ReadsLater, tmp_path))


def wrapped(kind: Callable[[SegmentedLog], Log], directory: Path) -> Log:
    return kind(segmented(directory / "partition", LocalMedium(), Acknowledge.WRITTEN))


class ForgetsTheBound(Wrapped):
    def read(self, offset: int, count: int, size_max: int | None = None) -> Reading:
        return self.log.read(offset, count)


class CutsTheFirstMessage(Wrapped):
    """Respects the bound of a reading even for its first message."""

    def read(self, offset: int, count: int, size_max: int | None = None) -> Reading:
        reading = self.log.read(offset, count, size_max=size_max)
        return Reading(offset) if size_max is not None and reading.size > size_max else reading


class FindsAnyMessageOfTheTime(Wrapped):
    def offset_at(self, timestamp: int) -> int:
        found = self.log.offset_at(timestamp)
        return min(found + 1, self.log.visible_offset)


class KeepsItsEdition(Wrapped):
    edition = 1


class KeepsOtherMessages(Wrapped):
    def kept(self, offset: int, end: int) -> KeptMessages | None:
        found = self.log.kept(offset, end)
        if found is not None:
            found.first_offset -= 1
        return found


class GoesOnInTheNextFile(Wrapped):
    def ends(self, offset: int, end: int, step: int) -> list[int]:
        segments = self.log._files.segments
        found = segments.holding(offset)
        first, stop = offset - found.start_offset, min(end, found.next_offset)
        last = stop - found.start_offset
        return [found.index.end_position(n) for n in range(first + step - 1, last, step)]


class TakesAnyOffset(Wrapped):
    def append(
        self, batch: Batch, *, timestamp: int | None = None, is_part: bool = False
    ) -> "Future[None] | None":
        if int(batch.offsets()[0]) != self.log.next_offset:
            return None
        return self.log.append(batch, timestamp=timestamp, is_part=is_part)


class DeletesOneTooMany(Wrapped):
    def delete_segments(self, count: int) -> Removed:
        return self.log.delete_segments(count + 1)


class KeepsItsGeneration(Wrapped):
    generation = 0


class KeepsItsOffsets(Wrapped):
    """The rule of the data plane before both had one: offsets go on after a purge."""

    def purge(self) -> None:
        self.log.truncate(self.log.next_offset)


class StaysOpen(Wrapped):
    def abandon(self, *, purged: bool = False) -> None:
        return


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (ForgetsTheBound, log_conformance.a_reading_is_bounded_by_its_bytes),
        (CutsTheFirstMessage, log_conformance.a_reading_is_bounded_by_its_bytes),
        (KeepsItsEdition, log_conformance.messages_in_memory_are_those_of_the_log),
        (KeepsOtherMessages, log_conformance.messages_in_memory_are_those_of_the_log),
        (GoesOnInTheNextFile, log_conformance.the_ends_of_messages_are_where_they_are_read),
        (FindsAnyMessageOfTheTime, log_conformance.messages_are_found_by_time),
        (TakesAnyOffset, log_conformance.a_batch_must_continue_the_log),
        (DeletesOneTooMany, log_conformance.the_oldest_segments_are_removed_and_offsets_stay),
        (KeepsItsGeneration, log_conformance.a_purged_log_begins_again_in_a_new_generation),
        (KeepsItsOffsets, log_conformance.a_purged_log_begins_again_in_a_new_generation),
        (StaysOpen, log_conformance.an_abandoned_log_answers_and_refuses),
    ],
    ids=lambda part: part.__name__,
)
async def test_a_faulty_log_is_found_out(
    tmp_path: Path, faulty: Callable[[SegmentedLog], Log], check: Check
) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await check(lambda: wrapped(faulty, tmp_path))


async def test_a_partition_polls_a_log_that_reads_later() -> None:
    disk, directory = SimulatedDisk(), Path("/d")
    partition = Partition(
        Namespace(0, 0, 0),
        ReadsLater(segmented(directory, disk, Acknowledge.WRITTEN)),
        open_offsets(directory, OffsetWriter(disk)),
        new_ids=lambda count: b"\1" * 16 * count,
    )
    partition.append(batch_of([b"a", b"b", b"c"]), now=5)
    for strategy, expected in (
        (PollingStrategy.first(), [b"a", b"b"]),
        (PollingStrategy.timestamp(5), [b"a", b"b"]),
        (PollingStrategy.next(), [b"c"]),
    ):
        polled = partition.poll(
            strategy,
            2,
            kind=ConsumerKind.GROUP,
            consumer_id=1,
            auto_commit=strategy.kind is not PollingStrategy.first().kind,
        )
        assert isinstance(polled, Future)
        assert payloads_in((await polled).reading.materialise()) == expected
    assert partition.is_settled(1)
