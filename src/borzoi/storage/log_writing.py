"""The writing half of a log: what is written when, and when readers see it.

A batch is numbered by its owner (`next_offset`), appended here, and answered at the level of
`PartitionSettings.acknowledge`; see `append`. `storage/log_files.py` owns the files.
"""

import asyncio
import itertools
import logging
from collections.abc import Iterator
from struct import Struct
from typing import Final

from borzoi.model.errors import StorageFailure
from borzoi.model.limits import SEGMENT_BYTES_MAX, U32_MAX
from borzoi.records.batch import Batch
from borzoi.records.header import OFFSET_AT
from borzoi.storage.commits import Waiter, answer, running_loop
from borzoi.storage.durability import SyncJob
from borzoi.storage.fullness import Fullness
from borzoi.storage.journal import Journal, Pending
from borzoi.storage.log_files import LogFiles
from borzoi.storage.settings import Acknowledge, PartitionSettings

logger = logging.getLogger(__name__)

#: By names of their own, because looking up a member of an enumeration takes a tenth of a µs.
BUFFERED: Final = Acknowledge.BUFFERED
WRITTEN: Final = Acknowledge.WRITTEN
SYNCED: Final = Acknowledge.SYNCED

_first_offset: Final = Struct("<Q").unpack_from

#: The editions of all logs of this process.
EDITIONS: Final = itertools.count(1)

#: The index entries of a batch of this size are made when the turn ends, after the answer: the
#: sender prepares its next batch then.
LARGE_BYTES: Final = 64 << 10


