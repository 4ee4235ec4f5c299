"""Every file operation fails in turn, in every way it can, and nothing acknowledged is lost."""

import asyncio
from pathlib import Path
from random import Random

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium
from tests.support.logs import numbered

from borzoi.model.errors import CannotSync, DiskFull, StorageFailure
from borzoi.records.batch import walk
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.settings import Acknowledge, PartitionSettings, SegmentSettings

DIRECTORY = Path("/data/0")
SYNCS = ("fdatasync", "fsync_directory")


class Scenario:
    """A short history of a log that records failures and continues."""

    def __init__(self, level: Acknowledge, fault: Fault | None, failing: int) -> None:
        self.level = level
        self.disk = SimulatedDisk()
        self.countdown = failing
        self.fault = fault
        self.failed_at: tuple[str, Path] | None = None
        self.medium = FaultyMedium(self.disk, self.choose)
        self.acknowledged: dict[int, bytes] = {}
        self.errors: list[StorageFailure] = []
        self.clock = 1000

    def choose(self, operation: str, path: Path) -> Fault | None:
        if self.fault in (Fault.SHORT_WRITE, Fault.TORN_WRITE) and operation != "write":
            return None
        self.countdown -= 1
        if self.countdown == -1:
            self.failed_at = operation, path
            return self.fault
        return None

    def open(self) -> SegmentedLog:
        """The log, asked for again where the disk was full: the owner of a partition does so."""
        try:
            return self._open()
        except DiskFull as failure:
            self.errors.append(failure)
            return self._open()

    def _open(self) -> SegmentedLog:
        return open_log(
            DIRECTORY,
            self.medium,
            segment=SegmentSettings(size=2048),
            partition=PartitionSettings(
                acknowledge=self.level,
                messages_required_to_save=6,
                size_of_messages_required_to_save=1500,
            ),
        )

    async def append(self, *sizes: int) -> None:
        """Several batches in one turn; what is acknowledged goes into the model."""
        waiting = []
        for size in sizes:
            self.clock += 1
            try:
                self.log.ensure_writable()
                base = self.log.next_offset
                batch = numbered(
                    [bytes([size % 251, number]) * size for number in range(3)],
                    base_offset=base,
                    timestamp=self.clock,
                )
                waiter = self.log.append(batch, timestamp=self.clock)
            except StorageFailure as failure:
                self.errors.append(failure)
                continue
            waiting.append((base, batch, waiter))
        for base, batch, waiter in waiting:
            try:
                if waiter is not None:
                    await waiter
            except StorageFailure as failure:
                self.errors.append(failure)
                continue
            for number, (start, end) in enumerate(batch.bounds()):
                self.acknowledged[base + number] = bytes(batch.messages[start:end])

    async def attempt(self, name: str, *arguments: object, **options: object) -> bool:
        try:
            waiter = getattr(self.log, name)(*arguments, **options)
            if isinstance(waiter, asyncio.Future):
                await waiter
        except StorageFailure as failure:
            self.errors.append(failure)
            return False
        return True

    def forget_outside(self) -> None:
        """What a cut or a deletion removed, completely or not at all, is no longer owed."""
        kept = range(self.log.first_offset, self.log.next_offset)
        self.acknowledged = {
            offset: message for offset, message in self.acknowledged.items() if offset in kept
        }

    async def live(self) -> None:
        self.log = self.open()
        await self.append(10, 20, 30)
        await self.append(200)
        await self.attempt("flush")
        await self.append(300, 100, 150)
        await self.append(100)
        await self.append(250, 40)
        self.check()
        await self.attempt("flush", sync=True)
        await self.attempt("delete_segments", 1)
        if self.log.segments():
            self.forget_outside()
        await self.append(90)
        self.check()
        await self.cut("truncate", self.log.next_offset - 2)
        await self.append(70, 80)
        self.check()
        await self.cut("purge")
        await self.append(60, 50)
        await self.append(500)
        self.check()
        await self.attempt("close")

    async def cut(self, name: str, *arguments: int) -> None:
        """All of it happens or nothing: the acknowledged messages before and after show it."""
        before = self.log.next_offset
        target = arguments[0] if arguments else 0
        edition = self.log.edition
        if await self.attempt(name, *arguments) or self.log._files.cutting.due:
            assert self.log.edition != edition, "messages that consumers hold may have gone"
        try:
            self.log.read(0, 0)  # finishes what was begun
        except StorageFailure as failure:
            self.errors.append(failure)
            self.acknowledged = {
                offset: message for offset, message in self.acknowledged.items() if offset < target
            }
            return
        assert self.log.next_offset in (before, target)
        self.forget_outside()

    def check(self) -> None:
        """The log gives back what it acknowledged, and the right bytes for all else it has."""
        if self.log.fenced is not None and not self.log.segments():
            return  # it could not be opened: looked at again when it can
        try:
            reading = self.log.read(0, 1 << 30)
            content = walk(memoryview(reading.materialise()))
        except StorageFailure as failure:
            self.errors.append(failure)
            return
        assert len(content) == reading.count
        found = {
            reading.first_offset + number: bytes(content.messages[start:end])
            for number, (start, end) in enumerate(content.bounds())
        }
        assert content.offsets().tolist() == sorted(found)
        assert self.acknowledged.items() <= found.items()


@pytest.mark.parametrize("level", Acknowledge)
@pytest.mark.parametrize("fault", Fault)
def test_every_operation_may_fail_once(level: Acknowledge, fault: Fault) -> None:
    failing = 0
    while run_with_fault(level, fault, failing):
        failing += 1
    assert failing > 20, "every operation had its turn"


def run_with_fault(level: Acknowledge, fault: Fault, failing: int) -> bool:
    """Whether there was an operation with this number."""
    scenario = Scenario(level, fault, failing)
    asyncio.run(outlive(scenario, failing))
    return scenario.failed_at is not None


async def outlive(scenario: Scenario, seed: int) -> None:
    await scenario.live()
    if scenario.failed_at is None:
        assert scenario.errors == []
        return
    operation, _ = scenario.failed_at
    # The cause is gone. What is fenced after a failed sync stays so until it is opened again.
    if any(isinstance(error, CannotSync) for error in scenario.errors):
        assert operation in SYNCS
    scenario.disk.kill()
    scenario.log = scenario.open()
    assert scenario.log.fenced is None, (scenario.failed_at, scenario.log.fenced)
    if scenario.level is Acknowledge.BUFFERED and scenario.errors:
        # A journal that could not be saved before the end is lost, as the level says.
        scenario.forget_outside()
    scenario.check()
    errors = len(scenario.errors)
    await scenario.append(33, 44)
    assert len(scenario.errors) == errors
    scenario.check()
    if scenario.level is Acknowledge.SYNCED:
        scenario.disk.power_cut(Random(seed))
        scenario.log = scenario.open()
        scenario.check()
