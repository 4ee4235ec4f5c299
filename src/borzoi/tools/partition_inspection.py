"""Inspection of one partition: every message, every index entry, every consumer's offset."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from borzoi.model.consuming import ConsumerKind
from borzoi.model.errors import StorageFailure
from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.model.value import Value
from borzoi.records.validation import INDEX_DTYPE
from borzoi.storage import layout, recovery_point
from borzoi.storage.compressed import open_twin
from borzoi.storage.media import Medium, content_of
from borzoi.storage.offsets import KIND_DIRECTORIES, OFFSET_BYTES, OFFSETS_DIRECTORY, number_of
from borzoi.storage.recovery import ends_before
from borzoi.storage.scanning import ReadBytes
from borzoi.tools.findings import Finding, Progress, Severity
from borzoi.tools.soundness import Lost, Sound, look_through

#: How many faults of one file are reported one by one.
FAULTS_TOLD_MAX: Final = 20


class SegmentFiles(Value):
    """The files of one segment: its messages plain or compressed, and its index if there is one."""

    start_offset: int
    messages: Path
    index: Path
    is_twin: bool
    is_last: bool


def segment_files(medium: Medium, directory: Path) -> list[SegmentFiles]:
    """The segments of a partition, oldest first; a plain log is preferred to its twin."""
    found: dict[int, str] = {}
    for name in medium.list(directory):
        for suffix in ("", *layout.TWIN_SUFFIXES):
            start = layout.start_offset_of(name, layout.LOG_SUFFIX + suffix)
            if start is not None and (suffix == "" or start not in found):
                found[start] = suffix
    starts = sorted(found)
    return [
        SegmentFiles(
            start,
            directory / (layout.log_name(start) + found[start]),
            directory / layout.index_name(start),
            bool(found[start]),
            start == starts[-1],
        )
        for start in starts
    ]


def reader_of(medium: Medium, segment: SegmentFiles) -> tuple[ReadBytes, int]:
    """How to read the segment's plain bytes, and how many there are."""
    if segment.is_twin:
        body = open_twin(medium, segment.messages)

        def inflated(length: int, position: int) -> bytes | memoryview:
            part = body.part(position, length)
            assert isinstance(part, memoryview)
            return part

        return inflated, body.size
    file = medium.open(segment.messages, writable=False)
    file.share()  # the reader is the last to hold it
    return file.read, file.size()


def salvaging_reader(medium: Medium, segment: SegmentFiles) -> tuple[ReadBytes, int]:
    """As `reader_of`, with zeros in the place of compressed frames that cannot be inflated."""
    if not segment.is_twin:
        return reader_of(medium, segment)
    body = open_twin(medium, segment.messages)
    return body.salvage, body.size


def read_index(medium: Medium, segment: SegmentFiles) -> bytes | None:
    if not medium.exists(segment.index):
        return None
    return content_of(medium, segment.index)


def inspect_partition(medium: Medium, directory: Path) -> Iterator[Finding | Progress]:
    """All findings about a partition's directory, oldest segment first."""
    yield from _inspect_names(medium, directory)
    expected: int | None = None
    segments = segment_files(medium, directory)
    for segment in segments:
        if expected is not None and segment.start_offset != expected:
            between = f"messages {expected} to {segment.start_offset - 1} are missing before it"
            overlap = f"begins before message {expected}, where the segment before it ends"
            yield Finding(
                Severity.DAMAGE,
                segment.messages,
                between if segment.start_offset > expected else overlap,
                offset=segment.start_offset,
            )
        expected = yield from inspect_segment(medium, segment)
    yield from _inspect_end(medium, directory, segments)
    yield from _inspect_offsets(medium, directory, 0 if expected is None else expected)