class LogWriter:
    """Appends messages to the open segment, through the journal where the level asks for it.

    Invariants: written messages are in the open file and in its index; journal messages follow
    them; `visible_offset` never goes back but in a cut.
    """

    __slots__ = (
        "_files",
        "_fullness",
        "_journal",
        "_level",
        "_seal_is_due",
        "_settings",
        "_turn_is_open",
        "_waiter",
        "directory",
        "edition",
        "last_timestamp",
        "medium",
        "next_offset",
        "visible_offset",
    )

    def __init__(self, files: LogFiles, partition: PartitionSettings) -> None:
        self.directory = files.directory
        self.medium = files.medium
        self._files = files
        self._settings = partition
        self._level = partition.acknowledge
        self._journal = Journal()
        #: The future of all batches in the journal: they are written together, so they succeed or
        #: fail together.
        self._waiter: Waiter | None = None
        self._turn_is_open = False
        self._fullness = Fullness(files.segment_bytes, partition)
        #: Whether the open segment was full and no new one could be created.
        self._seal_is_due = False
        #: Another number, which no other log has, whenever messages may have gone.
        self.edition = next(EDITIONS)
        #: Readers see the messages below this offset.
        self.visible_offset = 0
        self.next_offset = self.last_timestamp = 0
        files.open(
            succeeded=self._sync_succeeded,
            fenced=self._writes_fenced,
            replaced=self._files_replaced,
        )

    def append(
        self, batch: Batch, timestamp: int | None = None, is_part: bool = False
    ) -> Waiter | None:
        """Add messages numbered from `next_offset`; None when they are acknowledged already.

        Otherwise the future is resolved when they are, or fails with what prevented it; the bytes
        of the batch must stay as they are until then. `timestamp` is the one all messages carry;
        without it each message's own is used. No segment ends behind a batch that `is_part` of a
        send; `end_send` follows the last part. Raises `StorageFailure` when nothing was taken.
        """
        count = batch.count
        if not count:
            return self.barrier()
        files = self._files
        if files.fence is not None or files.damage is not None or files.cutting.due:
            self.ensure_writable()
        # The offset in the bytes is stored for good, so it must be the one they get here.
        assert _first_offset(batch.messages, OFFSET_AT)[0] == self.next_offset, "a gap in the log"
        self._make_room(count, batch.size)
        waiter = None
        if self._level is WRITTEN and timestamp is not None:
            self._write(batch, timestamp)
        else:
            waiter = self._take(batch, timestamp)
        if not is_part:
            self.end_send()
        return waiter

    def write_ahead(self, batch: Batch) -> Iterator[None]:
        """Write the batch that is appended next, slice by slice: for one so large that writing it
        takes longer than a moment. Nothing else may be appended in between."""
        self.ensure_writable()
        self._make_room(batch.count, batch.size)
        self._save_journal()
        yield from self._files.write_ahead(batch.messages)

    def end_send(self) -> None:
        """Begin a new segment if the open one was full before the last send."""
        size, fullness = self._files.segments.tail.size + self._journal.size, self._fullness
        if size < fullness.due_size and self.next_offset < fullness.due_offset:
            return
        if fullness.reached_by(size, self.next_offset):
            try:
                self._seal()
            except StorageFailure as failure:
                # The messages are stored. The next append tries again, and fails if necessary.
                self._seal_is_due = True
                logger.warning("cannot create a new segment in %s: %s", self.directory, failure)

    def _write(self, batch: Batch, timestamp: int) -> None:
        """Level `written`: the messages are in the file when this returns. Small sends that share a
        turn of the loop were joined before they came here (`listeners/gathering.py`)."""
        is_large = batch.size >= LARGE_BYTES
        tail = self._files.write_one(batch, timestamp, self.next_offset, index_later=is_large)
        self.next_offset += batch.count
        self.visible_offset = self.next_offset
        if timestamp > self.last_timestamp:
            self.last_timestamp = timestamp
        if is_large and not self._turn_is_open:
            loop = running_loop()
            if loop is None:
                self._files.lag.wrote(tail)
            else:
                self._open_turn(loop)

    def _take(self, batch: Batch, timestamp: int | None) -> Waiter | None:
        """Add messages after the last one, written or pending."""
        level = self._level
        pending = self._files.pending(batch, timestamp, self.next_offset, self._journal.size)
        if pending.last_timestamp > self.last_timestamp:
            self.last_timestamp = pending.last_timestamp
        if level is BUFFERED:
            self._append_to_journal(pending)
            return None
        loop = running_loop()
        if level is WRITTEN or loop is None:
            self._save_journal()
            self.next_offset = self._files.write([pending]).next_offset
            if level is WRITTEN:
                self.visible_offset = self.next_offset
            else:
                self._files.sync()
            return None
        if self._waiter is None:
            self._waiter = Waiter(loop=loop)
            self._open_turn(loop)
        self._journal.push(pending)
        self.next_offset += batch.count
        return self._waiter

    def barrier(self) -> Waiter | None:
        """Return None if everything appended so far is acknowledged, else a future."""
        loop = running_loop()
        if loop is None or self.visible_offset == self.next_offset:
            return None
        if self._waiter is not None:
            return self._waiter
        waiter = Waiter(loop=loop)
        self._files.commits.wait(self.next_offset, waiter)
        return waiter

    def flush(self, *, sync: bool = False) -> Waiter | None:
        """Write what is only in memory: the journal, and index entries that lag.

        With `sync` everything written is on the disk when the future resolves, or already on None.
        """
        self.ensure_writable()
        self._save_journal()
        self._all_counts_as_saved()
        return self._files.flush(sync=sync)

    def ensure_writable(self) -> None:
        """Raise what an append would raise; call it before numbering a batch."""
        files = self._files
        if files.fence is not None:
            files.refuse_if_fenced()
        if files.damage is not None or files.cutting.due:
            files.ensure_readable()

    # Inside. -------------------------------------------------------------------------------------

    def _make_room(self, count: int, size: int) -> None:
        """Begin a new segment when the open one should have ended, or could not address these
        messages."""
        tail = self._files.segments.tail
        planned = tail.size + self._journal.size
        if planned and (
            self._seal_is_due
            or planned + size > SEGMENT_BYTES_MAX
            or self.next_offset + count - tail.start_offset > U32_MAX
        ):
            self._seal()

    def _seal(self) -> None:
        self._save_journal()
        self._files.refuse_if_fenced()
        self._files.roll()
        self._seal_is_due = False
        self._all_counts_as_saved()

    def _all_counts_as_saved(self) -> None:
        self._fullness.saved(self._files.segments.tail.size, self.next_offset)

    def _append_to_journal(self, pending: Pending) -> None:
        batch = pending.batch
        if self._journal.must_be_saved_with(batch, self._settings):
            self._files.write([*self._journal.pending, pending])
            self._journal.clear()
        else:
            # A copy: the caller gets its buffer back when this returns.
            held = Batch(memoryview(bytes(batch.messages)), batch.ends, batch.equal_size)
            self._journal.push(pending._replace(batch=held))
        self.next_offset += len(batch)
        self.visible_offset = self.next_offset

    def _open_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._turn_is_open:
            self._turn_is_open = True
            loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn_is_open = False
        if self._journal.count and self._level is not BUFFERED:
            try:
                self._save_journal()
            except StorageFailure:
                return  # the waiters get the failure
        files = self._files
        tail = files.segments.tail
        tail.index.gather()
        if files.fence is None and not files.cutting.due:
            files.lag.wrote(tail)

    def _save_journal(self) -> None:
        """Write the journal; when that fails, `buffered` keeps it and the others lose it."""
        journal = self._journal
        if not journal.count:
            return
        files = self._files
        try:
            tail = files.write(journal.pending)
        except StorageFailure as failure:
            if self._level is not BUFFERED:
                journal.clear()
                self.next_offset = files.segments.tail.next_offset
                self._answer_journal(failure)
            raise
        journal.clear()
        if self._level is SYNCED:
            waiter, self._waiter = self._waiter, None
            if waiter is not None:
                files.commits.wait(tail.next_offset, waiter)
            files.commits.request()

    def _answer_journal(self, failure: StorageFailure | None) -> None:
        """Resolve the future of the batches that were in the journal."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            answer(waiter, failure)

    # Inside: what the files tell. ----------------------------------------------------------------

    def _sync_succeeded(self, job: SyncJob) -> None:
        """Make messages visible; only `synced` waits until they are on the disk."""
        files = self._files
        files.durability.done(job)
        if self._level is SYNCED:
            self.visible_offset = max(self.visible_offset, job.offset)
            files.lag.synced(files.segments, files.durability.synced_offset)
            files.save_index_when_idle()

    def _writes_fenced(self, failure: StorageFailure) -> None:
        """Writes have stopped: `buffered` keeps its journal, the other levels drop it."""
        self._answer_journal(failure)
        if self._level is not BUFFERED:
            self._journal.clear()
        self.next_offset = self._files.segments.tail.next_offset + self._journal.count

    def _files_replaced(self, failure: StorageFailure | None) -> None:
        """Loaded, cut or closed: discard what is in memory; the next message follows what the
        files hold."""
        self.edition = next(EDITIONS)
        self._answer_journal(failure)
        self._journal.clear()
        segments = self._files.segments
        self.visible_offset = self.next_offset = segments.tail.next_offset
        self._all_counts_as_saved()
        self._seal_is_due = False
        self.last_timestamp = segments.end_timestamp
