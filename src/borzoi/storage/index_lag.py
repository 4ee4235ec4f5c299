"""How far the indexes of a log lag behind it, and how they catch up.

A log alone can rebuild its index, so entries are saved many at a time. Under `synced` they follow
the syncs instead: an entry in the file says that its message is on the disk.
"""

import logging
from typing import Final

from borzoi.model.errors import StorageFailure
from borzoi.storage.index import WINDOW_ENTRIES
from borzoi.storage.segment import Segment
from borzoi.storage.segments import Segments
from borzoi.storage.settings import CacheIndexes

logger = logging.getLogger(__name__)

#: How far an index may lag: what recovery reads after a crash, and what it costs in memory.
LAG_ENTRIES: Final = 4096
LAG_BYTES: Final = 16 << 20


class IndexLag:
    """Decides when index entries are saved and how many of the saved ones stay in memory."""

    __slots__ = ("_follows_syncs", "_indexed_size", "_keep_sealed", "_sealed", "window")

    def __init__(self, cache: CacheIndexes, *, follows_syncs: bool) -> None:
        self._follows_syncs = follows_syncs
        #: How many saved entries of the open segment stay in memory.
        self.window = 0 if cache is CacheIndexes.NONE else WINDOW_ENTRIES
        self._keep_sealed = self.window if cache is CacheIndexes.ALL else 0
        #: How long the open log was when its entries were saved last.
        self._indexed_size = 0
        #: Segments that were sealed before their last sync.
        self._sealed: list[Segment] = []

    def begin(self, size: int) -> None:
        """Start with another open segment whose entries are all saved."""
        self._indexed_size = size

    def reset(self) -> None:
        """Drop everything."""
        self._indexed_size = 0
        self._sealed = []

    def wrote(self, tail: Segment) -> None:
        """Note messages that were added to the open segment."""
        if not self._follows_syncs and (
            tail.index.count - tail.index.saved >= LAG_ENTRIES
            or tail.size - self._indexed_size >= LAG_BYTES
        ):
            self._save(tail, tail.index.count)

    def flush(self, tail: Segment, synced: int) -> None:
        """Save all entries that may be saved; `synced` messages of the segment are durable."""
        # Nothing new since the last flush: an idle partition keeps nothing in memory.
        keep = self.window if tail.index.unsaved else 0
        if self._follows_syncs:
            tail.index.save(up_to=synced, keep=keep)
            return
        tail.index.save(keep=keep)
        self._indexed_size = tail.size

    def save(self, tail: Segment, synced: int) -> None:
        """The same, but failures are harmless and the latest entries stay in memory."""
        end = synced if self._follows_syncs else tail.index.count
        if end > tail.index.saved:
            self._save(tail, end)

    def before_seal(self, full: Segment) -> None:
        if not self._follows_syncs:
            full.index.save(keep=self.window)

    def sealed(self, full: Segment) -> None:
        """Another segment is open now."""
        if self._follows_syncs:
            # It is saved when the sync of its log has proven it.
            self._sealed.append(full)
        elif not self._keep_sealed:
            full.index.save(keep=0)

    def synced(self, segments: Segments, offset: int) -> None:
        """The messages below `offset` are on the disk."""
        if not self._follows_syncs:
            return
        tail = segments.tail
        entries = max(offset - tail.start_offset, 0)
        if entries - tail.index.saved >= LAG_ENTRIES:
            self._save(tail, entries)
        while self._sealed and self._sealed[0].next_offset <= offset:
            if not self._complete(self._sealed[0]):
                return
            self._sealed.pop(0)

    def _save(self, tail: Segment, up_to: int) -> None:
        """Log a failure: it is retried, and the log could rebuild the index."""
        try:
            tail.index.save(up_to=up_to, keep=self.window)
            self._indexed_size = tail.size
        except StorageFailure as failure:
            logger.warning("the index of %s lags: %s", tail.log_path, failure)

    def _complete(self, sealed: Segment) -> bool:
        try:
            sealed.index.save(keep=self._keep_sealed)
        except StorageFailure as failure:
            logger.warning("the index of %s lags: %s", sealed.log_path, failure)
            return False
        return True
