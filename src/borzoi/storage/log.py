"""SegmentedLog: the messages of one partition, in order, on a medium.

It lives on one event loop and has one owner, so it takes no locks; only syncs leave the loop.
Readers see the messages below `visible_offset`. `storage/log_writing.py` decides what is written
when, and `storage/log_files.py` owns the files.
"""

from pathlib import Path

from borzoi.model.errors import InvalidOffset, StorageFailure
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.idle import IdleWork
from borzoi.storage.kept import KeptMessages
from borzoi.storage.log_files import LogFiles
from borzoi.storage.log_writing import EDITIONS, LogWriter
from borzoi.storage.media import Medium
from borzoi.storage.reading import Reading
from borzoi.storage.recovery import OpenTwin
from borzoi.storage.segment import Body, SegmentFacts
from borzoi.storage.segments import Removed
from borzoi.storage.settings import (
    DEFAULT_PARTITION,
    DEFAULT_SEGMENT,
    Acknowledge,
    PartitionSettings,
    SegmentSettings,
)
from borzoi.storage.syncing import InlineSyncer, Once, Syncer


def open_log(
    directory: Path,
    medium: Medium,
    *,
    segment: SegmentSettings = DEFAULT_SEGMENT,
    partition: PartitionSettings = DEFAULT_PARTITION,
    syncer: Syncer | None = None,
    descriptors: Descriptors | None = None,
    open_twin: OpenTwin | None = None,
    generation: int = 0,
    idle: IdleWork | None = None,
) -> "SegmentedLog":
    """Open the log of a directory, after any kind of crash; it is created if missing.

    Messages of an earlier generation than `generation` are removed: they were purged. With `idle`
    index entries are also saved in idle moments, not only with later ones.

    Never raises for what it finds there: a log that cannot be repaired comes back fenced, and
    each call that needs its messages raises `StorageFailure` with the reason. `DiskFull` when it
    has to write something and there is no space: the same call may succeed later.
    """
    files = LogFiles(
        directory,
        medium,
        segment,
        partition,
        InlineSyncer() if syncer is None else syncer,
        Descriptors(medium, 16) if descriptors is None else descriptors,
        open_twin,
        generation,
        idle,
    )
    return SegmentedLog(files, partition)


class SegmentedLog(LogWriter):
    """Segments in the order of their offsets; the last one is open, the others are sealed.

    Invariant: segment k ends where segment k + 1 begins.
    """

    __slots__ = ()

    # What it holds. ------------------------------------------------------------------------------

    @property
    def first_offset(self) -> int:
        """The offset of the oldest message, or of the next one when there is none."""
        return self._files.segments.first_offset

    @property
    def generation(self) -> int:
        """Grows with every purge. An offset means a message only together with its generation."""
        return self._files.durability.generation

    @property
    def messages_count(self) -> int:
        return self.visible_offset - self.first_offset

    @property
    def size(self) -> int:
        """Bytes of all messages, those in the journal included."""
        segments = self._files.segments
        return segments.sealed_size + segments.tail.size + self._journal.size

    @property
    def segments_count(self) -> int:
        return len(self._files.segments)

    @property
    def fenced(self) -> StorageFailure | None:
        """Why appends are refused until the log is opened again, if they are."""
        return self._files.damage or self._files.fence

    @property
    def acknowledge(self) -> Acknowledge:
        return self._level

    @property
    def is_settled(self) -> bool:
        """Whether no sync is running or requested."""
        return self.visible_offset == self.next_offset and not self._files.commits.is_running

    def segments(self) -> list[SegmentFacts]:
        """Oldest first; the open one is last."""
        return self._files.segments.facts()

    # Reading. ------------------------------------------------------------------------------------

    def read(self, offset: int, count: int, size_max: int | None = None) -> Reading:
        """Read up to `count` messages from `offset` on, or from the oldest if that was removed.

        `size_max` bounds the bytes; the first message is returned whatever its size.
        """
        files = self._files
        if files.damage is not None or files.cutting.due:
            files.ensure_readable()
        segments = files.segments
        if offset < segments.first_offset:
            offset = segments.first_offset
        end = offset + count
        if end > self.visible_offset:
            end = self.visible_offset
        reading = Reading(offset)
        if offset < end and segments.read(reading, offset, end, size_max):
            offset += reading.count
            if offset < end:
                self._journal.read(reading, offset, end, size_max)
        return reading

    def kept(self, offset: int, end: int) -> KeptMessages | None:
        """Visible messages offset..end in memory, and those behind them, which may be used while
        the log has the `edition` they carry. None when they are not few."""
        self._files.ensure_readable()
        kept = self._files.segments.kept(offset, end)
        if kept is not None:
            kept.edition = self.edition
        return kept

    def ends(self, offset: int, end: int, step: int) -> list[int]:
        """Where every `step`-th of the messages offset..end ends, as far as they follow the message
        before `offset` in its file. All of them are visible."""
        self._files.ensure_readable()
        segment = self._files.segments.holding(offset - 1)
        start, index = segment.start_offset, segment.index
        stop = min(end, segment.next_offset)
        return [index.end_position(n) for n in range(offset - start + step - 1, stop - start, step)]

    def offset_at(self, timestamp: int) -> int:
        """The offset of the first visible message that is not older than `timestamp`.

        `visible_offset` when all are older.
        """
        self._files.ensure_readable()
        found = self._files.segments.offset_at(timestamp, self.visible_offset)
        if found is None:
            found = self._journal.first_at_or_after(timestamp)
        return self.visible_offset if found is None else min(found, self.visible_offset)

    # Removing. -----------------------------------------------------------------------------------

    def delete_segments(self, count: int) -> Removed:
        """Remove the oldest `count` segments, but never the open one or unacknowledged messages."""
        self._files.ensure_readable()
        self.edition = next(EDITIONS)
        return self._files.segments.delete_oldest(count, self.visible_offset)

    def purge(self) -> None:
        """Remove every message, also those in memory. The next one gets offset 0, in a higher
        generation.

        Also repairs a damaged log.
        """
        self.edition = next(EDITIONS)
        self._files.purge()

    def truncate(self, offset: int) -> None:
        """Remove the messages from `offset` on; the next one gets this offset."""
        self.ensure_writable()
        if not self.first_offset <= offset <= self.next_offset:
            raise InvalidOffset(
                f"{offset} is not within {self.first_offset}..{self.next_offset}, what"
                f" {self.directory} holds"
            )
        self._save_journal()
        self.edition = next(EDITIONS)
        self._files.cut(offset)

    def adopt_twin(self, start_offset: int, body: Body) -> None:
        """Read a sealed segment from its compressed twin from now on; the plain log is removed."""
        self._files.segments.adopt_twin(start_offset, body)

    def share_syncs(self, syncs: dict[Path, Once]) -> None:
        """Sync the directories above once for all logs that get the same `syncs`, all of them
        before one of them syncs."""
        self._files.durability.share(syncs)

    def close(self) -> None:
        """Write and sync what is left; the log is not usable afterwards."""
        files = self._files
        if files.is_closed:
            return
        failure = files.why_not_to_save()
        try:
            if failure is None:
                self._save_journal()
                files.save()
        except StorageFailure as error:
            failure = error
            raise
        finally:
            files.close(failure)

    def abandon(self, *, purged: bool = False) -> None:
        """Close without writing or syncing: the directory is about to be removed.

        Pending appends fail; when the log was purged they succeed, because the messages were
        appended and then removed.
        """
        if not self._files.is_closed:
            self._files.abandon(purged=purged)
