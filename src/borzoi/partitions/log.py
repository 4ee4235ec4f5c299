"""The interface of the log that holds the messages of a partition.

`storage.log.SegmentedLog` keeps segments in local files. Another log may keep sealed segments
somewhere else, so `read` and `offset_at` may return futures; everything else is answered from
memory. `tests/support/log_conformance.py` checks what is promised here.
"""

from asyncio import Future
from collections.abc import Iterator, Sequence
from typing import Protocol

from borzoi.model.errors import StorageFailure
from borzoi.records.batch import Batch
from borzoi.storage.kept import KeptMessages
from borzoi.storage.reading import Reading
from borzoi.storage.segment import SegmentFacts
from borzoi.storage.segments import Removed


class Log(Protocol):
    """Messages in the order of their offsets, appended at the end and removed at the start.

    It has one owner on one event loop, which stamps batches before it appends them.
    """

    #: The offset of the next message.
    next_offset: int
    #: Readers see the messages below this offset: those that are acknowledged.
    visible_offset: int
    #: The timestamp of the last message.
    last_timestamp: int
    #: Another number, which no other log has, whenever messages may have gone: deleted, purged, cut
    #: off, or with the log itself.
    edition: int

    @property
    def first_offset(self) -> int:
        """The offset of the oldest message, or of the next one when there is none."""
        ...

    @property
    def generation(self) -> int:
        """Grows with every purge. An offset means a message only together with its generation."""
        ...

    @property
    def messages_count(self) -> int:
        """How many messages readers see."""
        ...

    @property
    def size(self) -> int:
        """Bytes of all messages, those that are not written yet included."""
        ...

    @property
    def segments_count(self) -> int: ...

    @property
    def fenced(self) -> StorageFailure | None:
        """Why appends are refused until the log is opened again, if they are."""
        ...

    def segments(self) -> Sequence[SegmentFacts]:
        """Oldest first; the last one is open, the others are sealed."""
        ...

    def ensure_writable(self) -> None:
        """Raise what `append` would raise; called before a batch is stamped."""
        ...

    def append(
        self, batch: Batch, timestamp: int | None = None, is_part: bool = False
    ) -> "Future[None] | None":
        """Add a stamped batch whose first offset is `next_offset`.

        When it `is_part` of a send, all parts stay in one segment, and `end_send` is called behind
        the last one.

        None when it is acknowledged. Otherwise a future that resolves when it is, or fails with
        what prevented it; the bytes of the batch must not change until then. `timestamp` is the
        one that all messages carry, when they carry the same.
        """
        ...

    def write_ahead(self, batch: Batch) -> Iterator[None]:
        """Write the batch that is appended next, a step at a time. Nothing else may be appended in
        between."""
        ...

    def end_send(self) -> None:
        """All parts of a send are appended: the segment may end here."""
        ...

    def barrier(self) -> "Future[None] | None":
        """None when everything appended is acknowledged, else a future that resolves when it is."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether no sync is running or requested."""
        ...

    def flush(self, *, sync: bool = False) -> "Future[None] | None":
        """Write what is only in memory; with `sync` also force it to the disk."""
        ...

    def read(
        self, offset: int, count: int, size_max: int | None = None
    ) -> "Reading | Future[Reading]":
        """Read up to `count` visible messages from `offset` on, or from the oldest one left.

        `size_max` bounds their bytes; the first message is returned whatever its size.
        """
        ...

    def kept(self, offset: int, end: int) -> KeptMessages | None:
        """Visible messages offset..end in memory, and those behind them, for a consumer that polls
        few at a time. They may be used while the log has the `edition` they carry. None when they
        are not few, or nothing is gained."""
        ...

    def ends(self, offset: int, end: int, step: int) -> Sequence[int]:
        """Where every `step`-th of the visible messages offset..end ends, as far as they follow the
        message before `offset` in its file; nothing if they are in no plain file."""
        ...

    def offset_at(self, timestamp: int) -> "int | Future[int]":
        """The offset of the first visible message that is not older than `timestamp`;
        `visible_offset` when all are older."""
        ...

    def delete_segments(self, count: int) -> Removed:
        """Remove up to `count` of the oldest segments, but never the open one, nor messages that
        are not acknowledged."""
        ...

    def purge(self) -> None:
        """Remove every message, also from a damaged log. The next one gets offset 0, in a higher
        generation."""
        ...

    def close(self) -> None:
        """Write and sync what is left; the log is not usable afterwards."""
        ...

    def abandon(self, *, purged: bool = False) -> None:
        """Close without writing: the messages are about to be removed.

        Pending appends fail; when the log is `purged` they succeed, because the messages were
        appended and then removed.
        """
        ...
