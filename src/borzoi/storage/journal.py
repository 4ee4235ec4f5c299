"""Batches that are numbered but not yet written.

Under `buffered` they are acknowledged and readable here; under the other levels they wait here for
the end of the loop turn, and readers do not see them.
"""

from typing import NamedTuple

import numpy as np

from borzoi.records.batch import Batch
from borzoi.storage.reading import Reading
from borzoi.storage.settings import PartitionSettings


class Pending(NamedTuple):
    """A batch for the open segment, with its future index entries."""

    batch: Batch
    entries: bytes
    first_offset: int
    first_timestamp: int
    last_timestamp: int


class Journal:
    """Pending batches in the order of their offsets."""

    __slots__ = ("count", "pending", "size")

    def __init__(self) -> None:
        self.pending: list[Pending] = []
        self.count = 0
        self.size = 0

    def push(self, pending: Pending) -> None:
        batch = pending.batch
        if self.pending:
            first = self.pending[0].first_offset
            assert pending.first_offset == first + self.count, "batches leave no gap"
        self.pending.append(pending)
        self.count += batch.count
        self.size += batch.size

    def clear(self) -> None:
        self.pending = []
        self.count = 0
        self.size = 0

    def must_be_saved_with(self, batch: Batch, settings: PartitionSettings) -> bool:
        """Whether this batch makes the journal reach one of its thresholds."""
        return (
            self.count + len(batch) >= settings.messages_required_to_save
            or self.size + batch.size >= settings.size_of_messages_required_to_save
        )

    def first_at_or_after(self, timestamp: int) -> int | None:
        """The offset of the first message that is not older."""
        for pending in self.pending:
            if pending.last_timestamp >= timestamp:
                if pending.first_timestamp >= timestamp:
                    return pending.first_offset
                older = int((pending.batch.timestamps() < timestamp).sum())
                return pending.first_offset + older
        return None

    def read(self, reading: Reading, offset: int, end: int, size_max: int | None) -> None:
        """Add the messages offset..end to a reading, as far as `size_max` allows."""
        for batch, _, first_offset, _, _ in self.pending:
            first = max(offset - first_offset, 0)
            last = min(end - first_offset, len(batch))
            if first >= last:
                continue
            ends = batch.ends
            start = int(ends[first - 1]) if first else 0
            if size_max is not None and int(ends[last - 1]) - start > size_max - reading.size:
                end_max = start + size_max - reading.size
                last = int(np.searchsorted(ends[:last], max(end_max, 0), side="right"))
                last = max(last, first if reading.count else first + 1)
                end = offset  # nothing after this one
            if first < last:
                reading.tail.append(batch.messages[start : int(ends[last - 1])])
                reading.count += last - first
