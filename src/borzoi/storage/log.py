"""SegmentedLog: the messages of one partition, in order, on a medium.

It lives on one event loop and has one owner, so it takes no locks; only syncs leave the loop.
A batch is numbered by its owner (`next_offset`), appended here, and answered at the level of
`PartitionSettings.acknowledge`; see `append`. Readers see the messages below `visible_offset`.
"""

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Final

from borzoi.model.errors import CannotSync, InvalidOffset, StorageFailure
from borzoi.model.limits import SEGMENT_BYTES_MAX, U32_MAX
from borzoi.records.batch import Batch, index_entries
from borzoi.storage import truncation
from borzoi.storage.commits import GroupCommit, SyncPlan, Waiter, answer, running_loop
from borzoi.storage.cutting import Cutting
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.durability import Durability, SyncJob
from borzoi.storage.index import INDEX_ENTRY, entries_of
from borzoi.storage.index_lag import IndexLag
from borzoi.storage.journal import Journal, Pending
from borzoi.storage.media import File, Medium, write_all
from borzoi.storage.reading import Reading
from borzoi.storage.recovery import Inspection, OpenTwin, recover
from borzoi.storage.recovery_point import RecoveryPoint
from borzoi.storage.segment import Body, Segment, SegmentFacts
from borzoi.storage.segments import Removed, Segments
from borzoi.storage.settings import (
    DEFAULT_PARTITION,
    DEFAULT_SEGMENT,
    Acknowledge,
    PartitionSettings,
    SegmentSettings,
)
from borzoi.storage.syncing import InlineSyncer, Syncer

logger = logging.getLogger(__name__)

#: By names of their own, because looking up a member of an enumeration takes a tenth of a µs.
BUFFERED: Final = Acknowledge.BUFFERED
WRITTEN: Final = Acknowledge.WRITTEN
SYNCED: Final = Acknowledge.SYNCED

pack_entry: Final = INDEX_ENTRY.pack

#: A batch of this size is written at once: sharing a system call would save nothing.
LARGE_BYTES: Final = 64 << 10
#: To notice the end of a turn costs a tenth of a small send. Where so many in a row were alone in
#: theirs, only one in so many looks again whether others come along; a prime, so that of those who
#: take turns regularly it is not always the last.
ALONE_MAX: Final = 17


def open_log(
    directory: Path,
    medium: Medium,
    *,
    segment: SegmentSettings = DEFAULT_SEGMENT,
    partition: PartitionSettings = DEFAULT_PARTITION,
    syncer: Syncer | None = None,
    descriptors: Descriptors | None = None,
    open_twin: OpenTwin | None = None,
) -> "SegmentedLog":
    """Open the log of a directory, made when it is missing, after whatever happened to it.

    Never raises for what it finds there: a log that cannot be repaired comes back fenced, and
    each call that needs its messages raises `StorageFailure` with the reason.
    """
    return SegmentedLog(
        directory,
        medium,
        segment,
        partition,
        syncer or InlineSyncer(),
        descriptors or Descriptors(medium, 16),
        open_twin,
    )