def _inspect_end(
    medium: Medium, directory: Path, segments: list[SegmentFiles]
) -> Iterator[Finding]:
    """Whether the log reaches as far as it once was on the disk."""
    point = recovery_point.load(medium, directory)
    if point is None:
        return
    start = end = 0
    if segments:
        start = segments[-1].start_offset
        try:
            end = reader_of(medium, segments[-1])[1]
        except StorageFailure:
            return  # already reported
    if ends_before(point, start, end):
        yield Finding(
            Severity.DAMAGE,
            directory,
            f"messages are missing at the end: segment {point.segment_start} had"
            f" {point.position} bytes or more, the log ends with byte {end} of segment {start}",
        )


def _inspect_names(medium: Medium, directory: Path) -> Iterator[Finding]:
    names = set(medium.list(directory))
    used = {path.name for s in segment_files(medium, directory) for path in (s.messages, s.index)}
    for name in sorted(names - used - {OFFSETS_DIRECTORY, layout.RECOVERY_POINT}):
        path = directory / name
        if name == layout.INTENT:
            what = "says that a cut was begun; the next start finishes it"
        elif name.endswith(layout.DRAFT_SUFFIX):
            what = "is left over from an interrupted write; the next start removes it"
        elif any(name.endswith(layout.LOG_SUFFIX + suffix) for suffix in layout.TWIN_SUFFIXES):
            what = "is next to its plain segment; the next start removes it"
        elif name.endswith(layout.INDEX_SUFFIX):
            what = "has no segment; the next start removes it"
        else:
            what = "is none of the files of a partition"
        yield Finding(Severity.NOTE, path, what)
    if layout.RECOVERY_POINT in names and recovery_point.load(medium, directory) is None:
        yield Finding(
            Severity.WARNING,
            directory / layout.RECOVERY_POINT,
            "does not fit its checksum; the next start reads the whole last segment instead",
        )


class _IndexCheck:
    """Holds the index against the entries that the log says it should have."""

    def __init__(self, segment: SegmentFiles, index: bytes) -> None:
        self._segment = segment
        self._index = index
        self.count = 0
        self.wrong = 0

    def compare(self, run: Sound) -> Iterator[Finding]:
        expected = run.entries(self._segment.start_offset)
        start = (run.first_offset - self._segment.start_offset) * INDEX_ENTRY_BYTES
        stored = self._index[start : start + len(expected)]
        self.count += len(run.batch)
        if stored == expected[: len(stored)]:
            return
        whole = len(stored) // INDEX_ENTRY_BYTES * INDEX_ENTRY_BYTES
        there = np.frombuffer(stored[:whole], INDEX_DTYPE)
        should = np.frombuffer(expected[:whole], INDEX_DTYPE)
        for number in np.flatnonzero(there != should):
            self.wrong += 1
            if self.wrong <= FAULTS_TOLD_MAX:
                yield Finding(
                    Severity.DAMAGE,
                    self._segment.index,
                    f"the entry says {_told(there[number])}, the log says {_told(should[number])}",
                    position=start + int(number) * INDEX_ENTRY_BYTES,
                    offset=run.first_offset + int(number),
                )

    def skip(self, count: int) -> None:
        self.count += count

    def finish(self) -> Iterator[Finding]:
        path = self._segment.index
        stored, rest = divmod(len(self._index), INDEX_ENTRY_BYTES)
        if self.wrong > FAULTS_TOLD_MAX:
            yield Finding(
                Severity.DAMAGE, path, f"{self.wrong - FAULTS_TOLD_MAX} more entries are wrong"
            )
        if rest:
            yield Finding(
                Severity.WARNING,
                path,
                f"ends with {rest} bytes of an entry",
                position=stored * INDEX_ENTRY_BYTES,
            )
        if stored > self.count:
            yield Finding(
                Severity.DAMAGE,
                path,
                f"has {stored - self.count} entries for messages that are not in the log",
                position=self.count * INDEX_ENTRY_BYTES,
            )
        elif stored < self.count:
            lag = f"lacks the last {self.count - stored} of {self.count} entries; "
            if self._segment.is_last:
                yield Finding(Severity.NOTE, path, lag + "the index of an open segment may lag")
            else:
                yield Finding(Severity.WARNING, path, lag + "the next start adds them")


