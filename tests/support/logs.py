"""Batches to append, and syncs that wait to be told."""

from collections import deque
from collections.abc import Sequence

from borzoi.model.limits import HEADER_BYTES
from borzoi.records.batch import Batch, stamp, walk
from borzoi.records.header import HEADER
from borzoi.storage.media import File
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


def payloads_in(messages: bytes | memoryview) -> list[bytes]:
    """The payloads of stored messages without user headers."""
    batch = walk(memoryview(messages))
    return [bytes(batch.messages[start + HEADER_BYTES : end]) for start, end in batch.bounds()]


class ManualSyncer:
    """Keeps jobs until the test lets them run, so a crash can come before, between and after."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[Job, Done]] = deque()

    def submit(self, job: Job, done: Done, files: Sequence[File] = ()) -> Job:
        once = Once(job)
        self.jobs.append((once.run, done))
        return once.run

    def run_next(self) -> bool:
        """Run the oldest job, and tell; False when there is none."""
        if not self.jobs:
            return False
        job, done = self.jobs.popleft()
        done(outcome(job))
        return True

    def run_all(self) -> None:
        while self.run_next():
            pass
