"""A partition: its log, its offsets, deduplication and encryption.

It has one owner on one event loop, so each call runs to its end before the next begins. A call
that returns its answer is done; one that must wait for the disk returns a future.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from borzoi.model.consuming import ConsumerKind, PollingKind, PollingStrategy
from borzoi.model.errors import InvalidOffset, StorageFailure
from borzoi.model.namespace import Namespace
from borzoi.partitions.appending import PIECE_BYTES_MAX, Appender, Stamped
from borzoi.partitions.arrivals import Arrivals
from borzoi.partitions.decrypting import (
    clear_bodies_found_out,
    is_decrypted_at_once,
    with_clear_bodies,
)
from borzoi.partitions.deduplication import Deduplicator
from borzoi.partitions.futures import after, arrived
from borzoi.partitions.log import Log
from borzoi.partitions.long_appends import LongAppends
from borzoi.partitions.polling import Polled, start_of
from borzoi.partitions.statistics import PartitionStatistics, current_offset_of, statistics_of
from borzoi.partitions.turns import Work, turns
from borzoi.records.batch import Batch, NewIds
from borzoi.security.encryption import Cipher
from borzoi.storage.offsets import ConsumerOffsets
from borzoi.storage.reading import Reading
from borzoi.storage.retention import deletable
from borzoi.storage.segment import SegmentFacts
from borzoi.storage.segments import Removed

#: By names of their own, because looking up a member of an enumeration takes a tenth of a µs.
OFFSET: Final = PollingKind.OFFSET
NEXT: Final = PollingKind.NEXT
GROUP: Final = ConsumerKind.GROUP

#: Returns how many of the given number of oldest segments may be deleted.
Deletable: TypeAlias = Callable[[Namespace, Sequence[SegmentFacts], int], int]


class Partition:
    """One partition of a topic."""

    __slots__ = (
        "_appender",
        "_archived",
        "_cipher",
        "_deduplicator",
        "_is_abandoned",
        "_keep_unread",
        "_long_appends",
        "_piece_messages_max",
        "_polled",
        "arrivals",
        "log",
        "namespace",
        "offsets",
    )

    def __init__(
        self,
        namespace: Namespace,
        log: Log,
        offsets: ConsumerOffsets,
        *,
        new_ids: NewIds,
        deduplicator: Deduplicator | None = None,
        cipher: Cipher | None = None,
        keep_unread: bool = True,
        archived: Deletable | None = None,
    ) -> None:
        self.namespace = namespace
        self.log = log
        self.offsets = offsets
        #: Whether retention keeps segments that the slowest stored offset has not passed.
        self._keep_unread = keep_unread
        #: If only archived segments may be deleted: returns how many of the oldest are archived.
        self._archived = archived
        #: The last offset polled by each group: what a handover to another member waits for.
        self._polled: dict[int, int] = {}
        self._is_abandoned = False
        self._deduplicator = deduplicator
        self._cipher = cipher
        self._appender = Appender(log, new_ids, deduplicator, cipher)
        self._piece_messages_max = self._appender.piece_messages_max
        #: While sends are stored in pieces; what else is sent stands behind them.
        self._long_appends: LongAppends | None = None
        #: Consumers that wait for messages.
        self.arrivals = Arrivals()
        self._fit_offsets()

    @property
    def current_offset(self) -> int:
        return current_offset_of(self.log)

    @property
    def statistics(self) -> PartitionStatistics:
        return statistics_of(self.log)

    @property
    def fenced(self) -> StorageFailure | None:
        """Why this partition accepts no messages, if so."""
        return self.log.fenced

    @property
    def is_plain(self) -> bool:
        """Whether its messages are delivered as they are stored."""
        return self._cipher is None

    def append(self, batch: Batch, now: int) -> "asyncio.Future[None] | None":
        """Stamp and store a batch that `records.batch.receive` has checked; it is changed in place.

        None when it is acknowledged already. Otherwise its bytes must stay until the future is
        resolved. Raises, or resolves with, `StorageFailure` when nothing was stored, or not all of
        a batch that is stored in pieces.
        """
        if (
            batch.count > self._piece_messages_max
            or batch.size > PIECE_BYTES_MAX
            or self._long_appends is not None
        ):
            return self._append_in_pieces(batch, now)
        waiter = self._appender.append(batch, now)
        if self.arrivals.waiting:
            self._announce(waiter)
        return waiter

    def _append_in_pieces(self, batch: Batch, now: int) -> "asyncio.Future[None]":
        if self._long_appends is None:
            self._long_appends = LongAppends(self._appender, self._appended, self._pieces_ended)
        return self._long_appends.add(batch, now)

    def _appended(self, waiter: "asyncio.Future[None] | None") -> None:
        if self.arrivals.waiting:
            self._announce(waiter)

    def _pieces_ended(self) -> None:
        self._long_appends = None

    def append_stamped(self, stamped: Stamped) -> "asyncio.Future[None] | None":
        """Store a batch that the owner of another replica has stamped, byte for byte."""
        if self._deduplicator is not None:
            batch, now = stamped.batch, stamped.timestamp
            self._deduplicator.warm(batch.ids(), batch.timestamps(), now)
        waiter = self.log.append(stamped.batch, timestamp=stamped.timestamp)
        if self.arrivals.waiting:
            self._announce(waiter)
        return waiter

    def _announce(self, waiter: "asyncio.Future[None] | None") -> None:
        """Wake pending polls once the messages can be read."""
        if waiter is None:
            self.arrivals.wake()
        else:
            waiter.add_done_callback(lambda _: self.arrivals.wake())

    def poll(
        self,
        strategy: PollingStrategy,
        count: int,
        kind: ConsumerKind,
        consumer_id: int,
        auto_commit: bool = False,
        size_max: int | None = None,
    ) -> "Polled | asyncio.Future[Polled]":
        """Up to `count` messages; `consumer_id` is a consumer's key or the number of a group.

        With `auto_commit` the commit comes before the delivery: a poll that cannot commit fails.
        """
        log = self.log
        start: int | asyncio.Future[int] = strategy.value
        if strategy.kind is not OFFSET:
            stored = self.offsets.load(kind, consumer_id) if strategy.kind is NEXT else None
            start = start_of(strategy, count, log, stored)
        if isinstance(start, int):
            reading = log.read(start, count, size_max)
            if isinstance(reading, Reading):
                cipher = self._cipher
                is_plain = cipher is None and not reading.tail
                if is_plain and not auto_commit and kind is not GROUP:
                    visible = log.visible_offset
                    return Polled(reading, visible - 1 if visible else 0)
                if is_plain or self._is_ready(reading):
                    if cipher is not None:
                        reading = with_clear_bodies(reading, cipher)
                    return self._delivered(reading, kind, consumer_id, auto_commit)
        later = self._poll_later(start, count, kind, consumer_id, auto_commit, size_max)
        return asyncio.ensure_future(later)

    async def _poll_later(
        self,
        start: "int | asyncio.Future[int]",
        count: int,
        kind: ConsumerKind,
        consumer_id: int,
        auto_commit: bool,
        size_max: int | None,
    ) -> Polled:
        """The same where bytes have to be fetched or produced first."""
        found = await arrived(self.log.read(await arrived(start), count, size_max))
        ready = await turns().work(self._made_ready(found))
        return await arrived(self._delivered(ready, kind, consumer_id, auto_commit))

    def _is_ready(self, reading: Reading) -> bool:
        """Whether an answer can be produced quickly."""
        if self._cipher is not None and not is_decrypted_at_once(reading):
            return False
        return not reading.tail or not reading.must_be_checked

    def _made_ready(self, reading: Reading) -> Work[Reading]:
        """Validate a reading whose bytes have to be produced: read errors become the status of the
        answer, and messages that cannot be decrypted do not count."""
        yield from reading.checks()
        if self._cipher is None:
            return reading
        return (yield from clear_bodies_found_out(reading, self._cipher))

    def _delivered(
        self, reading: Reading, kind: ConsumerKind, consumer_id: int, auto_commit: bool
    ) -> "Polled | asyncio.Future[Polled]":
        """The answer to a poll: committed, and marked as polled by its group."""
        committed = None
        if auto_commit and reading.count + reading.left_out:
            committed = self.offsets.store(kind, consumer_id, reading.last_offset)
        if kind is GROUP and reading.count:
            self._mark_polled(consumer_id, reading.last_offset)
        polled = Polled(reading, current_offset_of(self.log))
        return polled if committed is None else after(committed, polled)

    def is_settled(self, group_id: int) -> bool:
        """Whether the group has committed everything it polled."""
        polled = self._polled.get(group_id)
        if polled is None:
            return True
        stored = self.offsets.load(ConsumerKind.GROUP, group_id)
        return stored is not None and stored >= polled

    def forget_polled(self, group_id: int) -> None:
        """Reset what the group polled: its members have changed, or it was deleted."""
        self._polled.pop(group_id, None)

    def store_offset(
        self, kind: ConsumerKind, consumer_id: int, offset: int
    ) -> "asyncio.Future[None] | None":
        """Commit any offset up to the last message, also backwards."""
        if offset >= self.log.visible_offset:
            raise InvalidOffset(
                f"offset {offset} is beyond the last message of partition {self.namespace}"
            )
        assert offset >= 0, "an offset on the disk is unsigned"
        return self.offsets.store(kind, consumer_id, offset)

    def load_offset(self, kind: ConsumerKind, consumer_id: int) -> int | None:
        return self.offsets.load(kind, consumer_id)

    def delete_offset(self, kind: ConsumerKind, consumer_id: int) -> None:
        self.offsets.delete(kind, consumer_id)

    def flush(self, *, sync: bool = False) -> "asyncio.Future[None] | None":
        """Write what is only in memory; with `sync` also wait for the disk."""
        waiter = self.log.flush(sync=sync)
        self.offsets.flush(sync=sync)
        return waiter

    def delete_segments(self, count: int) -> Removed:
        """Remove up to `count` of the oldest sealed segments that retention may remove."""
        allowed = deletable(self.log.segments(), barrier=self.barrier())
        return self.log.delete_segments(min(count, allowed))

    async def delete_oldest(self, count: int) -> Removed:
        """The same one segment at a time, because each removal waits for the disk: requests run
        in between. Ends early when the partition is abandoned meanwhile."""
        segments = messages = size = 0
        end = self._archived_end(count)
        for _ in range(count):
            # An offset, not a count: others may delete segments meanwhile.
            if end is not None and self.log.first_offset >= end:
                break
            removed = self.delete_segments(1)
            segments += removed.segments
            messages += removed.messages
            size += removed.size
            await asyncio.sleep(0)
            if not removed.segments or self._is_abandoned:
                break
        return Removed(segments, messages, size)

    def _archived_end(self, count: int) -> int | None:
        """Where the archived ones of the `count` oldest segments end; None without an archive."""
        if self._archived is None:
            return None
        segments = self.log.segments()
        wanted = min(count, deletable(segments, barrier=self.barrier()))
        archived = self._archived(self.namespace, segments, wanted) if wanted else 0
        return segments[archived].start_offset

    def barrier(self) -> int | None:
        """The lowest stored offset, when it holds back retention."""
        return self.offsets.minimum() if self._keep_unread else None

    def purge(self) -> None:
        """Remove all messages and all offsets; the next message gets offset 0."""
        # Offsets first: without messages they would make consumers skip the next ones.
        self.offsets.clear()
        self.log.purge()
        self._polled.clear()
        if self._deduplicator is not None:
            self._deduplicator.clear()

    def close(self) -> None:
        """Write and sync everything; the partition is not usable afterwards."""
        self.arrivals.wake()
        self._end_pieces(purged=False)
        try:
            self.offsets.close()
        finally:
            self.log.close()

    def abandon(self, *, purged: bool = False) -> None:
        """Discard the partition without writing: it is deleted, or replaced by an empty one."""
        self._is_abandoned = True
        self.arrivals.wake()
        self._end_pieces(purged=purged)
        self.offsets.abandon()
        self.log.abandon(purged=purged)

    def _end_pieces(self, *, purged: bool) -> None:
        if self._long_appends is not None:
            self._long_appends.end(purged=purged)

    def _mark_polled(self, group_id: int, offset: int) -> None:
        marks = self._polled
        marks[group_id] = max(offset, marks.get(group_id, 0))

    def _fit_offsets(self) -> None:
        """Adjust offsets: a crash may have lost messages that were committed already."""
        if self.log.fenced is not None:
            return
        if self.log.visible_offset:
            self.offsets.clamp(self.log.visible_offset - 1)
        elif self.offsets.found_files:
            self.offsets.clear()
