"""The segments of one log, in the order of their offsets: finding, reading, adding, removing them.

The last one is open and is written to by `storage/log_files.py`; the others are sealed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from borzoi.model.limits import HEADER_BYTES, INDEX_ENTRY_BYTES
from borzoi.storage import layout
from borzoi.storage.descriptors import Descriptors, OnDemandFile
from borzoi.storage.index import SegmentIndex
from borzoi.storage.kept import FEW_BYTES, KEPT_BYTES, KeptMessages
from borzoi.storage.media import Medium, read_exactly, write_all
from borzoi.storage.reading import FileRange, FileSlices, Produced, Reading
from borzoi.storage.recovery import Found
from borzoi.storage.segment import Body, PlainBody, Segment, SegmentFacts


class Removed(NamedTuple):
    """What went away."""

    segments: int
    messages: int
    size: int


class Segments:
    """Segment k ends where segment k + 1 begins.

    There is always a `tail`; while nothing is loaded it is a placeholder.
    """

    __slots__ = (
        "_descriptors",
        "_last_few",
        "_segments",
        "_starts",
        "directory",
        "end_timestamp",
        "first_offset",
        "medium",
        "sealed_size",
        "tail",
    )

    def __init__(self, directory: Path, medium: Medium, descriptors: Descriptors) -> None:
        self.directory = directory
        self.medium = medium
        self._descriptors = descriptors
        self._segments: list[Segment] = []
        self._starts: list[int] = []
        #: The first and the next offset of the last small read from the file.
        self._last_few = (-1, -1)
        #: Of the oldest message, or of the next one when there is none.
        self.first_offset = 0
        self.tail = _no_segment(directory, descriptors)
        self.sealed_size = 0
        #: The timestamp of the last message in any segment that is sealed or was loaded.
        self.end_timestamp = 0

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def facts(self) -> list[SegmentFacts]:
        return [segment.facts() for segment in self._segments]

    def holding(self, offset: int) -> Segment:
        """The segment that has this offset, or would get it."""
        return self._segments[bisect_right(self._starts, offset) - 1]

    # Reading. ------------------------------------------------------------------------------------

    def read(self, reading: Reading, offset: int, end: int, size_max: int | None) -> bool:
        """Add the messages offset..end to a reading; whether `size_max` left room for all."""
        file = self.tail.file
        if (
            file is not None
            and (kept := file.kept) is not None
            and kept.first_offset <= offset
            and end <= kept.end_offset
        ):
            found = kept.part(file, offset, end)
            if size_max is None or found.length <= size_max:
                reading.ranges.append(found)
                reading.count = end - offset
                return True
        segments = self._segments
        number = bisect_right(self._starts, offset) - 1
        while number < len(segments):
            segment = segments[number]
            index, first = segment.index, offset - segment.start_offset
            count = index.count - first
            is_enough = count >= end - offset
            if is_enough:
                count = end - offset
            if count > 0:
                start, stop = index.span(first, first + count - 1)
                room = size_max
                if room is not None and reading.count:
                    room -= reading.size
                if room is not None and stop - start > room:
                    _add_fitting(reading, segment, first, count, start, room)
                    return False
                part: FileRange | memoryview | Produced | None = None
                if stop - start <= FEW_BYTES and segment.file is not None and is_enough:
                    last, self._last_few = self._last_few, (offset, end)
                    if offset in last:
                        part = self._read_along(offset, end, start, goes_on=offset != last[0])
                if part is None:
                    part = segment.part(start, stop - start)
                if reading.tail or not isinstance(part, FileRange):
                    _add(reading, part, count)
                else:  # nearly always
                    reading.ranges.append(part)
                    reading.count += count
                offset += count
            if is_enough:
                return True
            number += 1
        return True

    def _read_along(self, offset: int, end: int, start: int, *, goes_on: bool) -> FileRange | None:
        """Messages offset..end, which begin at byte `start` of the open segment, from memory, where
        those behind them are kept for the next reads. The last read was of the same ones, or this
        one `goes_on` from there; then there have to be more."""
        tail = self.tail
        if tail.file is None or (goes_on and end >= tail.next_offset):
            return None
        kept = self._keep(tail, tail.file, offset, start)
        if kept is None:
            return None
        tail.file.kept = kept
        return kept.part(tail.file, offset, end)

    def _keep(
        self, segment: Segment, file: OnDemandFile, offset: int, start: int
    ) -> KeptMessages | None:
        """The messages of a segment from `offset` on, which begin at byte `start` of its file, if
        there is room for them."""
        if not self._descriptors.kept.make_room():
            return None
        index, first = segment.index, offset - segment.start_offset
        last = min(index.count, first + KEPT_BYTES // HEADER_BYTES) - 1
        last = index.last_ending_by(start + KEPT_BYTES, first=first, last=last)
        ends = index.ends(first, last)
        content = read_exactly(file, ends[-1] - start, start)
        kept = KeptMessages(offset, start, ends, content)
        self._descriptors.kept.add(kept)
        return kept

    def kept(self, offset: int, end: int) -> KeptMessages | None:
        """Messages offset..end and those behind them in memory; None when they are not few, or not
        in one plain file."""
        file = self.tail.file
        kept = None if file is None else file.kept
        if kept is not None and kept.first_offset <= offset and end <= kept.end_offset:
            return kept
        few = FEW_BYTES // HEADER_BYTES
        if not self.first_offset <= offset < end <= offset + few:
            return None
        segment = self.holding(offset)
        file, first = segment.plain_file, offset - segment.start_offset
        if file is None or end > segment.next_offset:
            return None
        start, stop = segment.index.span(first, first + end - offset - 1)
        if stop - start > FEW_BYTES:
            return None
        kept = self._keep(segment, file, offset, start)
        if kept is not None and segment.file is not None:
            segment.file.kept = kept
        return kept

    def offset_at(self, timestamp: int, end: int) -> int | None:
        """The first of the messages below `end` that is not older; None when all are."""
        segments = self._segments
        number = bisect_left(segments, timestamp, key=_end_timestamp)
        if number == len(segments):
            return None
        segment = segments[number]
        count = min(end, segment.next_offset) - segment.start_offset
        if count <= 0:
            return None  # sealed already, but not yet acknowledged
        return segment.start_offset + segment.index.first_at_or_after(timestamp, count=count)

    # Adding. -------------------------------------------------------------------------------------

    def adopt(self, found: Found) -> None:
        """Add a segment that recovery found; it is open until another one follows."""
        start = found.start_offset
        saved = found.count - len(found.unsaved) // INDEX_ENTRY_BYTES
        index_file = self._descriptors.file(self.directory, layout.index_name(start))
        index = SegmentIndex(index_file, saved=saved)
        index.extend(found.unsaved)
        segment = Segment(start, self.directory, index)
        segment.size = found.size
        segment.start_timestamp = found.start_timestamp
        segment.end_timestamp = max(found.end_timestamp, self.end_timestamp)
        segment.body = found.body
        if segment.body is None:
            segment.body = PlainBody(self._log_file(start), found.size)
        self._add(segment)

    def unseal_tail(self) -> None:
        """Make the last segment one that is appended to."""
        tail = self.tail
        assert isinstance(tail.body, PlainBody)
        start = tail.start_offset
        tail.file = self._log_file(start, writable=True)
        tail.body = None
        tail.index.file = self._descriptors.file(
            self.directory, layout.index_name(start), writable=True
        )

    def begin(self, start_offset: int) -> None:
        """Create the files of a new segment, which becomes the tail; the old one is sealed."""
        log_file = self._descriptors.created(self.directory, layout.log_name(start_offset))
        index_file = self._descriptors.created(self.directory, layout.index_name(start_offset))
        old = self.tail
        if old.file is not None:
            self.end_timestamp = old.end_timestamp
            old.seal()
        segment = Segment(start_offset, self.directory, SegmentIndex(index_file))
        segment.file = log_file
        segment.end_timestamp = self.end_timestamp
        self._add(segment)

    def adopt_twin(self, start_offset: int, body: Body) -> None:
        """Read a sealed segment from its compressed twin from now on; the plain log is removed."""
        segment = self.holding(start_offset)
        assert segment.start_offset == start_offset
        assert segment.sealed
        assert segment.size == body.size
        # Without it the next start would have to inflate the whole twin.
        segment.index.sync()
        plain, segment.body = segment.body, body
        assert isinstance(plain, PlainBody)
        # A poll that still sends from the plain file can finish.
        plain.file.detach()
        self.medium.unlink(segment.log_path)

    def inflate(self, segment: Segment) -> None:
        """Write a plain log next to a compressed twin, which it replaces."""
        assert segment.body is not None
        draft = segment.log_path.with_name(segment.log_path.name + layout.DRAFT_SUFFIX)
        with self.medium.open(draft, create=True) as file:
            file.truncate(0)
            part = segment.body.part(0, segment.size)
            assert isinstance(part, memoryview)
            write_all(file, [part], 0)
            file.fdatasync()
        self.medium.rename(draft, segment.log_path)
        self.medium.fsync_directory(self.directory)
        segment.body.close()
        segment.body = PlainBody(self._log_file(segment.start_offset), segment.size)

    # Removing. -----------------------------------------------------------------------------------

    def delete_oldest(self, count: int, end: int) -> Removed:
        """Remove the oldest `count` segments, but never the tail.

        Nor one with messages after `end`: they are not acknowledged yet.
        """
        segments = messages = size = 0
        while segments < count and len(self._segments) > 1:
            segment = self._segments[0]
            if segment.next_offset > end:
                break
            paths = self._paths_of(segment)
            for path in paths[:-1]:
                self.medium.unlink(path)
            del self._segments[0], self._starts[0]
            self.first_offset = self._starts[0]
            self.sealed_size -= segment.size
            segments += 1
            messages += segment.index.count
            size += segment.size
            # Close them even if a reader holds them: the space of a deleted segment must be freed.
            segment.close()
            self.medium.unlink(paths[-1])
            # In order on the disk as well: a log may lose its head, never its middle.
            self.medium.fsync_directory(self.directory)
        return Removed(segments, messages, size)

    def close(self) -> None:
        """Close all descriptors; running reads fail."""
        for segment in self._segments:
            segment.close()

    def _add(self, segment: Segment) -> None:
        if self._segments:
            assert segment.start_offset == self.tail.next_offset, "segments leave no gap"
        self.sealed_size += self.tail.size
        self._segments.append(segment)
        self._starts.append(segment.start_offset)
        self.first_offset = self._starts[0]
        self.tail = segment
        self.end_timestamp = segment.end_timestamp

    def _log_file(self, start_offset: int, *, writable: bool = False) -> OnDemandFile:
        name = layout.log_name(start_offset)
        return self._descriptors.file(self.directory, name, writable=writable)

    def _paths_of(self, segment: Segment) -> list[Path]:
        """All files a segment may have; its index last, because a log is what makes a segment."""
        start = segment.start_offset
        return [
            segment.log_path,
            *(self.directory / layout.twin_name(start, suffix) for suffix in layout.TWIN_SUFFIXES),
            segment.index.path,
        ]


def _end_timestamp(segment: Segment) -> int:
    return segment.end_timestamp


def _no_segment(directory: Path, descriptors: Descriptors) -> Segment:
    """A placeholder for the open segment while there is none."""
    no_file = descriptors.file(directory, "")
    no_file.close()
    return Segment(0, directory, SegmentIndex(no_file))


def _add(reading: Reading, part: FileRange | memoryview | Produced, count: int) -> None:
    """Add a part with `count` messages. Ranges come first: behind bytes that are made, a range is
    read like them."""
    if not isinstance(part, FileRange):
        reading.tail.append(part)
    elif reading.tail:
        reading.tail.append(FileSlices(part))
    else:
        reading.ranges.append(part)
    reading.count += count


def _add_fitting(
    reading: Reading, segment: Segment, first: int, count: int, start: int, room: int
) -> None:
    """Add those of `count` messages, from number `first` at byte `start` on, that `room` is enough
    for. The first one of a reading is given whatever its size."""
    last = segment.index.last_ending_by(start + room, first=first, last=first + count - 1)
    count = last - first + 1 or (0 if reading.count else 1)
    if count:
        end = segment.index.end_position(first + count - 1)
        _add(reading, segment.part(start, end - start), count)
