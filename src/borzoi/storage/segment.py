"""One .log/.index pair: its bounds, its size, open or sealed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from borzoi.storage.descriptors import OnDemandFile
from borzoi.storage.index import SegmentIndex
from borzoi.storage.reading import SLICE_BYTES, FileRange, Produced

#: Space is set aside from this size of a segment on, and never more than this much at once.
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
        """A range when the bytes lie in a file as they are, else the bytes."""
        ...

    def check(self, position: int, length: int) -> None:
        """Raise what `part` would raise."""
        ...

    def close(self) -> None:
        """Give back what it has open; it is not read any more."""
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
    """A long part of a body that has to be made, a slice at a time."""

    __slots__ = ("_body", "_position")

    def __init__(self, body: Body, position: int, length: int) -> None:
        super().__init__(length)
        self._body = body
        self._position = position

    def slices(self) -> Iterator[memoryview]:
        for position, length in self._pieces(SLICE_BYTES):
            part = self._body.part(position, length)
            assert isinstance(part, memoryview), "a plain body is sent from its file"
            yield part

    def checks(self) -> Iterator[None]:
        for position, length in self._pieces(CHECKED_BYTES):
            self._body.check(position, length)
            yield

    def _pieces(self, size: int) -> Iterator[tuple[int, int]]:
        """Cut where frames begin, so that none is made twice."""
        position, end = self._position, self._position + self.length
        while position < end:
            stop = min(position - position % size + size, end)
            yield position, stop - position
            position = stop


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What decisions about a segment are made from."""

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
        "end_timestamp",
        "file",
        "index",
        "log_path",
        "reserved",
        "size",
        "start_offset",
        "start_timestamp",
    )

    def __init__(self, start_offset: int, log_path: Path, index: SegmentIndex) -> None:
        self.start_offset = start_offset
        self.log_path = log_path
        self.index = index
        self.size = 0
        #: Up to here the disk has space set aside.
        self.reserved = 0
        self.start_timestamp = 0
        self.end_timestamp = 0
        self.file: OnDemandFile | None = None
        self.body: Body | None = None

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
        """Take note of messages that are in the log file now."""
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
        """Have the disk set space aside before `end` is passed, as much again as is there already.

        A write into space that was set aside takes two thirds of the time of one that has to find
        it. A segment that stays small reserves nothing.
        """
        assert self.file is not None
        ahead = min(max(self.size, RESERVED_BYTES_MIN), RESERVED_BYTES_MAX)
        self.reserved = max(min(end + ahead, limit), end)
        if self.size >= RESERVED_BYTES_MIN:
            self.file.reserve(self.size, self.reserved - self.size)

    def trim(self) -> None:
        """Give back what is set aside and was not needed."""
        if self.file is not None and self.size >= RESERVED_BYTES_MIN:
            self.file.trim()

    def seal(self) -> None:
        """Nothing is written to it any more."""
        assert self.file is not None
        self.trim()
        self.body = PlainBody(self.file, self.size)
        self.file = None

    def close(self) -> None:
        """It is not read or written any more."""
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