class SegmentedLog:
    """Segments in the order of their offsets; the last one is open, the others are sealed.

    Invariants: segment k ends where segment k + 1 begins; written messages are in the open file
    and in its index; journal messages follow them; `visible_offset` never goes back but in a cut.
    """

    __slots__ = (
        "_alone",
        "_closed",
        "_commits",
        "_cutting",
        "_damage",
        "_descriptors",
        "_durability",
        "_fence",
        "_journal",
        "_lag",
        "_level",
        "_open_twin",
        "_segment_settings",
        "_segments",
        "_settings",
        "_turn_is_open",
        "_visible",
        "_waiter",
        "directory",
        "last_timestamp",
        "medium",
        "next_offset",
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
    ) -> None:
        self.directory = directory
        self.medium = medium
        self._segment_settings = segment
        self._settings = partition
        self._level = partition.acknowledge
        self._descriptors = descriptors
        self._open_twin = open_twin
        self._journal = Journal()
        self._lag = IndexLag(segment.cache_indexes, follows_syncs=self._level is SYNCED)
        self._commits = GroupCommit(syncer, self._sync_plan, self._fence_writes)
        #: What all wait for whose batches are in the journal: they are written together, so they
        #: succeed or fail together.
        self._waiter: Waiter | None = None
        self._turn_is_open = False
        #: Sends since one last shared a write with others of its turn.
        self._alone = 0
        self._durability = Durability(medium, directory, proven_by_index=self._level is SYNCED)
        self._fence: StorageFailure | None = None
        self._damage: StorageFailure | None = None
        self._cutting = Cutting(
            medium,
            directory,
            self._durability.keeper,
            forget=self._forget_what_was_cut,
            load=self._reload,
        )
        self._closed = False
        self._reset()
        try:
            self._load()
        except StorageFailure as damage:
            self._reset()
            self._damage = damage
            logger.error("partition %s is fenced: %s", directory, damage)  # noqa: TRY400

    # What it holds. ------------------------------------------------------------------------------

    @property
    def first_offset(self) -> int:
        """The offset of the oldest message, or of the next one when there is none."""
        return self._segments.first_offset

    @property
    def visible_offset(self) -> int:
        """Readers see the messages below this offset."""
        return self._visible

    @property
    def messages_count(self) -> int:
        return self._visible - self.first_offset

    @property
    def size(self) -> int:
        """Bytes of all messages, those in the journal included."""
        return self._segments.sealed_size + self._segments.tail.size + self._journal.size

    @property
    def segments_count(self) -> int:
        return len(self._segments)

    @property
    def fenced(self) -> StorageFailure | None:
        """Why appends are refused until the log is opened again, if they are."""
        return self._damage or self._fence

    @property
    def acknowledge(self) -> Acknowledge:
        return self._level

    def segments(self) -> list[SegmentFacts]:
        """Oldest first; the open one is last."""
        return self._segments.facts()

    # Appending. ----------------------------------------------------------------------------------

    def append(self, batch: Batch, *, timestamp: int | None = None) -> Waiter | None:
        """Add messages numbered from `next_offset`; None when they are acknowledged already.

        Otherwise the future is resolved when they are, or fails with what prevented it; the bytes
        of the batch must stay as they are until then. `timestamp` is the one all messages carry;
        without it each message's own is used. Raises `StorageFailure` when nothing was taken.
        """
        count = batch.count
        if not count:
            return self.barrier()
        self.ensure_writable()
        self._make_room(count, batch.size)
        level = self._level
        is_large = batch.size >= LARGE_BYTES
        if is_large and level is WRITTEN and timestamp is not None and not self._journal.count:
            self._append_large(batch, timestamp)
            return None
        pending = self._pending(batch, timestamp)
        if level is BUFFERED:
            self._append_to_journal(pending)
            return None
        if level is WRITTEN and (not self._turn_is_open or is_large):
            # The first of a turn is written at once, so a lone send is answered without a wait;
            # the ones that follow it in the same turn share one call.
            self._write_with_journal(pending)
            self._alone += 1
            if self._alone < ALONE_MAX or self._alone % ALONE_MAX == 0:
                self._open_turn(running_loop())
            return None
        waiter = self._waiter
        if waiter is None:
            loop = running_loop()
            if loop is None:
                self._write_with_journal(pending)
                if level is SYNCED:
                    self._sync_inline()
                return None
            waiter = self._waiter = Waiter(loop=loop)
            self._open_turn(loop)
        self._journal.push(pending)
        self.next_offset += count
        return waiter

    def barrier(self) -> Waiter | None:
        """None when everything appended so far is acknowledged, else what resolves when it is."""
        loop = running_loop()
        if loop is None or self._visible == self.next_offset:
            return None
        if self._waiter is not None:
            return self._waiter
        waiter = Waiter(loop=loop)
        self._commits.wait(self.next_offset, waiter)
        return waiter

    def flush(self, *, sync: bool = False) -> Waiter | None:
        """Write what is only in memory: the journal, and index entries that lag.

        With `sync` everything written is on the disk when the future resolves, or already on None.
        """
        self.ensure_writable()
        self._save_journal()
        self._refuse_if_fenced()
        tail = self._segments.tail
        self._lag.flush(tail, max(self._durability.synced_offset - tail.start_offset, 0))
        if not sync or self._durability.synced_offset == tail.next_offset:
            return None
        loop = running_loop()
        if loop is None:
            self._sync_inline()
            return None
        waiter = Waiter(loop=loop)
        self._commits.wait(tail.next_offset, waiter)
        self._commits.request()
        return waiter

    # Reading. ------------------------------------------------------------------------------------

    def read(self, offset: int, count: int, *, size_max: int | None = None) -> Reading:
        """Up to `count` messages from `offset` on, or from the oldest when that one is gone.

        `size_max` bounds the bytes; the first message is given whatever its size.
        """
        self._ensure_readable()
        offset = max(offset, self._segments.first_offset)
        end = min(offset + count, self._visible)
        reading = Reading(offset)
        if offset < end and self._segments.read(reading, offset, end, size_max):
            offset += reading.count
            if offset < end:
                self._journal.read(reading, offset, end, size_max)
        return reading

    def offset_at(self, timestamp: int) -> int:
        """The offset of the first visible message that is not older than `timestamp`.

        `visible_offset` when all are older.
        """
        self._ensure_readable()
        found = self._segments.offset_at(timestamp, self._visible)
        if found is None:
            found = self._journal.first_at_or_after(timestamp)
        return self._visible if found is None else min(found, self._visible)

    # Removing. -----------------------------------------------------------------------------------

    def delete_segments(self, count: int) -> Removed:
        """Remove the oldest `count` segments, but never the open one or unacknowledged messages."""
        self._ensure_readable()
        return self._segments.delete_oldest(count, self._visible)

    def purge(self) -> None:
        """Forget every message, also those in memory; the next one gets offset 0.

        Also the way out for a log that was found damaged.
        """
        self._refuse_if_fenced()
        if self._closed:
            self._ensure_readable()
        self._cutting.cut(truncation.PURGE)

    def truncate(self, offset: int) -> None:
        """Forget the messages from `offset` on; the next one gets this offset."""
        self.ensure_writable()
        if not self.first_offset <= offset <= self.next_offset:
            raise InvalidOffset(
                f"{offset} is not within {self.first_offset}..{self.next_offset}, what"
                f" {self.directory} holds"
            )
        self._save_journal()
        segment = self._segments.holding(offset)
        kept = offset - segment.start_offset
        if kept and not segment.log_path_is_plain:
            self._segments.inflate(segment)
        if self._level is SYNCED:
            self._sync_inline()
        segment.index.save()
        position = segment.index.end_position(kept - 1)
        self._cutting.cut(truncation.Intent(segment.start_offset, position, kept))

    def adopt_twin(self, start_offset: int, body: Body) -> None:
        """Read a sealed segment from its compressed twin from now on; the plain log is removed."""
        self._segments.adopt_twin(start_offset, body)

    def close(self) -> None:
        """Write and sync what is left; the log is not usable afterwards."""
        if self._closed:
            return
        self._closed = True
        failure: StorageFailure | None = self._damage or self._fence
        try:
            if failure is None and not self._cutting.is_unfinished:
                self._save_journal()
                self._sync_inline()
                # With the name of the recovery point on the disk the next start reads no messages.
                self.medium.fsync_directory(self.directory)
        except StorageFailure as error:
            failure = error
            raise
        finally:
            if self._cutting.is_unfinished and failure is None:
                failure = StorageFailure(f"the log of {self.directory} was closed during a cut")
            self._answer_journal(failure)
            self._commits.abandon(failure)
            if self._segments.tail.file is not None:
                self._segments.tail.file.trim()
            self._reset()
            self._damage = StorageFailure(f"the log of {self.directory} is closed")

    def abandon(self, *, purged: bool = False) -> None:
        """Let go without writing or syncing anything: the directory is about to be removed.

        Who waits for an append is told that it failed; when the log was purged, that it happened:
        the messages were appended, then forgotten, and both succeeded.
        """
        if self._closed:
            return
        self._closed = True
        with self._durability.keeper.cutting():
            pass  # a sync under way puts no file into the directory any more
        gone = StorageFailure(f"the log of {self.directory} was deleted")
        self._answer_journal(None if purged else gone)
        self._commits.abandon(None if purged else gone)
        self._segments.forget_descriptors()
        self._reset()
        self._damage = gone

    # Inside: the state. --------------------------------------------------------------------------

    def _reset(self) -> None:
        """As if nothing had been loaded."""
        self._segments = Segments(self.directory, self.medium, self._descriptors)
        self._journal.clear()
        self._lag.reset()
        self._durability.reset()
        self._visible = 0
        self.next_offset = 0
        self.last_timestamp = 0

    def _load(self) -> None:
        """Take the log as it lies on the medium, repaired."""
        self._reset()
        medium, directory = self.medium, self.directory
        medium.make_directory(directory)
        intent = truncation.pending(medium, directory)
        if intent is not None:
            truncation.carry_out(medium, directory, intent)
        point = self._durability.load_point()
        proven = self._durability.proven_by_index
        recovered = recover(
            Inspection(
                medium, directory, point, self._settings.validate_checksum, self._open_twin, proven
            )
        )
        for repair in recovered.repairs:
            logger.warning("%s: %s", directory, repair)
        for found in recovered.segments:
            self._segments.adopt(found)
        if recovered.segments and recovered.segments[-1].body is None:
            self._segments.unseal_tail()
        else:
            self._begin_segment()
        tail = self._segments.tail
        self._visible = self.next_offset = tail.next_offset
        self._lag.begin(tail.size)
        self.last_timestamp = self._segments.end_timestamp
        self._settle(point)

    def _begin_segment(self) -> None:
        """Append to a new segment from now on; the old one is sealed."""
        self._segments.begin(self._segments.tail.next_offset)
        self._lag.begin(0)
        self._durability.name_added()

    def _settle(self, point: RecoveryPoint | None) -> None:
        """What recovery found is readable from now on: note what of it is not on the disk."""
        tail = self._segments.tail
        known = point.segment_start if point is not None else tail.start_offset
        for segment in self._segments:
            if known <= segment.start_offset < tail.start_offset and segment.log_path_is_plain:
                self._durability.sealed(
                    self._descriptors.file(segment.log_path), segment.index.file()
                )
        if self._level is SYNCED:
            self._sync_inline()
        self._durability.begin(point, tail)

    # Inside: writing. ----------------------------------------------------------------------------

    def _ensure_readable(self) -> None:
        if self._damage is not None:
            raise StorageFailure(str(self._damage))
        if self._cutting.due:
            self._cutting.go_on()

    def ensure_writable(self) -> None:
        """Raise what an append would raise; call it before numbering a batch."""
        if self._fence is not None:
            self._refuse_if_fenced()
        if self._damage is not None or self._cutting.due:
            self._ensure_readable()

    def _refuse_if_fenced(self) -> None:
        if self._fence is not None:
            raise type(self._fence)(str(self._fence))

    def _fence_writes(self, failure: StorageFailure) -> None:
        """Refuse appends until the log is opened again.

        After a failed sync the kernel may have dropped the bytes and marked them clean, so a second
        sync of the same file would succeed and prove nothing.
        """
        if self._fence is not None:
            return
        self._fence = failure
        logger.error("partition %s takes no more messages: %s", self.directory, failure)
        self._answer_journal(failure)
        self._commits.abandon(failure)
        if self._level is not BUFFERED:
            self._journal.clear()
        self.next_offset = self._segments.tail.next_offset + self._journal.count

    def _pending(self, batch: Batch, timestamp: int | None) -> Pending:
        tail = self._segments.tail
        relative_offset = self.next_offset - tail.start_offset
        position = tail.size + self._journal.size
        if timestamp is None:
            timestamps = batch.timestamps()
            first, last = int(timestamps[0]), int(timestamps[-1])
            entries = entries_of(batch, relative_offset=relative_offset, position=position)
        elif batch.count == 1:
            first = last = timestamp
            entries = pack_entry(relative_offset, position + batch.size, timestamp)
        else:
            first = last = timestamp
            entries = index_entries(
                batch, relative_offset=relative_offset, position=position, timestamp=timestamp
            )
        if last > self.last_timestamp:
            self.last_timestamp = last
        return Pending(batch, entries, self.next_offset, first, last)

    def _make_room(self, count: int, size: int) -> None:
        """Begin a new segment when the open one is full or could not address these messages."""
        tail = self._segments.tail
        planned = tail.size + self._journal.size
        if planned and (
            planned >= self._segment_settings.size
            or planned + size > SEGMENT_BYTES_MAX
            or self.next_offset + count - tail.start_offset > U32_MAX
        ):
            self._save_journal()
            self._refuse_if_fenced()
            self._roll()

    def _append_large(self, batch: Batch, timestamp: int) -> None:
        """Write a batch by itself. What its answer need not wait for is done when the turn ends:
        the sender is busy with its next batch then."""
        tail = self._put([batch.messages], batch.size)
        entries = partial(
            index_entries,
            batch,
            relative_offset=self.next_offset - tail.start_offset,
            position=tail.size,
            timestamp=timestamp,
        )
        tail.extend_later(batch.count, entries, batch.size, timestamp)
        self._visible = self.next_offset = tail.next_offset
        if timestamp > self.last_timestamp:
            self.last_timestamp = timestamp
        loop = running_loop()
        if loop is None:
            self._lag.wrote(tail)
        else:
            self._open_turn(loop)

    def _append_to_journal(self, pending: Pending) -> None:
        batch = pending.batch
        if self._journal.must_be_saved_with(batch, self._settings):
            self._write([*self._journal.pending, pending])
            self._journal.clear()
        else:
            # A copy: the caller gets its buffer back when this returns.
            held = Batch(memoryview(bytes(batch.messages)), batch.ends, batch.equal_size)
            self._journal.push(pending._replace(batch=held))
        self.next_offset += len(batch)
        self._visible = self.next_offset

    def _open_turn(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if not self._turn_is_open and loop is not None:
            self._turn_is_open = True
            loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn_is_open = False
        if self._journal.count and self._level is not BUFFERED:
            self._alone = 0
            try:
                self._save_journal()
            except StorageFailure:
                return  # told to everyone who waits
        tail = self._segments.tail
        tail.index.gather()
        if self._fence is None and not self._cutting.due:
            self._lag.wrote(tail)

    def _write_with_journal(self, pending: Pending) -> None:
        """Write what waits for the end of the turn, and this, in one call."""
        if not self._journal.count:
            self._write([pending])
            self.next_offset = self._segments.tail.next_offset
            return
        self._journal.push(pending)
        self._save_journal()
        self.next_offset = self._segments.tail.next_offset

    def _save_journal(self) -> None:
        """Write the journal; when that fails, `buffered` keeps it and the others lose it."""
        journal = self._journal
        if not journal.count:
            return
        try:
            self._write(journal.pending)
        except StorageFailure as failure:
            if self._level is not BUFFERED:
                journal.clear()
                self.next_offset = self._segments.tail.next_offset
                self._answer_journal(failure)
            raise
        journal.clear()
        if self._level is SYNCED:
            waiter, self._waiter = self._waiter, None
            if waiter is not None:
                self._commits.wait(self._segments.tail.next_offset, waiter)
            self._commits.request()
        else:
            self._answer_journal(None)

    def _answer_journal(self, failure: StorageFailure | None) -> None:
        """Tell those whose batches were in the journal."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            answer(waiter, failure)

    def _write(self, pending: list[Pending]) -> None:
        """Put batches at the end of the open segment: all of them, or none."""
        size = sum([each.batch.size for each in pending])
        tail = self._put([each.batch.messages for each in pending], size)
        entries = b"".join([each.entries for each in pending])
        tail.extend(entries, size, pending[0].first_timestamp, pending[-1].last_timestamp)
        if self._level is WRITTEN:
            self._visible = tail.next_offset
        self._lag.wrote(tail)

    def _put(self, buffers: list[memoryview], size: int) -> Segment:
        """Write bytes behind the last message; the segment they are in."""
        tail = self._segments.tail
        assert tail.file is not None
        if tail.size + size > tail.reserved:
            tail.reserve(tail.size + size, self._segment_settings.size)
        try:
            write_all(tail.file, buffers, tail.size)
        except StorageFailure:
            self._undo_write(tail.file, tail.size)
            raise
        return tail

    def _undo_write(self, file: File, size: int) -> None:
        """Cut off what a failed write left behind, for good, or accept nothing any more."""
        try:
            file.truncate(size)
            file.fdatasync()
        except StorageFailure as failure:
            self._fence_writes(failure)

    def _roll(self) -> None:
        """Seal the open segment and begin the next one; the disk catches up on another thread."""
        full = self._segments.tail
        assert full.file is not None
        file, index_file = full.file, full.index.file()
        self._lag.before_seal(full)
        try:
            self._durability.before_second_segment()
        except CannotSync as failure:
            self._fence_writes(failure)
            raise
        self._begin_segment()
        self._durability.sealed(file)
        if self._level is not SYNCED:
            self._durability.sealed(index_file)
            self._commits.request()
        self._lag.sealed(full)

    # Inside: syncing. ----------------------------------------------------------------------------

    def _sync_plan(self, with_tail: bool) -> SyncPlan:
        """What the next sync has to do; the job runs on another thread, the rest on the loop."""
        job = self._durability.job(self._segments.tail, with_tail=with_tail)
        return SyncPlan(job.run, job.offset, partial(self._sync_succeeded, job), job.only_files)

    def _sync_succeeded(self, job: SyncJob) -> None:
        self._durability.done(job)
        if self._level is SYNCED:
            self._visible = max(self._visible, job.offset)
            self._lag.synced(self._segments, self._durability.synced_offset)

    def _sync_inline(self) -> None:
        """Sync on the calling thread: at a roll, at the end, and for tools without a loop."""
        self._commits.settle()
        self._refuse_if_fenced()
        tail = self._segments.tail
        if self._durability.synced_offset < tail.next_offset or not tail.next_offset:
            job = self._durability.job(tail, with_tail=True)
            try:
                job.run()
            except StorageFailure as failure:
                self._fence_writes(failure)
                raise
            self._sync_succeeded(job)
            self._commits.release(job.offset)
        tail.index.save(keep=self._lag.window)
        tail.index.sync()

    # Inside: cutting. ----------------------------------------------------------------------------

    def _forget_what_was_cut(self) -> None:
        """The cut has happened: let go of the files, and tell those who wait."""
        self._damage = None
        self._segments.forget_descriptors()
        self._answer_journal(None)  # appended, then forgotten: both succeeded
        self._commits.abandon(None)

    def _reload(self) -> None:
        """Load what a cut has left; when that fails, nothing is held."""
        try:
            self._load()
        except StorageFailure:
            self._reset()
            raise
