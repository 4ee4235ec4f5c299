"""What a read gives back: where the bytes lie, not the bytes."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from borzoi.storage.media import File, read_exactly


class FileRange(NamedTuple):
    """Bytes of a segment, for `sendfile`. Holding the range keeps the file open."""

    file: File
    position: int
    length: int


class Reading(msgspec.Struct):
    """Whole messages, consecutive: first the ranges, then the tail.

    The tail holds what is not in a plain file: messages that are not saved yet, or that had to be
    inflated. Its views stay valid while they are held.
    """

    first_offset: int = 0
    count: int = 0
    ranges: list[FileRange] = []
    tail: list[memoryview] = []
    #: Messages of the range that are not among the bytes, because no key opens them.
    left_out: int = 0

    @property
    def last_offset(self) -> int:
        """The offset of the last message, one left out included; meaningless without any."""
        return self.first_offset + self.count + self.left_out - 1

    @property
    def size(self) -> int:
        """Bytes of all messages together."""
        size = 0
        for part in self.ranges:
            size += part.length
        for chunk in self.tail:
            size += len(chunk)
        return size

    def chunks(self) -> Iterator[bytes | memoryview]:
        """The bytes themselves, read from the files: for encryption, HTTP and tests."""
        for file, position, length in self.ranges:
            yield read_exactly(file, length, position)
        yield from self.tail

    def materialise(self) -> bytes:
        return b"".join(self.chunks())
