"""Fills a deduplicator from the log after a restart."""

from typing import Final

from borzoi.partitions.deduplication import Deduplicator
from borzoi.records.batch import walk
from borzoi.storage.log import SegmentedLog

#: The tail of the log is read in pieces of this size, whatever its messages weigh.
PIECE_MESSAGES: Final = 10_000
PIECE_BYTES: Final = 8 << 20


def warm(deduplicator: Deduplicator, log: SegmentedLog, *, now: int) -> None:
    """Read the ids of the newest messages, as many and as old as the deduplicator keeps."""
    if log.fenced is not None:
        return
    end = log.visible_offset
    start = log.first_offset
    if deduplicator.expiry_us:
        start = log.offset_at(max(0, now - deduplicator.expiry_us))
    if deduplicator.max_entries:
        start = max(start, end - deduplicator.max_entries)
    while start < end:
        reading = log.read(start, PIECE_MESSAGES, size_max=PIECE_BYTES)
        batch = walk(memoryview(reading.materialise()))
        deduplicator.warm(batch.ids(), batch.timestamps(), now)
        start += reading.count
