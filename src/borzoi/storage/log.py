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
from borzoi.storage import layout, recovery_point, truncation
from borzoi.storage.commits import GroupCommit, SyncPlan, Waiter, answer, running_loop
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.index import WINDOW_ENTRIES, entries_of
from borzoi.storage.journal import Journal, Pending
from borzoi.storage.media import File, Medium, write_all
from borzoi.storage.reading import Reading
from borzoi.storage.recovery import Inspection, OpenTwin, recover
from borzoi.storage.recovery_point import RecoveryPoint
from borzoi.storage.segment import Body, PlainBody, SegmentFacts
from borzoi.storage.segments import Removed, Segments
from borzoi.storage.settings import (
    DEFAULT_PARTITION,
    DEFAULT_SEGMENT,
    Acknowledge,
    CacheIndexes,
    PartitionSettings,
    SegmentSettings,
)
from borzoi.storage.syncing import InlineSyncer, Syncer

logger = logging.getLogger(__name__)

#: A batch of this size is written at once: sharing a system call would save nothing.
LARGE_BYTES: Final = 64 << 10
#: A partition lies this deep below the data directory, both counted.
DIRECTORIES_ON_THE_WAY: Final = 7
#: How far the index may lag: what recovery reads after a crash, and what it costs in memory.
LAG_ENTRIES: Final = 4096
LAG_BYTES: Final = 16 << 20


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
        "_closed",
        "_commits",
        "_damage",
        "_descriptors",
        "_dirty_directories",
        "_fence",
        "_indexed_size",
        "_journal",
        "_level",
        "_open_twin",
        "_point",
        "_point_is_durable",
        "_point_keeper",
        "_segment_settings",
        "_segments",
        "_settings",
        "_turn_is_open",
        "_unfinished",
        "_unsynced",
        "_visible",
        "_waiters",
        "_written_since_sync",
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
        self._commits = GroupCommit(syncer, self._sync_plan, self._fence_writes)
        self._waiters: list[tuple[int, Waiter]] = []
        self._turn_is_open = False
        self._point_keeper = recovery_point.PointKeeper(medium, directory)
        self._fence: StorageFailure | None = None
        self._damage: StorageFailure | None = None
        self._unfinished: truncation.Intent | None = None
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
        count = len(batch)
        if not count:
            return self.barrier()
        self.ensure_writable()
        self._make_room(count, batch.size)
        pending = self._pending(batch, timestamp)
        level = self._level
        if level is Acknowledge.BUFFERED:
            self._append_to_journal(pending)
            return None
        loop = running_loop()
        if loop is None:
            self._write_with_journal(pending)
            if level is Acknowledge.SYNCED:
                self._sync_inline()
            return None
        if level is Acknowledge.WRITTEN and (batch.size >= LARGE_BYTES or not self._turn_is_open):
            # The first of a turn is written at once, so a lone send is answered without a wait;
            # the ones that follow it in the same turn share one call.
            self._write_with_journal(pending)
            self._open_turn(loop)
            return None
        self._journal.push(pending)
        self.next_offset += count
        waiter = loop.create_future()
        self._waiters.append((self.next_offset, waiter))
        self._open_turn(loop)
        return waiter

    def barrier(self) -> Waiter | None:
        """None when everything appended so far is acknowledged, else what resolves when it is."""
        loop = running_loop()
        if loop is None or self._visible == self.next_offset:
            return None
        waiter = loop.create_future()
        if self._journal.count:
            self._waiters.append((self.next_offset, waiter))
        else:
            self._commits.wait(self.next_offset, waiter)
        return waiter

    def flush(self, *, sync: bool = False) -> Waiter | None:
        """Write what is only in memory: the journal, and index entries that lag.

        With `sync` everything written is on the disk when the future resolves, or already on None.
        """
        self.ensure_writable()
        self._save_journal()
        tail = self._segments.tail
        if self._level is not Acknowledge.SYNCED:
            tail.index.save(keep=self._window)
            self._indexed_size = tail.size
        else:
            tail.index.save(up_to=self._synced_entries(), keep=self._window)
        if not sync or not self._written_since_sync:
            return None
        loop = running_loop()
        if loop is None:
            self._sync_inline()
            return None
        waiter = loop.create_future()
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
        """Remove the oldest `count` segments, but never the open one."""
        self._ensure_readable()
        return self._segments.delete_oldest(count)

    def purge(self) -> None:
        """Forget every message, also those in memory; the next one gets offset 0.

        Also the way out for a log that was found damaged.
        """
        if self._fence is not None:
            raise self._fence
        self._cut(truncation.PURGE)

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
        if kept and segment.sealed and not isinstance(segment.body, PlainBody):
            self._segments.inflate(segment)
        segment.index.save()
        position = segment.index.end_position(kept - 1)
        self._cut(truncation.Intent(segment.start_offset, position, kept))

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
            if failure is None and self._unfinished is None:
                self._save_journal()
                self._sync_inline()
        except StorageFailure as error:
            failure = error
            raise
        finally:
            self._commits.abandon(failure)
            self._reset()

    # Inside: the state. --------------------------------------------------------------------------

    def _reset(self) -> None:
        """As if nothing had been loaded."""
        self._segments = Segments(self.directory, self.medium, self._descriptors)
        self._journal.clear()
        self._indexed_size = 0
        self._unsynced: list[File] = []
        self._dirty_directories: list[Path] = []
        self._written_since_sync = False
        self._point: RecoveryPoint | None = None
        self._point_is_durable = False
        self._visible = 0
        self.next_offset = 0
        self.last_timestamp = 0

    def _load(self) -> None:
        """Take the log as it lies on the medium, repaired."""
        self._reset()
        medium, directory = self.medium, self.directory
        medium.make_directory(directory)
        # Whoever made them, and whatever happened since: the first sync takes the names on the
        # way to this log along.
        self._dirty_directories = [directory, *directory.parents][:DIRECTORIES_ON_THE_WAY]
        intent = truncation.pending(medium, directory)
        if intent is not None:
            truncation.carry_out(medium, directory, intent)
        point = recovery_point.load(medium, directory)
        proven = self._level is Acknowledge.SYNCED
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
        self._indexed_size = tail.size
        self.last_timestamp = self._segments.end_timestamp
        self._settle_point(point)

    def _begin_segment(self) -> None:
        """Append to a new segment from now on; the old one is sealed."""
        self._segments.begin(self._segments.tail.next_offset)
        self._indexed_size = 0
        self._dirty_directories = [*{*self._dirty_directories, self.directory}]
        if self._level is Acknowledge.SYNCED:
            for directory in self._dirty_directories:
                self.medium.fsync_directory(directory)
            self._dirty_directories = []

    def _settle_point(self, point: RecoveryPoint | None) -> None:
        """Make the recovery point say what is true from now on."""
        tail, boot_id = self._segments.tail, self.medium.boot_id
        known = point.segment_start if point is not None else tail.start_offset
        for segment in self._segments:
            if known <= segment.start_offset < tail.start_offset and segment.log_path_is_plain:
                self._unsynced += [
                    self._descriptors.file(segment.log_path),
                    self._descriptors.file(segment.index.path),
                ]
        self._written_since_sync = True
        if self._level is Acknowledge.SYNCED:
            # What a crash left in the page cache is readable from now on, so it must be safe.
            self._sync_inline()
            settled = RecoveryPoint(tail.start_offset, tail.size, True, boot_id)
            if point != settled:
                self._point_keeper.settle(settled)
            self._point_is_durable = True
        elif point is None:
            # Not synced: if a power cut takes it, the one segment there is will be read.
            settled = RecoveryPoint(tail.start_offset, 0, False, boot_id)
            self._point_keeper.note(settled)
        elif point.proven_by_index:
            settled = RecoveryPoint(known, 0, False, boot_id)
            self._point_keeper.settle(settled)
            self._point_is_durable = True
        else:
            settled = point._replace(boot_id=boot_id)
            if settled != point:
                self._point_keeper.settle(settled)
                self._point_is_durable = True
        self._point = settled

    # Inside: writing. ----------------------------------------------------------------------------

    def _ensure_readable(self) -> None:
        if self._damage is not None:
            raise StorageFailure(str(self._damage))
        if self._unfinished is not None:
            self._finish_cut(self._unfinished)

    def ensure_writable(self) -> None:
        """Raise what an append would raise; call it before numbering a batch."""
        if self._fence is not None:
            raise type(self._fence)(str(self._fence))
        self._ensure_readable()

    def _fence_writes(self, failure: StorageFailure) -> None:
        """Refuse appends until the log is opened again.

        After a failed sync the kernel may have dropped the bytes and marked them clean, so a second
        sync of the same file would succeed and prove nothing.
        """
        if self._fence is None:
            self._fence = failure
            logger.error("partition %s takes no more messages: %s", self.directory, failure)

    @property
    def _window(self) -> int:
        """How many saved index entries of the open segment stay in memory."""
        cache = self._segment_settings.cache_indexes
        return 0 if cache is CacheIndexes.NONE else WINDOW_ENTRIES

    def _pending(self, batch: Batch, timestamp: int | None) -> Pending:
        relative_offset = self.next_offset - self._segments.tail.start_offset
        position = self._segments.tail.size + self._journal.size
        if timestamp is None:
            timestamps = batch.timestamps()
            first, last = int(timestamps[0]), int(timestamps[-1])
            entries = entries_of(batch, relative_offset=relative_offset, position=position)
        else:
            first = last = timestamp
            entries = index_entries(
                batch, relative_offset=relative_offset, position=position, timestamp=timestamp
            )
        self.last_timestamp = max(last, self.last_timestamp)
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
            self._roll()

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

    def _open_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._turn_is_open:
            self._turn_is_open = True
            loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._turn_is_open = False
        if self._journal.count and self._level is not Acknowledge.BUFFERED:
            try:
                self._save_journal()
            except StorageFailure:
                return  # told to everyone who waits

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
        waiters, self._waiters = self._waiters, []
        try:
            self._write(journal.pending)
        except StorageFailure as failure:
            if self._level is not Acknowledge.BUFFERED:
                journal.clear()
                self.next_offset = self._segments.tail.next_offset
                for _, waiter in waiters:
                    answer(waiter, failure)
            raise
        journal.clear()
        if self._level is Acknowledge.SYNCED:
            for offset, waiter in waiters:
                self._commits.wait(offset, waiter)
            self._commits.request()
            return
        for _, waiter in waiters:
            answer(waiter)

    def _write(self, pending: list[Pending]) -> None:
        """Put batches at the end of the open segment: all of them, or none."""
        tail = self._segments.tail
        assert tail.file is not None
        try:
            write_all(tail.file, [each.batch.messages for each in pending], tail.size)
        except StorageFailure:
            self._undo_write(tail.file, tail.size)
            raise
        for batch, entries, _, first_timestamp, last_timestamp in pending:
            tail.extend(entries, batch.size, first_timestamp, last_timestamp)
        self._written_since_sync = True
        if self._level is Acknowledge.WRITTEN:
            self._visible = tail.next_offset
        if self._level is not Acknowledge.SYNCED and (
            tail.index.unsaved >= LAG_ENTRIES or tail.size - self._indexed_size >= LAG_BYTES
        ):
            self._save_lagging_index(tail.index.count)

    def _undo_write(self, file: File, size: int) -> None:
        """Cut off what a failed write left behind, for good, or accept nothing any more."""
        try:
            file.truncate(size)
            file.fdatasync()
        except StorageFailure as failure:
            self._fence_writes(failure)

    def _save_lagging_index(self, up_to: int) -> None:
        """Save index entries; what fails here is tried again, the log alone could rebuild them."""
        try:
            self._segments.tail.index.save(up_to=up_to, keep=self._window)
            self._indexed_size = self._segments.tail.size
        except StorageFailure as failure:
            logger.warning("the index of %s lags: %s", self.directory, failure)

    def _roll(self) -> None:
        """Seal the open segment and begin the next one."""
        full = self._segments.tail
        assert full.file is not None
        try:
            if self._level is Acknowledge.SYNCED:
                self._sync_inline()
            else:
                full.index.save(keep=self._window)
                if not self._point_is_durable and self._point is not None:
                    # With a second segment recovery has to know which one to read.
                    self._point_keeper.settle(self._point)
                    self._point_is_durable = True
            file, index = full.file, full.index
            self._begin_segment()
        except CannotSync as failure:
            self._fence_writes(failure)
            raise
        if self._segment_settings.cache_indexes is not CacheIndexes.ALL:
            index.save(keep=0)
        if self._level is not Acknowledge.SYNCED:
            self._unsynced += [file, self._descriptors.file(index.path)]
            self._commits.request()

    # Inside: syncing. ----------------------------------------------------------------------------

    def _synced_entries(self) -> int:
        """How many entries of the open segment name messages that are on the disk."""
        return max(self._visible - self._segments.tail.start_offset, 0)

    def _sync_inline(self) -> None:
        """Sync on the calling thread: at a roll, at the end, and for tools without a loop."""
        if self._written_since_sync:
            plan = self._sync_plan(True)
            try:
                plan.job()
            except StorageFailure as failure:
                self._fence_writes(failure)
                self._commits.abandon(failure)
                raise
            plan.succeeded()
            self._commits.release(plan.offset)
        index = self._segments.tail.index
        if index.unsaved:
            index.save(keep=self._window)
        index.sync()

    def _sync_plan(self, with_open: bool) -> SyncPlan:
        """What the next sync has to do; called on the loop, run on another thread."""
        tail = self._segments.tail
        assert tail.file is not None
        sealed, directories = tuple(self._unsynced), tuple(self._dirty_directories)
        files = (*sealed, tail.file) if with_open else sealed
        size = tail.size if with_open else 0
        offset = tail.next_offset if with_open else tail.start_offset
        point = None
        if self._level is not Acknowledge.SYNCED:
            point = RecoveryPoint(tail.start_offset, size, False, self.medium.boot_id)
        job = partial(
            _sync,
            self.medium,
            files,
            directories,
            self._point_keeper,
            self._point_keeper.version,
            point,
        )

        def succeeded() -> None:
            del self._unsynced[: len(sealed)]
            self._dirty_directories = [
                path for path in self._dirty_directories if path not in directories
            ]
            if point is not None:
                self._point, self._point_is_durable = point, True
            if self._level is Acknowledge.SYNCED:
                self._visible = max(self._visible, offset)
                if self._synced_entries() - self._segments.tail.index.saved >= LAG_ENTRIES:
                    self._save_lagging_index(self._synced_entries())
            if with_open and tail is self._segments.tail and tail.next_offset == offset:
                self._written_since_sync = False

        return SyncPlan(job, offset, succeeded)

    # Inside: cutting. ----------------------------------------------------------------------------

    def _cut(self, intent: truncation.Intent) -> None:
        try:
            truncation.declare(self.medium, self.directory, intent)
        except StorageFailure:
            if self.medium.exists(self.directory / layout.INTENT):
                # Declared, perhaps not for good. What may happen must happen: the next call that
                # needs the log finishes it.
                self._unfinished = intent
            raise
        self._finish_cut(intent)

    def _finish_cut(self, intent: truncation.Intent) -> None:
        self._unfinished = intent
        with self._point_keeper.cutting():
            truncation.carry_out(self.medium, self.directory, intent)
        self._unfinished = None
        self._damage = None
        self._segments.forget_descriptors()
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            answer(waiter)  # appended, then forgotten: both succeeded
        self._commits.abandon(None)
        try:
            self._load()
        except StorageFailure as damage:
            self._reset()
            self._damage = damage
            raise


def _sync(
    medium: Medium,
    files: tuple[File, ...],
    directories: tuple[Path, ...],
    keeper: recovery_point.PointKeeper,
    version: int,
    point: RecoveryPoint | None,
) -> None:
    """The job of a sync: runs on another thread and touches nothing but its arguments."""
    for file in files:
        file.fdatasync()
    for directory in directories:
        medium.fsync_directory(directory)
    if point is not None:
        keeper.advance(point, version)
