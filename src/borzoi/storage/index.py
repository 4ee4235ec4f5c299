"""The dense index of one segment: 16 bytes for each message, addressed by its number.

    bytes    field        type
    0..4     offset       u32, relative to the segment's first; entry i holds i
    4..8     position     u32, where the message ENDS in the log file
    8..16    timestamp    u64, µs, never less than the entry before

The index may lag behind its log, because the log alone can rebuild it: entries gather in memory
(the window) and are saved many at a time. Older entries are read from the file. Building
entries can wait until they are read, or until the loop is idle (`extend_later`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from borzoi.model.limits import HEADER_BYTES, INDEX_ENTRY_BYTES
from borzoi.records.batch import Batch
from borzoi.records.validation import INDEX_DTYPE, INDEX_ENTRY
from borzoi.storage.media import File, read_exactly, write_all

#: How many of a segment's latest entries stay in memory when its index is cached (128 KiB).
WINDOW_ENTRIES: Final = 8192
#: Entries read at once at the end of a search in the file (4 KiB).
BLOCK_ENTRIES: Final = 256

_unpack_entry = INDEX_ENTRY.unpack_from


class SegmentIndex:
    """Entries 0..saved are in the file, window_start..count in memory; the two overlap or meet.

    The last entries may not be built yet; `gather` builds them before the window is read.
    """

    __slots__ = ("_deferred", "_last_end", "_window", "_window_start", "count", "file", "saved")

    def __init__(self, file: File, *, saved: int = 0) -> None:
        self.file = file
        self.count = saved
        self.saved = saved
        self._window = bytearray()
        self._window_start = saved
        self._deferred: list[Callable[[], bytes]] = []
        #: The message whose end was read from the file last, and that end. A consumer that reads
        #: the log from end to end needs it again at once, as the start of the next messages.
        self._last_end = (-1, 0)

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def unsaved(self) -> int:
        return self.count - self.saved

    @property
    def cached(self) -> int:
        """How many entries are held in memory."""
        return self.count - self._window_start

    def extend(self, entries: bytes) -> None:
        """Add the entries of messages that are in the log file now."""
        if self._deferred:
            self.gather()
        self._window += entries
        self.count += len(entries) // INDEX_ENTRY_BYTES

    def extend_later(self, count: int, make: Callable[[], bytes]) -> None:
        """The same for `count` messages whose entries `make` builds on demand."""
        self._deferred.append(make)
        self.count += count

    def gather(self) -> None:
        """Build the deferred entries."""
        deferred, self._deferred = self._deferred, []
        for make in deferred:
            self._window += make()

    def save(self, *, up_to: int | None = None, keep: int = 0) -> None:
        """Write the entries below number `up_to`, and keep at most `keep` saved ones in memory."""
        if self._deferred:
            self.gather()
        end = self.count if up_to is None else up_to
        if end > self.saved:
            first = (self.saved - self._window_start) * INDEX_ENTRY_BYTES
            last = (end - self._window_start) * INDEX_ENTRY_BYTES
            position = self.saved * INDEX_ENTRY_BYTES
            assert 0 <= first < last <= len(self._window), "entries are saved once and in order"
            with memoryview(self._window) as window, window[first:last] as unsaved:
                write_all(self.file, [unsaved], position)
            self.saved = end
        # Trimming moves the kept entries, so wait until there is as much to drop as to keep.
        surplus = self.saved - self._window_start - keep
        if surplus > keep:
            del self._window[: surplus * INDEX_ENTRY_BYTES]
            self._window_start += surplus

    def end_position(self, number: int) -> int:
        """Return where message `number` ends in the log; 0 for -1, the start of the first."""
        at = number - self._window_start
        if at >= 0:
            if self._deferred:
                self.gather()
            end: int = _unpack_entry(self._window, at * INDEX_ENTRY_BYTES)[1]
            return end
        if number < 0:
            return 0
        known, position = self._last_end
        if number != known:
            position = self._stored(number)[1]
            self._last_end = (number, position)
        return position

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Where message `first` begins and message `last` ends in the log."""
        at = (first - self._window_start) * INDEX_ENTRY_BYTES
        if at > 0:
            if self._deferred:
                self.gather()
            window = self._window
            return (
                _unpack_entry(window, at - INDEX_ENTRY_BYTES)[1],
                _unpack_entry(window, at + (last - first) * INDEX_ENTRY_BYTES)[1],
            )
        if not 0 < first <= last < self.saved or last - first >= BLOCK_ENTRIES:
            return self.end_position(first - 1) if first else 0, self.end_position(last)
        known, start = self._last_end
        if known == first - 1:
            return start, self.end_position(last)
        # Both at once: a consumer that is not the only one far behind the end.
        size = (last - first + 2) * INDEX_ENTRY_BYTES
        entries = read_exactly(self.file, size, (first - 1) * INDEX_ENTRY_BYTES)
        start, stop = _unpack_entry(entries)[1], _unpack_entry(entries, size - INDEX_ENTRY_BYTES)[1]
        self._last_end = (last, stop)
        return start, stop

    def ends(self, first: int, last: int) -> list[int]:
        """Where each of the messages first..last ends in the log."""
        at, size = first - self._window_start, (last - first + 1) * INDEX_ENTRY_BYTES
        if at >= 0:
            if self._deferred:
                self.gather()
            start = at * INDEX_ENTRY_BYTES
            entries = bytes(self._window[start : start + size])
        elif last < self.saved:
            entries = read_exactly(self.file, size, first * INDEX_ENTRY_BYTES)
        else:
            return [self.end_position(number) for number in range(first, last + 1)]
        return [end for _, end, _ in INDEX_ENTRY.iter_unpack(entries)]

    def first_at_or_after(self, timestamp: int, *, count: int) -> int:
        """The first of the first `count` messages that is not older; `count` when there is none.

        All messages of a batch share one timestamp, so "any equal entry" would not do.
        """
        start = self._window_start
        if start < count and (start == 0 or self._stored(start - 1)[2] < timestamp):
            return self._first_in_window(timestamp, count)
        low, high = 0, min(start, count)
        file = self.file
        while high - low > BLOCK_ENTRIES:
            middle = (low + high) // 2
            if _stored_in(file, middle)[2] < timestamp:
                low = middle + 1
            else:
                high = middle
        stored = read_exactly(file, (high - low) * INDEX_ENTRY_BYTES, low * INDEX_ENTRY_BYTES)
        block = np.frombuffer(stored, INDEX_DTYPE)
        return low + int(np.searchsorted(block["timestamp"], timestamp))

    def _first_in_window(self, timestamp: int, count: int) -> int:
        """The same where it can only be in memory; `bisect` would call a function at each step."""
        if self._deferred:
            self.gather()
        window, start = self._window, self._window_start
        low, high = start, count
        while low < high:
            middle = (low + high) // 2
            at = (middle - start) * INDEX_ENTRY_BYTES
            if _unpack_entry(window, at)[2] < timestamp:
                low = middle + 1
            else:
                high = middle
        return low

    def last_ending_by(self, position: int, *, first: int, last: int) -> int:
        """The last message of first..last that ends at or before `position`; first - 1 if none."""
        low, high = first, last + 1
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[1] <= position:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def truncate(self, count: int) -> None:
        """Drop the entries from number `count` on, in memory and in the file."""
        if self._deferred:
            self.gather()
        self.file.truncate(min(count, self.saved) * INDEX_ENTRY_BYTES)
        self.saved = min(self.saved, count)
        self.count = count
        kept = max(count - self._window_start, 0)
        del self._window[kept * INDEX_ENTRY_BYTES :]
        self._window_start = min(self._window_start, count)
        self._last_end = (-1, 0)

    def sync(self) -> None:
        self.file.fdatasync()

    def _entry(self, number: int) -> tuple[int, int, int]:
        at = number - self._window_start
        if at >= 0:
            if self._deferred:
                self.gather()
            return _unpack_entry(self._window, at * INDEX_ENTRY_BYTES)
        return self._stored(number)

    def _stored(self, number: int) -> tuple[int, int, int]:
        return _stored_in(self.file, number)


