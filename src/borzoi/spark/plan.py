"""From offset ranges to tasks: which parts come from segments or the server, in which splits.

The sealed part of a range becomes pieces of segments. Neighbouring pieces are gathered into splits
of at most `bytes_max` bytes, and long ones are cut at index positions into nearly equal parts. The
rest is the tail: one split per partition that the server answers by polls, cut by number of
messages.

Several splits of one partition run concurrently, so their output is not in order. By default a
stream has one split per partition.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from borzoi.spark.offsets import PartitionKey, Range
from borzoi.spark.segments import Piece, SealedSegment


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """How large a split may become."""

    #: None for one split per partition, which keeps the order of its messages.
    bytes_max: int | None
    records_max: int | None = None
    #: At least this many splits, when there are that many messages.
    splits_min: int = 1


#: The default of a stream.
ONE_PER_PARTITION: Final = SplitLimits(None)
#: An eighth of a segment of 1 GiB, and of what its last batch has beyond that.
DEFAULT_SPLIT_BYTES: Final = 136 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Split:
    """The work of one task: offsets `start` up to `end` of one partition.

    The pieces are read from segments; the rest is read through the server.
    """

    key: PartitionKey
    start: int
    end: int
    size: int
    pieces: tuple[Piece, ...] = ()

    @property
    def is_tail(self) -> bool:
        return not self.pieces


#: End positions of the messages [start, end) of a segment, preceded by where `start` begins.
Ends = Callable[[SealedSegment, int, int], tuple[int, NDArray[Any]]]


def plan(
    spans: Iterable[Range],
    *,
    segments_of: Callable[[PartitionKey], Sequence[SealedSegment]],
    ends_of: Ends,
    mean_bytes_of: Callable[[PartitionKey], int],
    limits: SplitLimits,
) -> list[Split]:
    """Splits of all ranges, in the order of partitions and offsets."""
    ready = []
    for span in spans:
        pieces = list(_pieces(span, segments_of(span.key), ends_of))
        tail_start = pieces[-1][0].end if pieces else span.start
        ready.append((span, pieces, tail_start))
    size = sum(piece.size for _, pieces, _ in ready for piece, _, _ in pieces)
    size += sum(
        (span.end - tail) * mean_bytes_of(span.key) for span, _, tail in ready if tail < span.end
    )
    if limits == ONE_PER_PARTITION:
        return [
            _whole(
                span, [piece for piece, _, _ in found], (span.end - tail) * mean_bytes_of(span.key)
            )
            for span, found, tail in ready
        ]
    bytes_max = DEFAULT_SPLIT_BYTES if limits.bytes_max is None else limits.bytes_max
    if limits.splits_min > 1:
        bytes_max = max(1, min(bytes_max, -(-size // limits.splits_min)))
    splits: list[Split] = []
    for span, pieces, tail_start in ready:
        splits += _direct_splits(span.key, pieces, bytes_max, limits.records_max)
        tail = Range(span.key, tail_start, span.end)
        splits += _tail_splits(tail, mean_bytes_of(span.key), bytes_max, limits.records_max)
    return splits


def _whole(span: Range, pieces: Sequence[Piece], tail_bytes: int) -> Split:
    size = sum(piece.size for piece in pieces) + tail_bytes
    return Split(span.key, span.start, span.end, size, tuple(pieces))


def _pieces(
    span: Range, segments: Sequence[SealedSegment], ends_of: Ends
) -> Iterator[tuple[Piece, int, NDArray[Any]]]:
    """The part of the range that sealed segments cover from its start on, without a gap."""
    at = span.start
    for segment in segments:
        start, end = max(at, segment.base), min(span.end, segment.end)
        if start != at or start >= end:
            continue
        begin, ends = ends_of(segment, start, end)
        size = int(ends[-1]) - begin
        yield Piece(segment.directory, segment.base, start, end, size), begin, ends
        at = end


def _direct_splits(
    key: PartitionKey,
    pieces: Sequence[tuple[Piece, int, NDArray[Any]]],
    bytes_max: int,
    records_max: int | None,
) -> Iterator[Split]:
    gathered: list[Piece] = []
    for whole, begin, ends in pieces:
        for piece in _cut(whole, begin, ends, bytes_max, records_max):
            size = sum(each.size for each in gathered) + piece.size
            records = sum(each.end - each.start for each in gathered) + piece.end - piece.start
            if gathered and (size > bytes_max or (records_max and records > records_max)):
                yield _gathered(key, gathered)
                gathered = []
            gathered.append(piece)
    if gathered:
        yield _gathered(key, gathered)


def _gathered(key: PartitionKey, pieces: Sequence[Piece]) -> Split:
    size = sum(piece.size for piece in pieces)
    return Split(key, pieces[0].start, pieces[-1].end, size, tuple(pieces))


def _cut(
    piece: Piece, begin: int, ends: NDArray[Any], bytes_max: int, records_max: int | None
) -> Iterator[Piece]:
    """Cut a piece into parts of nearly equal size.

    A search looks at a few entries of the index: there may be millions, and they may not be read.
    """
    low, count, last = 0, len(ends), int(ends[-1])
    while low < count:
        parts = max(1, -(-(last - begin) // bytes_max))
        size = -(-(last - begin) // parts)
        high = max(low + 1, bisect_right(ends, begin + size, lo=low))
        if records_max:
            high = min(high, low + records_max)
        stop = int(ends[high - 1])
        yield Piece(
            piece.directory, piece.base, piece.start + low, piece.start + high, stop - begin
        )
        low, begin = high, stop


def _tail_splits(
    tail: Range, mean_bytes: int, bytes_max: int, records_max: int | None
) -> Iterator[Split]:
    step = max(1, bytes_max // max(1, mean_bytes))
    if records_max:
        step = min(step, records_max)
    for start in range(tail.start, tail.end, step):
        end = min(start + step, tail.end)
        yield Split(tail.key, start, end, (end - start) * mean_bytes)


# ---- what filters say ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Window:
    """What the pushed filters allow: offsets and times [low, high), and partitions."""

    offset_low: int = 0
    offset_high: int | None = None
    time_low: int | None = None
    time_high: int | None = None
    partitions: frozenset[int] | None = None

    def offsets(self, *, low: int | None = None, high: int | None = None) -> "Window":
        """The same with offsets narrowed to [low, high)."""
        return Window(
            max(self.offset_low, low or 0),
            _least(self.offset_high, high),
            self.time_low,
            self.time_high,
            self.partitions,
        )

    def times(self, *, low: int | None = None, high: int | None = None) -> "Window":
        """The same with times narrowed to [low, high)."""
        lows = [each for each in (self.time_low, low) if each is not None]
        return Window(
            self.offset_low,
            self.offset_high,
            max(lows, default=None),
            _least(self.time_high, high),
            self.partitions,
        )

    def within(self, partitions: Iterable[int]) -> "Window":
        """The same with these partitions only."""
        chosen = frozenset(partitions)
        if self.partitions is not None:
            chosen &= self.partitions
        return Window(self.offset_low, self.offset_high, self.time_low, self.time_high, chosen)

    def narrowed(self, span: Range, find_time: Callable[[PartitionKey, int], int | None]) -> Range:
        """The part of a range that can hold matching messages; empty when none can."""
        start = max(span.start, self.offset_low)
        end = span.end if self.offset_high is None else min(span.end, self.offset_high)
        if self.partitions is not None and span.key.partition not in self.partitions:
            end = start
        if start < end and self.time_low is not None:
            found = find_time(span.key, self.time_low)
            start = end if found is None else max(start, found)
        if start < end and self.time_high is not None:
            found = find_time(span.key, self.time_high)
            end = end if found is None else min(end, found)
        return Range(span.key, start, max(start, end))


def _least(*numbers: int | None) -> int | None:
    return min((number for number in numbers if number is not None), default=None)
