"""One .log/.index pair: its bounds, its size, open or sealed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from borzoi.model.value import Value
from borzoi.storage.descriptors import OnDemandFile
from borzoi.storage.index import SegmentIndex
from borzoi.storage.layout import log_name
from borzoi.storage.reading import SLICE_BYTES, FileRange, Produced

#: Space is preallocated from this segment size on, and never more than this at once.
RESERVED_BYTES_MIN: Final = 1 << 20
RESERVED_BYTES_MAX: Final = 64 << 20

#: More bytes that must be made (inflated) than this are made while they are sent.
MADE_AT_ONCE_BYTES_MAX: Final = 2 * SLICE_BYTES
#: Plain bytes whose stored form is checked in one step.
CHECKED_BYTES: Final = 4 * SLICE_BYTES


class Body(Protocol):
    """The messages of a segment, plain or compressed; positions are those of the plain bytes."""

    @property
    def size(self) -> int: ...

    def part(self, position: int, length: int) -> FileRange | memoryview:
        """Return a range if the bytes are stored plain in a file, else the bytes."""
        ...

    def check(self, position: int, length: int) -> None:
        """Raise what `part` would raise."""
        ...

    def close(self) -> None:
        """Close its files; it must not be read afterwards."""
        ...


class PlainBody:
    """A sealed log file."""

    __slots__ = ("file", "size")

    def __init__(self, file: OnDemandFile, size: int) -> None:
        self.file = file
        self.size = size

    def part(self, position: int, length: int) -> FileRange:
        return FileRange(self.file, position, length)

    def close(self) -> None:
        self.file.close()

    def check(self, position: int, length: int) -> None:
        """A file is read while it is sent."""


class PartSlices(Produced):
    """A long part of a body, produced a slice at a time."""

    __slots__ = ("body", "position")

    def __init__(self, body: Body, position: int, length: int) -> None:
        super().__init__(length)
        self.body = body
        self.position = position

    def slices(self) -> Iterator[memoryview]:
        for position, length in self._pieces(SLICE_BYTES):
            part = self.body.part(position, length)
            assert isinstance(part, memoryview), "a plain body is sent from its file"
            yield part

    def checks(self) -> Iterator[None]:
        for position, length in self._pieces(CHECKED_BYTES):
            self.body.check(position, length)
            yield

    def _pieces(self, size: int) -> Iterator[tuple[int, int]]:
        """Cut at frame boundaries, so that no frame is inflated twice."""
        position, end = self.position, self.position + self.length
        while position < end:
            stop = min(position - position % size + size, end)
            yield position, stop - position
            position = stop


class SegmentFacts(Value):
    """The facts about a segment that decisions are based on."""

    start_offset: int
    #: The last offset; one less than `start_offset` when the segment is empty.
    end_offset: int
    start_timestamp: int
    end_timestamp: int
    size: int
    sealed: bool


class Segment:
    """A run of consecutive messages.

    `file` is the log file of the open segment and of no other: a sealed segment has a `body`.
    `size` counts the bytes that are written, not those that are still in the journal.
    """

    __slots__ = (
        "body",
        "directory",
        "end_timestamp",
        "file",
        "index",
        "reserved",
        "size",
        "start_offset",
        "start_timestamp",
    )

    def __init__(self, start_offset: int, directory: Path, index: SegmentIndex) -> None:
        self.start_offset = start_offset
        self.directory = directory
        self.index = index
        self.size = 0
        #: The end of the preallocated space.
        self.reserved = 0
        self.start_timestamp = 0
        self.end_timestamp = 0
        self.file: OnDemandFile | None = None
        self.body: Body | None = None

    @property
    def log_path(self) -> Path:
        """Where its messages are, or were before they were compressed."""
        return self.directory / log_name(self.start_offset)

    @property
    def next_offset(self) -> int:
        """The offset after the last written message."""
        return self.start_offset + self.index.count

    @property
    def sealed(self) -> bool:
        return self.file is None

    @property
    def log_path_is_plain(self) -> bool:
        """Whether there is a file at `log_path`: not for a compressed segment."""
        return self.body is None or isinstance(self.body, PlainBody)

    @property
    def plain_file(self) -> OnDemandFile | None:
        """The file of its messages, unless they are compressed."""
        return self.body.file if isinstance(self.body, PlainBody) else self.file

    def part(self, position: int, length: int) -> FileRange | memoryview | Produced:
        """Bytes of the log, wherever they are by now."""
        if self.file is not None:
            return FileRange(self.file, position, length)
        body = self.body
        assert body is not None
        if length > MADE_AT_ONCE_BYTES_MAX and not isinstance(body, PlainBody):
            return PartSlices(body, position, length)
        return body.part(position, length)

    def extend(self, entries: bytes, size: int, first_timestamp: int, last_timestamp: int) -> None:
        """Note messages that are in the log file now."""
        if not self.index.count:
            self.start_timestamp = first_timestamp
        self.end_timestamp = last_timestamp
        self.size += size
        self.index.extend(entries)

    def extend_later(
        self, count: int, entries: Callable[[], bytes], size: int, timestamp: int
    ) -> None:
        """The same for `count` messages of one timestamp, whose index entries are made later."""
        if not self.index.count:
            self.start_timestamp = timestamp
        self.end_timestamp = timestamp
        self.size += size
        self.index.extend_later(count, entries)

    def reserve(self, end: int, limit: int) -> None:
        """Preallocate space before `end` is passed, as much again as the segment has.

        A write into preallocated space takes two thirds of the time of one that has to allocate
        it. A segment that stays small reserves nothing.
        """
        assert self.file is not None
        ahead = min(max(self.size, RESERVED_BYTES_MIN), RESERVED_BYTES_MAX)
        self.reserved = max(min(end + ahead, limit), end)
        if self.size >= RESERVED_BYTES_MIN:
            self.file.reserve(self.size, self.reserved - self.size)

    def trim(self) -> None:
        """Release unused preallocated space."""
        if self.file is not None and self.size >= RESERVED_BYTES_MIN:
            self.file.trim()

    def seal(self) -> None:
        """Seal it: nothing more is written to it."""
        assert self.file is not None
        self.trim()
        self.body = PlainBody(self.file, self.size)
        self.file.kept = None
        self.file = None

    def close(self) -> None:
        """Close it: it is no longer read or written."""
        for opened in (self.file, self.body, self.index.file):
            if opened is not None:
                opened.close()

    def facts(self) -> SegmentFacts:
        return SegmentFacts(
            self.start_offset,
            self.next_offset - 1,
            self.start_timestamp,
            self.end_timestamp,
            self.size,
            self.sealed,
        )
