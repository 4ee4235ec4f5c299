"""The result of a read: where the bytes are, or how to produce them, not the bytes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from borzoi.model.value import Value
from borzoi.storage.media import ReadOnlyFile, read_exactly

#: Bytes that are read or produced at once while an answer is sent: a fraction of a millisecond.
SLICE_BYTES: Final = 256 * 1024

Chunk: TypeAlias = bytes | memoryview


class FileRange(Value):
    """Bytes of a segment, for `sendfile`. Holding the range keeps the file open, unless the file
    is opened on demand."""

    file: ReadOnlyFile
    position: int
    length: int
    #: The bytes, when they are in memory anyway.
    content: memoryview | None = None

    def slices(self) -> Iterator[bytes]:
        """The bytes themselves, a slice at a time."""
        if self.content is not None:
            yield bytes(self.content)
            return
        for start in range(0, self.length, SLICE_BYTES):
            size = min(SLICE_BYTES, self.length - start)
            yield read_exactly(self.file, size, self.position + start)


class Produced(ABC):
    """Bytes that are produced while they are sent, so that an answer of any length costs one slice
    of memory at a time."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        #: Bytes of all slices together.
        self.length = length

    @abstractmethod
    def slices(self) -> Iterator[Chunk]:
        """All of them from the start, about `SLICE_BYTES` at a time. Raises `StorageFailure`."""

    def checks(self) -> Iterator[None]:
        """Check, step by step, whether the slices can be produced; raises what they would raise.

        The length of an answer is sent before its first slice, and a fault after that can only be
        reported by closing the connection.
        """
        return iter(())


class FileSlices(Produced):
    """A file range after produced bytes."""

    __slots__ = ("range",)

    def __init__(self, part: FileRange) -> None:
        super().__init__(part.length)
        self.range = part

    def slices(self) -> Iterator[bytes]:
        return self.range.slices()


class Reading(msgspec.Struct):
    """Whole messages, consecutive: first the ranges, then the tail.

    The tail holds what is not in a plain file: messages that are not saved yet, or that have to be
    inflated or decrypted. Its views stay valid while they are held.
    """

    first_offset: int = 0
    count: int = 0
    ranges: list[FileRange] = []
    tail: list[memoryview | Produced] = []
    #: Messages of the range that are left out, because they cannot be decrypted.
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
            size += chunk.length if isinstance(chunk, Produced) else len(chunk)
        return size

    def chunks(self) -> Iterator[Chunk]:
        """The bytes themselves; see `chunks_of`."""
        return chunks_of(self.ranges, self.tail)

    def materialise(self) -> bytes:
        return b"".join(self.chunks())

    @property
    def must_be_checked(self) -> bool:
        """Whether bytes have to be produced, which may fail."""
        return any(isinstance(chunk, Produced) for chunk in self.tail)

    def checks(self) -> Iterator[None]:
        """See `Produced.checks`."""
        for chunk in self.tail:
            if isinstance(chunk, Produced):
                yield from chunk.checks()


def chunks_of(
    ranges: Sequence[FileRange], tail: Sequence[memoryview | Produced]
) -> Iterator[Chunk]:
    """The bytes of ranges and of what follows them, read and made a slice at a time."""
    for part in ranges:
        yield from part.slices()
    for chunk in tail:
        if isinstance(chunk, Produced):
            yield from chunk.slices()
        else:
            yield chunk