def inspect_segment(
    medium: Medium, segment: SegmentFiles
) -> Generator[Finding | Progress, None, int | None]:
    """Findings of one segment; returns the offset its messages end before, if that is known."""
    try:
        read, size = reader_of(medium, segment)
        index = read_index(medium, segment)
    except StorageFailure as failure:
        yield Finding(Severity.DAMAGE, segment.messages, str(failure))
        return None
    if index is None and (size or not segment.is_last):
        severity = Severity.DAMAGE if segment.is_twin else Severity.WARNING
        yield Finding(severity, segment.index, "is missing; it can be rebuilt from the messages")
    check = _IndexCheck(segment, index or b"")
    next_offset: int | None = segment.start_offset
    faults = 0
    try:
        for run in look_through(read, size, segment.start_offset, index or b""):
            if isinstance(run, Sound):
                if index is not None:
                    yield from check.compare(run)
                next_offset = run.first_offset + len(run.batch)
                yield Progress(segment.messages, run.batch.size, messages=len(run.batch))
                continue
            faults += 1
            if faults <= FAULTS_TOLD_MAX:
                yield _told_loss(segment, run, bool(index) and run.count is not None)
            yield Progress(segment.messages, run.length)
            check.skip(run.count or 0)
            if run.count is not None:
                next_offset = run.first_offset + run.count
            elif not (run.is_blank or segment.is_last):
                next_offset = None
    except StorageFailure as failure:
        yield Finding(Severity.DAMAGE, segment.messages, str(failure))
        return None
    if faults > FAULTS_TOLD_MAX:
        more = faults - FAULTS_TOLD_MAX
        yield Finding(Severity.DAMAGE, segment.messages, f"{more} more places are damaged")
    if index is not None:
        yield from check.finish()
        yield Progress(segment.index, len(index))
    return next_offset


def _told_loss(segment: SegmentFiles, lost: Lost, indexed: bool) -> Finding:
    if lost.is_blank and segment.is_last and not indexed:
        severity = Severity.NOTE
        what = f"{lost.length} bytes of zeros follow, taken ahead of the messages to come"
    elif lost.count is None and segment.is_last:
        severity = Severity.WARNING
        what = f"the last {lost.length} bytes are not a message: {lost.reason}"
    elif lost.count is None:
        severity = Severity.DAMAGE
        what = f"from here on nothing can be read, {lost.length} bytes: {lost.reason}"
    elif lost.count == 1:
        severity = Severity.DAMAGE
        what = f"the message is damaged: {lost.reason}"
    else:
        severity = Severity.DAMAGE
        what = f"{lost.count} messages cannot be read, {lost.length} bytes: {lost.reason}"
    return Finding(severity, segment.messages, what, lost.position, lost.first_offset)


def _told(entry: np.void) -> str:
    return f"number {entry['offset']}, end {entry['position']}, time {entry['timestamp']}"


def _inspect_offsets(
    medium: Medium, directory: Path, next_offset: int
) -> Iterator[Finding | Progress]:
    for kind in ConsumerKind:
        folder = directory / OFFSETS_DIRECTORY / KIND_DIRECTORIES[kind]
        for name in sorted(medium.list(folder)):
            path = folder / name
            if number_of(name) is None:
                yield Finding(Severity.NOTE, path, "is not named after a consumer")
                continue
            try:
                content = content_of(medium, path)[: OFFSET_BYTES + 1]
            except StorageFailure as failure:
                yield Finding(Severity.WARNING, path, str(failure))
                continue
            yield Progress(path, len(content))
            offset = int.from_bytes(content[:OFFSET_BYTES], "little")
            if len(content) != OFFSET_BYTES:
                yield Finding(
                    Severity.WARNING, path, f"should have {OFFSET_BYTES} bytes, it has not"
                )
            elif offset >= max(next_offset, 1):
                yield Finding(
                    Severity.WARNING,
                    path,
                    f"the consumer is at offset {offset}, the log ends before {next_offset}",
                )
