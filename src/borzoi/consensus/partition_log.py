"""One partition as values: segments of messages, consumer offsets, generations (D4, X3, K3).

The semantics of the segmented log on disk, in memory: a segment rolls by its size before an append,
and truncation removes whole sealed segments. A purge begins again at offset 0, in a new generation:
``(generation, offset)`` names one message for ever.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from borzoi.consensus.invariants import InvariantError
from borzoi.consensus.partition_ops import BatchDescriptor
from borzoi.records.batch import index_entries, walk

NewIds = Callable[[int], bytes]


class SegmentImage:
    """Bytes of one ``.log`` and its ``.index`` file."""

    __slots__ = ("base_offset", "end_offset", "index", "log")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.log = bytearray()
        self.index = bytearray()


class ConsumerKey(NamedTuple):
    kind: int
    consumer: int


class PartitionLog(msgspec.Struct, eq=False):
    segment_bytes: int
    first_offset: int = 0
    next_offset: int = 0
    generation: int = 0
    segments: list[SegmentImage] = []
    offsets: dict[ConsumerKey, int] = {}

    def append(self, descriptor: BatchDescriptor, run: memoryview) -> None:
        """Exactly the bytes every replica journaled, at exactly the offset they name (D3)."""
        if (descriptor.generation, descriptor.base_offset) != (self.generation, self.next_offset):
            raise InvariantError(
                f"a batch at offset {descriptor.base_offset} of generation {descriptor.generation}"
                f" does not continue {self.next_offset} of generation {self.generation}"
                f" in partition {descriptor.namespace:#x}/{descriptor.incarnation}"
            )
        # Rolled from replicated facts only, so file boundaries are the same everywhere (D4).
        if not self.segments or len(self.segments[-1].log) >= self.segment_bytes:
            self.segments.append(SegmentImage(self.next_offset))
        segment = self.segments[-1]
        segment.index += index_entries(
            walk(run),
            relative_offset=self.next_offset - segment.base_offset,
            position=len(segment.log),
            timestamp=descriptor.base_timestamp,
        )
        segment.log += run
        self.next_offset += descriptor.messages_count
        segment.end_offset = self.next_offset

    def truncate(self, offset: int) -> int:
        """Remove sealed segments that end at or below ``offset``; returns how many (X3)."""
        removed = 0
        while len(self.segments) > 1 and self.segments[0].end_offset <= offset:
            del self.segments[0]
            removed += 1
        if removed:
            self.first_offset = self.segments[0].base_offset
        return removed

    def purge(self, generation: int) -> bool:
        """Remove every message and offset, once per generation (X2); offsets begin at 0 again."""
        if generation <= self.generation:
            return False
        self.generation = generation
        self.segments.clear()
        self.offsets.clear()
        self.first_offset = self.next_offset = 0
        return True

    def read(self, offset: int, count: int) -> list[memoryview]:
        """Messages from ``offset`` on; only what was applied is here to be read."""
        found: list[memoryview] = []
        for segment in self.segments:
            if segment.end_offset <= offset:
                continue
            batch = walk(memoryview(bytes(segment.log)))
            for number, (start, end) in enumerate(batch.bounds()):
                if segment.base_offset + number >= offset and len(found) < count:
                    found.append(batch.messages[start:end])
        return found
