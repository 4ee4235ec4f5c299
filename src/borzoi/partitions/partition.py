"""A partition: its log, its offsets, and what guards the way in and out.

It has one owner on one event loop, so each call runs to its end before the next begins. A call
that returns None is done; an awaitable is what the answer must wait for.
"""

from collections.abc import Awaitable

from borzoi.model.consuming import ConsumerKind, PollingKind, PollingStrategy
from borzoi.model.errors import InvalidOffset, StorageFailure
from borzoi.model.namespace import Namespace
from borzoi.partitions.appending import Appender
from borzoi.partitions.deduplication import Deduplicator
from borzoi.partitions.polling import Polled, start_of, with_clear_bodies
from borzoi.partitions.statistics import PartitionStatistics, current_offset_of, statistics_of
from borzoi.records.batch import Batch, NewIds
from borzoi.security.encryption import Cipher
from borzoi.storage.commits import Waiter
from borzoi.storage.log import SegmentedLog
from borzoi.storage.offsets import ConsumerOffsets
from borzoi.storage.retention import deletable, expired
from borzoi.storage.segments import Removed


class Partition:
    """What one partition of a topic can be asked."""

    __slots__ = ("_appender", "_cipher", "_deduplicator", "log", "namespace", "offsets")

    def __init__(
        self,
        namespace: Namespace,
        log: SegmentedLog,
        offsets: ConsumerOffsets,
        *,
        new_ids: NewIds,
        deduplicator: Deduplicator | None = None,
        cipher: Cipher | None = None,
    ) -> None:
        self.namespace = namespace
        self.log = log
        self.offsets = offsets
        self._deduplicator = deduplicator
        self._cipher = cipher
        self._appender = Appender(log, new_ids, deduplicator, cipher)
        self._fit_offsets()

    @property
    def current_offset(self) -> int:
        return current_offset_of(self.log)

    @property
    def statistics(self) -> PartitionStatistics:
        return statistics_of(self.log)

    @property
    def fenced(self) -> StorageFailure | None:
        """Why this partition takes no messages, if so."""
        return self.log.fenced

    def append(self, batch: Batch, *, now: int) -> Waiter | None:
        """Store a batch that `records.batch.receive` has checked; it is changed in place.

        None when it is acknowledged already. Otherwise its bytes must stay until the future is
        resolved. Raises, or resolves with, `StorageFailure` when nothing was stored.
        """
        return self._appender.append(batch, now=now)

    def poll(
        self,
        strategy: PollingStrategy,
        count: int,
        *,
        kind: ConsumerKind,
        consumer_id: int,
        auto_commit: bool = False,
        size_max: int | None = None,
    ) -> Polled:
        """Up to `count` messages; `consumer_id` is a consumer's key or the number of a group."""
        log = self.log
        stored = None
        if strategy.kind is PollingKind.NEXT:
            stored = self.offsets.load(kind, consumer_id)
        start = start_of(strategy, count, log, stored)
        reading = log.read(start, count, size_max=size_max)
        if self._cipher is not None:
            reading = with_clear_bodies(reading, self._cipher)
        committed = None
        if auto_commit and reading.count + reading.left_out:
            committed = self.offsets.store(kind, consumer_id, reading.last_offset)
        return Polled(reading, current_offset_of(log), committed)

    def store_offset(
        self, kind: ConsumerKind, consumer_id: int, offset: int
    ) -> Awaitable[None] | None:
        """Commit any offset up to the last message, also backwards."""
        if offset >= self.log.visible_offset:
            raise InvalidOffset(
                f"offset {offset} is behind the last message of partition {self.namespace}"
            )
        return self.offsets.store(kind, consumer_id, offset)

    def load_offset(self, kind: ConsumerKind, consumer_id: int) -> int | None:
        return self.offsets.load(kind, consumer_id)

    def delete_offset(self, kind: ConsumerKind, consumer_id: int) -> None:
        self.offsets.delete(kind, consumer_id)

    def flush(self, *, sync: bool = False) -> Waiter | None:
        """Write what is only in memory; with `sync` also wait for the disk."""
        waiter = self.log.flush(sync=sync)
        self.offsets.flush(sync=sync)
        return waiter

    def delete_segments(self, count: int, *, keep_unread: bool = True) -> Removed:
        """Remove up to `count` of the oldest sealed segments.

        With `keep_unread` a segment stays that the slowest stored offset has not passed.
        """
        allowed = deletable(self.log.segments(), barrier=self._barrier(keep_unread))
        return self.log.delete_segments(min(count, allowed))

    def expire(self, now: int, message_expiry: int, *, keep_unread: bool = True) -> Removed:
        """Remove the segments whose last message is older than `message_expiry` µs."""
        segments = self.log.segments()
        count = expired(segments, now=now, expiry=message_expiry)
        return self.log.delete_segments(
            min(count, deletable(segments, barrier=self._barrier(keep_unread)))
        )

    def barrier(self, *, keep_unread: bool = True) -> int | None:
        """The lowest stored offset when it holds back retention."""
        return self._barrier(keep_unread)

    def purge(self) -> None:
        """Forget all messages and all offsets; the next message gets offset 0."""
        # Offsets first: without messages they would make consumers skip the next ones.
        self.offsets.clear()
        self.log.purge()
        if self._deduplicator is not None:
            self._deduplicator.clear()

    def close(self) -> None:
        """Write and sync everything; the partition is not usable afterwards."""
        try:
            self.offsets.close()
        finally:
            self.log.close()

    def abandon(self, *, purged: bool = False) -> None:
        """Let go without writing anything: the partition is being deleted, or replaced by an
        empty one."""
        self.offsets.abandon()
        self.log.abandon(purged=purged)

    def _barrier(self, keep_unread: bool) -> int | None:
        return self.offsets.minimum() if keep_unread else None

    def _fit_offsets(self) -> None:
        """A crash may have taken messages that were committed already."""
        if self.log.fenced is not None:
            return
        if self.log.visible_offset:
            self.offsets.clamp(self.log.visible_offset - 1)
        else:
            self.offsets.clear()