def _stored_in(file: File, number: int) -> tuple[int, int, int]:
    return INDEX_ENTRY.unpack(read_exactly(file, INDEX_ENTRY_BYTES, number * INDEX_ENTRY_BYTES))


def entries_of(batch: Batch, *, relative_offset: int, position: int) -> bytes:
    """The entries of messages that carry their timestamps: for what is scanned or replicated."""
    entries = np.empty(len(batch), INDEX_DTYPE)
    entries["offset"] = np.arange(relative_offset, relative_offset + len(batch))
    entries["position"] = batch.ends + np.uint32(position)
    entries["timestamp"] = batch.timestamps()
    return entries.tobytes()


def valid_prefix(entries: NDArray[np.void], *, first: int, position: int, limit: int) -> int:
    """Return how many of these entries, numbered from `first`, are plausible.

    They must be numbered without a gap, each must end at least one header after the previous one
    (the first of them after `position`), and none may end after `limit`, the size of the log.
    """
    ends = entries["position"].astype(np.int64)
    starts = np.empty_like(ends)
    starts[:1] = position
    starts[1:] = ends[:-1]
    numbers = np.arange(first, first + len(entries))
    wrong = (entries["offset"] != numbers) | (ends - starts < HEADER_BYTES) | (ends > limit)
    return int(wrong.argmax()) if wrong.any() else len(entries)
