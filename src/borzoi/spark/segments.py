"""Reads segments on disk without a server, by the layout in docs/storage-format.md.

Only sealed segments are read: all of a partition but the last. The index of a sealed segment is
complete, and neither file changes any more. The plain log may be replaced by a compressed twin, and
retention may remove both, so a body is located when it is opened.
"""

import itertools
import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from borzoi.model.errors import BorzoiError
from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.model.topics import Compression
from borzoi.records.columnar import BATCH_BYTES, Run, check_run, cuts, run_between
from borzoi.records.compression import Frames
from borzoi.records.validation import INDEX_DTYPE

#: The suffix after the 20 digits of the first offset → the compression of the body.
SUFFIXES: Final = {
    ".log": Compression.NONE,
    ".log.gz": Compression.GZIP,
    ".log.lz4": Compression.LZ4,
    ".log.zst": Compression.ZSTD,
}
DIGITS: Final = 20


class SegmentGone(BorzoiError):
    """A segment, or the planned part of its index, no longer exists."""


@dataclass(frozen=True, slots=True)
class SealedSegment:
    """A sealed segment: the messages `base` up to `end`, which is exclusive."""

    directory: Path
    base: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of one segment, by offsets."""

    directory: Path
    base: int
    start: int
    end: int
    size: int


def partition_directory(data: Path, stream: int, topic: int, partition: int) -> Path:
    """Return the directory of a partition below a data directory."""
    return data / "streams" / f"{stream}" / "topics" / f"{topic}" / "partitions" / f"{partition}"


def list_bases(directory: Path) -> list[int]:
    """Return the first offsets of a directory's segments, ascending; empty if it is missing."""
    try:
        names = [path.name for path in directory.iterdir()]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return sorted(
        {
            int(name[:DIGITS])
            for name in names
            if name[DIGITS:] in SUFFIXES and name[:DIGITS].isdigit()
        }
    )


def sealed_segments(directory: Path) -> list[SealedSegment]:
    """All segments but the last, which is open."""
    bases = list_bases(directory)
    return [SealedSegment(directory, base, end) for base, end in itertools.pairwise(bases)]


def all_segments(directory: Path) -> list[SealedSegment]:
    """Return the sealed segments, and the indexed part of the last: for stopped servers."""
    segments = sealed_segments(directory)
    bases = list_bases(directory)
    if bases:
        ends = read_index(directory, bases[-1])["position"]
        whole = bisect_right(ends, body_size(directory, bases[-1]))
        segments.append(SealedSegment(directory, bases[-1], bases[-1] + whole))
    return segments


def read_index(directory: Path, base: int, low: int = 0, count: int = -1) -> NDArray[Any]:
    """Entries of an index from number `low` on; raises SegmentGone when it is not there.

    They are mapped, not read: a planner touches a few pages of an index that may have millions.
    """
    try:
        with (directory / f"{base:020}.index").open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < INDEX_ENTRY_BYTES:
                return np.empty(0, INDEX_DTYPE)
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise SegmentGone(f"the index of segment {base} is missing") from error
    entries = np.frombuffer(mapped, INDEX_DTYPE, size // INDEX_ENTRY_BYTES)
    return entries[low:] if count < 0 else entries[low : low + count]


def index_between(directory: Path, base: int, start: int, end: int) -> tuple[int, NDArray[Any]]:
    """Position at which message `start` begins, and the entries of `start` up to `end`."""
    before = 1 if start > base else 0
    entries = read_index(directory, base, start - base - before, end - start + before)
    if len(entries) != end - start + before:
        raise SegmentGone(f"the index of segment {base} ends before offset {end}")
    begin = int(entries["position"][0]) if before else 0
    return begin, entries[before:]


# ---- bodies -------------------------------------------------------------------------------------


class MappedLogFile:
    """A log file, mapped: pages are read as they are touched, and not copied."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._map.madvise(mmap.MADV_SEQUENTIAL)
        self.size = len(self._map)

    def read(self, start: int, end: int) -> memoryview:
        return memoryview(self._map)[start:end]


class InflatedLogFile:
    """A compressed log file; a read decompresses the frames it needs."""

    def __init__(self, path: Path, algorithm: Compression) -> None:
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._frames = Frames.open(algorithm, self._at, len(self._map))
        self.size = self._frames.plain_bytes

    def read(self, start: int, end: int) -> memoryview:
        return memoryview(self._frames.read(self._at, start, end))

    def _at(self, position: int, length: int) -> bytes:
        return self._map[position : position + length]


def open_body(directory: Path, base: int) -> MappedLogFile | InflatedLogFile:
    """The body of a segment, plain or compressed; raises SegmentGone when there is none."""
    for suffix, algorithm in SUFFIXES.items():
        path = directory / f"{base:020}{suffix}"
        try:
            if algorithm is Compression.NONE:
                return MappedLogFile(path)
            return InflatedLogFile(path, algorithm)
        except FileNotFoundError:
            continue
        except ValueError as error:  # an empty file cannot be mapped
            raise SegmentGone(f"segment {base} is empty") from error
    raise SegmentGone(f"segment {base} is missing")


def body_size(directory: Path, base: int) -> int:
    """Plain bytes of a segment, 0 when it is empty."""
    try:
        return open_body(directory, base).size
    except SegmentGone:
        return 0


def read_runs(piece: Piece, *, bytes_max: int = BATCH_BYTES) -> Iterator[tuple[int, Run]]:
    """First offset and messages of each batch of a piece, checked against index and offsets."""
    begin, entries = index_between(piece.directory, piece.base, piece.start, piece.end)
    body = open_body(piece.directory, piece.base)
    ends = entries["position"].astype(np.int64)
    offset = piece.start
    for part in cuts(ends, bytes_max=bytes_max, base=begin):
        stop = int(ends[part.stop - 1])
        run = run_between(body.read(begin, stop), ends[part] - begin)
        check_run(run, offset)
        yield offset, run
        begin, offset = stop, offset + run.count


# ---- searching ----------------------------------------------------------------------------------


def offset_from_time(segment: SealedSegment, micros: int) -> int:
    """Return the first message of a segment at or after the time; its end if there is none."""
    timestamps = read_index(segment.directory, segment.base)["timestamp"]
    return min(segment.end, segment.base + bisect_left(timestamps, micros))
