"""The files of one log: load, append, roll, sync, cut and close.

`storage/log_writing.py` decides which messages come here, when, and when readers see them. This
module decides when they are on the disk, and what happens when the medium fails.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from borzoi.model.errors import CannotSync, DiskFull, PartitionDeleted, StorageFailure
from borzoi.model.limits import SEGMENT_BYTES_MAX
from borzoi.records.batch import Batch, index_entries
from borzoi.records.validation import INDEX_ENTRY
from borzoi.storage import layout, truncation
from borzoi.storage.commits import GroupCommit, SyncPlan, Waiter, running_loop
from borzoi.storage.cutting import Cutting
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.durability import Durability, SyncJob
from borzoi.storage.idle import IdleWork
from borzoi.storage.index import entries_of
from borzoi.storage.index_lag import IndexLag
from borzoi.storage.journal import Pending
from borzoi.storage.media import File, Medium, write_all
from borzoi.storage.recovery import Inspection, OpenTwin, recover
from borzoi.storage.recovery_point import RecoveryPoint
from borzoi.storage.segment import PlainBody, Segment
from borzoi.storage.segments import Segments
from borzoi.storage.settings import Acknowledge, PartitionSettings, SegmentSettings
from borzoi.storage.syncing import Syncer

logger = logging.getLogger(__name__)

pack_entry: Final = INDEX_ENTRY.pack

#: What `write_ahead` writes in one step: a few milliseconds, unless the disk is very busy.
AHEAD_BYTES: Final = 2 << 20


class LogFiles:
    """Segments, how far their indexes lag, and how far all of it is on the disk.

    `fence` is why nothing is written any more, `damage` why nothing is read either.
    """

    __slots__ = (
        "_ahead",
        "_descriptors",
        "_fenced",
        "_generation_min",
        "_idle",
        "_index_waits",
        "_is_synced",
        "_open_twin",
        "_replaced",
        "_succeeded",
        "_validate_checksum",
        "commits",
        "cutting",
        "damage",
        "directory",
        "durability",
        "fence",
        "is_closed",
        "lag",
        "medium",
        "segment_bytes",
        "segments",
    )

    def __init__(
        self,
        directory: Path,
        medium: Medium,
        segment: SegmentSettings,
        partition: PartitionSettings,
        syncer: Syncer,
        descriptors: Descriptors,
        open_twin: OpenTwin | None,
        generation: int,
        idle: IdleWork | None,
    ) -> None:
        self.directory = directory
        self.medium = medium
        self.segment_bytes = segment.size
        self._validate_checksum = partition.validate_checksum
        self._is_synced = partition.acknowledge is Acknowledge.SYNCED
        self._descriptors = descriptors
        self._open_twin = open_twin
        self._idle = idle
        #: A batch that is in the file already, behind the last message; empty while it is written.
        self._ahead: memoryview | None = None
        #: Whether index entries are saved in idle moments.
        self._index_waits = False
        #: Files of an earlier generation than this were purged, and the purge was interrupted.
        self._generation_min = generation
        self.segments = Segments(directory, medium, descriptors)
        self.lag = IndexLag(segment.cache_indexes, follows_syncs=self._is_synced)
        self.commits = GroupCommit(syncer, self._sync_plan, self.fence_writes)
        self.durability = Durability(medium, directory, proven_by_index=self._is_synced)
        self.fence: StorageFailure | None = None
        self.damage: StorageFailure | None = None
        self.is_closed = False
        self.cutting = Cutting(
            medium,
            directory,
            self.durability.keeper,
            forget=self._forget_what_was_cut,
            load=self._reload,
        )

    # Opening and closing.
    # ---------------------------------------------------------------------------

    def open(
        self,
        *,
        succeeded: Callable[[SyncJob], None],
        fenced: Callable[[StorageFailure], None],
        replaced: Callable[[StorageFailure | None], None],
    ) -> None:
        """Load the files; what cannot be repaired becomes `damage`.

        The callbacks: `succeeded` after a sync, `fenced` when writes are refused from now on, and
        `replaced` when the segments were loaded again or closed. Messages that were not written
        then are lost: their futures fail with the failure given, or succeed when it is None.
        """
        self._succeeded = succeeded
        self._fenced = fenced
        self._replaced = replaced
        try:
            self._load()
        except DiskFull:
            raise
        except StorageFailure as damage:
            self._reset()
            self.damage = damage
            logger.error("partition %s is fenced: %s", self.directory, damage)  # noqa: TRY400

    def why_not_to_save(self) -> StorageFailure | None:
        """Return why nothing may be written before the files are closed, if so."""
        failure = self.damage or self.fence
        if failure is None and self.cutting.is_unfinished:
            return StorageFailure(f"the log of {self.directory} was closed during a cut")
        return failure

    def save(self) -> None:
        """Everything written is on the disk, and the next start reads none of it."""
        tail = self.segments.tail
        if not tail.next_offset or self.durability.is_untouched(tail):
            return
        self.sync()
        self.durability.keeper.settle_newest()

    def close(self, failure: StorageFailure | None) -> None:
        """Close the files; pending syncs fail with the failure, or succeed without one."""
        tail = self.segments.tail
        if self._ahead is not None and tail.file is not None:
            with contextlib.suppress(StorageFailure):  # the next start cuts it off as well
                self._undo_write(tail.file.held(), tail.size)
        tail.trim()
        self._discard(failure, StorageFailure(f"the log of {self.directory} is closed"))

    def abandon(self, *, purged: bool) -> None:
        """The same without touching them: they are about to be removed."""
        gone = PartitionDeleted(f"the log of {self.directory} was deleted")
        self._discard(None if purged else gone, gone)

    def _discard(self, failure: StorageFailure | None, damage: StorageFailure) -> None:
        with self.durability.keeper.cutting():
            pass  # a sync that is still running stores no recovery point any more
        self.is_closed = True
        self.commits.abandon(failure)
        self._reset(failure)
        self.damage = damage

    def _reset(self, failure: StorageFailure | None = None) -> None:
        """Reset to the state before loading."""
        self.segments.close()
        self.segments = Segments(self.directory, self.medium, self._descriptors)
        self.lag.reset()
        self.durability.reset()
        self._replaced(failure)

    def _load(self) -> None:
        """Load the log from the medium and repair it."""
        self._reset()
        medium, directory = self.medium, self.directory
        names = medium.list(directory)
        if not names:
            medium.make_directory(directory)
        if layout.INTENT in names:
            intent = truncation.pending(medium, directory)
            if intent is not None:
                truncation.carry_out(medium, directory, intent)
                names = medium.list(directory)
        point = self.durability.load_point() if layout.RECOVERY_POINT in names else None
        if point is not None and point.generation < self._generation_min:
            logger.warning("%s: finishing an interrupted purge", directory)
            truncation.carry_out(medium, directory, truncation.purge_to(self._generation_min))
            names = medium.list(directory)
            point = self.durability.load_point()
        self.durability.generation = self._generation_min if point is None else point.generation
        proven = self.durability.proven_by_index
        recovered = recover(
            Inspection(medium, directory, point, self._validate_checksum, self._open_twin, proven),
            names,
        )
        for repair in recovered.repairs:
            logger.warning("%s: %s", directory, repair)
        for found in recovered.segments:
            self.segments.adopt(found)
        if recovered.segments and recovered.segments[-1].body is None:
            self.segments.unseal_tail()
        else:
            self._begin_segment()
        self.lag.begin(self.segments.tail.size)
        self._replaced(None)
        self._settle(point)

    def _begin_segment(self) -> None:
        """Append to a new segment from now on; the old one is sealed."""
        self.segments.begin(self.segments.tail.next_offset)
        self.lag.begin(0)
        self.durability.name_added()

    def _settle(self, point: RecoveryPoint | None) -> None:
        """What recovery found is readable from now on: note what of it is not on the disk."""
        tail = self.segments.tail
        known = point.segment_start if point is not None else tail.start_offset
        for segment in self.segments:
            if known <= segment.start_offset < tail.start_offset:
                body = segment.body
                if isinstance(body, PlainBody):
                    self.durability.sealed(body.file, segment.index.file)
        if self._is_synced:
            self.sync()
        self.durability.begin(point, tail)

    # Fencing. -----------------------------------------------------------------------------------

    def ensure_readable(self) -> None:
        """Finish a cut that is due; raise why there is nothing to read."""
        if self.damage is not None:
            raise StorageFailure(str(self.damage))
        if self.cutting.due:
            self.cutting.go_on()

    def refuse_if_fenced(self) -> None:
        if self.fence is not None:
            raise type(self.fence)(str(self.fence))

    def fence_writes(self, failure: StorageFailure) -> None:
        """Refuse appends until the log is opened again.

        After a failed sync the kernel may have dropped the bytes and marked them clean, so a second
        sync of the same file would succeed and prove nothing.
        """
        if self.fence is not None:
            return
        self.fence = failure
        logger.error("partition %s accepts no more messages: %s", self.directory, failure)
        self._fenced(failure)
        self.commits.abandon(failure)

    # Writing. ------------------------------------------------------------------------------------

    def pending(self, batch: Batch, timestamp: int | None, offset: int, ahead: int) -> Pending:
        """The batch from `offset` on, as it will lie in the open segment behind `ahead` bytes that
        are not written yet."""
        tail = self.segments.tail
        relative_offset = offset - tail.start_offset
        position = tail.size + ahead
        if timestamp is None:
            timestamps = batch.timestamps()
            first, last = int(timestamps[0]), int(timestamps[-1])
            entries = entries_of(batch, relative_offset=relative_offset, position=position)
        else:
            first = last = timestamp
            entries = index_entries(
                batch, relative_offset=relative_offset, position=position, timestamp=timestamp
            )
        return Pending(batch, entries, offset, first, last)

    def write(self, pending: list[Pending]) -> Segment:
        """Append batches to the open segment, all or none; return the segment."""
        size = sum([each.batch.size for each in pending])
        tail = self._put([each.batch.messages for each in pending], size)
        entries = b"".join([each.entries for each in pending])
        tail.extend(entries, size, pending[0].first_timestamp, pending[-1].last_timestamp)
        self.lag.wrote(tail)
        self._note_write()
        return tail

    def write_one(self, batch: Batch, timestamp: int, offset: int, *, index_later: bool) -> Segment:
        """The same for one batch of one timestamp, whose index entries may be made later."""
        size = batch.size
        tail = self._put([batch.messages], size)
        first, position = offset - tail.start_offset, tail.size
        if index_later:
            entries = partial(
                index_entries,
                batch,
                relative_offset=first,
                position=position,
                timestamp=timestamp,
            )
            tail.extend_later(batch.count, entries, size, timestamp)
        else:
            made = (
                pack_entry(first, position + size, timestamp)
                if batch.count == 1
                else index_entries(
                    batch, relative_offset=first, position=position, timestamp=timestamp
                )
            )
            tail.extend(made, size, timestamp, timestamp)
            self.lag.wrote(tail)
        if self._idle is not None and self._index_waits:
            self._idle.appended += 1
        else:
            self._note_write()
        return tail

    def _note_write(self) -> None:
        if self._idle is not None:
            self._idle.appended += 1
            if not self._index_waits:
                self.save_index_when_idle()

    def save_index_when_idle(self) -> None:
        """Schedule saving the remaining index entries for an idle moment."""
        if self._idle is not None and not self._index_waits:
            self._index_waits = True
            self._idle.wait(self._save_index)

    def _save_index(self) -> None:
        self._index_waits = False
        if self.fence is None and self.damage is None and not self.cutting.due:
            tail = self.segments.tail
            self.lag.save(tail, max(self.durability.synced_offset - tail.start_offset, 0))

    def _put(self, buffers: list[memoryview], size: int) -> Segment:
        """Write bytes after the last message; return their segment."""
        tail = self.segments.tail
        assert tail.file is not None, "messages are written to the open segment"
        assert tail.size + size <= SEGMENT_BYTES_MAX, "an index addresses 32 bits"
        if tail.size + size > tail.reserved:
            tail.reserve(tail.size + size, self.segment_bytes)
        file = tail.file.held()  # when it cannot be opened there is nothing to undo
        ahead, self._ahead = self._ahead, None
        if ahead is not None and len(buffers) == 1 and buffers[0] is ahead:
            return tail
        try:
            if len(buffers) > 1 or file.write(buffers, tail.size) != size:
                write_all(file, buffers, tail.size)
        except StorageFailure:
            self._undo_write(file, tail.size)
            raise
        return tail

    def write_ahead(self, messages: memoryview) -> Iterator[None]:
        """Write the messages that are appended next, slice by slice; the append finds them there.

        Readers and recovery take them for bytes behind the last message until then.
        """
        tail = self.segments.tail
        assert tail.file is not None
        start = tail.size
        if start + len(messages) > tail.reserved:
            tail.reserve(start + len(messages), self.segment_bytes)
        self._ahead = messages[:0]
        for at in range(0, len(messages), AHEAD_BYTES):
            file = tail.file.held()
            try:
                write_all(file, [messages[at : at + AHEAD_BYTES]], start + at)
            except StorageFailure:
                self._ahead = None
                self._undo_write(file, start)
                raise
            yield
        self._ahead = messages

    def _undo_write(self, file: File, size: int) -> None:
        """Durably cut off what a failed write left, or fence the log."""
        try:
            file.truncate(size)
            file.fdatasync()
        except StorageFailure as failure:
            self.fence_writes(failure)

    def roll(self) -> None:
        """Seal the open segment and create the next one; it is synced on another thread."""
        full = self.segments.tail
        assert full.file is not None
        file, index_file = full.file, full.index.file
        self.lag.before_seal(full)
        try:
            self.durability.before_second_segment()
        except CannotSync as failure:
            self.fence_writes(failure)
            raise
        self._begin_segment()
        self.durability.sealed(file)
        if not self._is_synced:
            self.durability.sealed(index_file)
            self.commits.request()
        self.lag.sealed(full)

    # Syncing. ------------------------------------------------------------------------------------

    def flush(self, *, sync: bool) -> Waiter | None:
        """Write index entries that lag; with `sync` everything is on the disk when the future
        resolves, or already on None."""
        self.refuse_if_fenced()
        tail, synced_offset = self.segments.tail, self.durability.synced_offset
        self.lag.flush(tail, max(synced_offset - tail.start_offset, 0))
        if not sync or synced_offset == tail.next_offset:
            return None
        loop = running_loop()
        if loop is None:
            self.sync()
            return None
        waiter = Waiter(loop=loop)
        self.commits.wait(tail.next_offset, waiter)
        self.commits.request()
        return waiter

    def sync(self) -> None:
        """Sync on the calling thread: before a cut, at the end, and for tools without a loop."""
        self.commits.settle()
        self.refuse_if_fenced()
        tail = self.segments.tail
        if self.durability.synced_offset < tail.next_offset or not tail.next_offset:
            job = self.durability.job(tail, with_tail=True)
            try:
                job.run()
            except StorageFailure as failure:
                self.fence_writes(failure)
                raise
            self._succeeded(job)
            self.commits.release(job.offset)
        try:
            tail.index.save(keep=self.lag.window)
        except DiskFull as failure:
            # The next start rebuilds the entries from the messages, which are on the disk.
            logger.warning("the index of %s lags: %s", tail.log_path, failure)
        tail.index.sync()

    def _sync_plan(self, with_tail: bool) -> SyncPlan:
        """What the next sync has to do; the job runs on another thread, the rest on the loop."""
        job = self.durability.job(self.segments.tail, with_tail=with_tail)
        return SyncPlan(job.run, job.offset, partial(self._succeeded, job), job.only_files)

    # Cutting. ------------------------------------------------------------------------------------

    def purge(self) -> None:
        """Remove every message, including those of damaged files, but not of closed ones."""
        self.refuse_if_fenced()
        if self.is_closed:
            self.ensure_readable()
        self.cutting.cut(truncation.purge_to(self.durability.generation + 1))

    def cut(self, offset: int) -> None:
        """Remove the messages from `offset` on, all of which are written."""
        segment = self.segments.holding(offset)
        kept = offset - segment.start_offset
        if kept and not segment.log_path_is_plain:
            self.segments.inflate(segment)
        if self._is_synced:
            self.sync()
        segment.index.save()
        position = segment.index.end_position(kept - 1)
        self.cutting.cut(truncation.Intent(segment.start_offset, position, kept))

    def _forget_what_was_cut(self) -> None:
        """The cut has happened: close the files. Pending syncs succeed."""
        self.damage = None
        self.commits.abandon(None)  # appended, then removed: both succeeded

    def _reload(self) -> None:
        """Load the rest after a cut; if that fails, nothing stays loaded."""
        try:
            self._load()
        except StorageFailure:
            self._reset()
            raise
