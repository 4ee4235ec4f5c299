"""Logs, batches to append to them, and syncs that run on demand."""

from asyncio import Future
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from tests.support.disk import SimulatedDisk
from tests.support.faults import FaultyMedium

from borzoi.model.limits import HEADER_BYTES
from borzoi.records.batch import Batch, stamp, walk
from borzoi.records.header import HEADER
from borzoi.storage.commits import Waiter
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.media import File
from borzoi.storage.settings import Acknowledge, PartitionSettings, SegmentSettings
from borzoi.storage.syncing import Done, Job, Once, outcome


def batch_of(payloads: Sequence[bytes], *, ids: Sequence[int] | None = None) -> Batch:
    """A batch as a client sends it: nothing numbered yet."""
    messages = bytearray()
    for number, payload in enumerate(payloads):
        message_id = (ids[number] if ids else 0).to_bytes(16, "little")
        messages += HEADER.pack(0, message_id, 0, 0, 0, 0, len(payload), 0) + payload
    return walk(memoryview(messages))


def numbered(payloads: Sequence[bytes], *, base_offset: int, timestamp: int) -> Batch:
    """A batch as a log takes it. Its ids follow its offsets, so equal calls give equal bytes."""
    first = base_offset + 1
    batch = batch_of(payloads, ids=range(first, first + len(payloads)))
    stamp(batch, base_offset=base_offset, timestamp=timestamp, new_ids=bytes)
    return batch


def append(log: SegmentedLog, *payloads: bytes, timestamp: int = 1) -> Waiter | None:
    """Append a batch that follows the last message."""
    batch = numbered(payloads, base_offset=log.next_offset, timestamp=timestamp)
    return log.append(batch, timestamp=timestamp)


def payloads_in(messages: bytes | memoryview) -> list[bytes]:
    """The payloads of stored messages without user headers."""
    batch = walk(memoryview(messages))
    return [bytes(batch.messages[start + HEADER_BYTES : end]) for start, end in batch.bounds()]


def new_log(
    level: Acknowledge = Acknowledge.WRITTEN,
    *,
    directory: Path = Path("/d"),
    segment_bytes: int = 1 << 20,
    required: int = 1024,
    **options: object,
) -> tuple[SegmentedLog, FaultyMedium]:
    """An empty log on a simulated disk, and the medium that records what is done to it.

    With one message `required` to save, a segment ends behind the append that found it full.
    """
    medium = FaultyMedium(SimulatedDisk(), lambda *_: None)
    log = open_log(
        directory,
        medium,
        segment=SegmentSettings(size=segment_bytes),
        partition=PartitionSettings(level, messages_required_to_save=required),
        **options,  # type: ignore[arg-type]
    )
    medium.operations.clear()
    return log, medium


def stored_payloads(log: SegmentedLog) -> list[bytes]:
    """The payloads of up to 1000 messages from the beginning of a log."""
    return payloads_in(log.read(0, 1000).materialise())


class ManualSyncer:
    """Keeps jobs until the test lets them run, so a crash can come before, between and after."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[Job, Done]] = deque()

    def submit(self, job: Job, done: Done, files: Sequence[File] = ()) -> Job:
        once = Once(job)
        self.jobs.append((once.run, done))
        return once.run

    def run_next(self) -> bool:
        """Run the oldest job and report it; False when there is none."""
        if not self.jobs:
            return False
        job, done = self.jobs.popleft()
        done(outcome(job))
        return True

    def run_all(self) -> None:
        while self.run_next():
            pass

    def run_all_for(self, *waiters: "Future[None] | None") -> None:
        """The same; all of these have waited for it and are answered by it."""
        assert not any(waiter is None or waiter.done() for waiter in waiters)
        self.run_all()
        assert all(waiter is not None and waiter.done() for waiter in waiters)
