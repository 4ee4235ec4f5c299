"""Bounds common to all stores: sizes of parts, and complete ranges."""

from collections.abc import Iterable

from borzoi.objectstore.errors import PartSizeTooSmall, RangeOutOfBounds
from borzoi.objectstore.interface import PART_BYTES_MIN, PARTS_MAX


class PartShape:
    """Checks the parts of an upload: all of one size, except for the last."""

    __slots__ = ("_key", "_part_size", "_short", "count", "size")

    def __init__(self, key: str, part_size: int) -> None:
        if part_size < PART_BYTES_MIN:
            raise PartSizeTooSmall(
                f"parts of {part_size} bytes are too small; the least is {PART_BYTES_MIN}",
                op="open_multipart",
                key=key,
            )
        self._key = key
        self._part_size = part_size
        self._short = False
        self.count = 0
        self.size = 0

    def check(self, size: int) -> None:
        """Count the next part; raises if a store would reject it, now or at the end."""
        if self.count >= PARTS_MAX:
            raise RangeOutOfBounds(
                f"an object has at most {PARTS_MAX} parts", op="part", key=self._key
            )
        if self._short or not 0 < size <= self._part_size:
            raise PartSizeTooSmall(
                f"parts have {self._part_size} bytes, and only the last one may have fewer",
                op="part",
                key=self._key,
            )
        self._short = size < self._part_size
        self.count += 1
        self.size += size


def exact(found: memoryview, key: str, start: int, end: int) -> memoryview:
    """Return the data if the range is complete: stores shorten a range silently."""
    if not 0 <= start <= end or len(found) != end - start:
        raise RangeOutOfBounds(
            f"the bytes {start} to {end} are not all there", op="get_range", key=key
        )
    return found


def coalesced(ranges: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Return the ranges to read to cover all of these; ranges closer than `gap` are merged."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted((start, end) for start, end in ranges if start != end):
        if spans and start - spans[-1][1] <= gap:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((start, end))
    return spans
