"""Consecutive messages of an open file in memory, for consumers that poll few at a time.

A small poll would look up two positions in the index and read some hundred bytes from the file.
Most of them read on where they, or others, have just read. So the messages behind such a poll are
read along, and the next polls are answered from memory.
"""

from collections.abc import Sequence
from typing import Final

from borzoi.storage.media import ReadOnlyFile
from borzoi.storage.reading import FileRange

#: What is read along; it is kept while the descriptor of the file is open, so the number of
#: descriptors bounds all of it.
KEPT_BYTES: Final = 8 * 1024
#: A poll of more bytes does not gain.
FEW_BYTES: Final = KEPT_BYTES // 4


class KeptMessages:
    """Messages first_offset..end_offset; the bytes of a file never change behind a range."""

    __slots__ = ("_content", "_ends", "_position", "end_offset", "first_offset")

    def __init__(
        self, first_offset: int, position: int, ends: Sequence[int], content: bytes
    ) -> None:
        """`position` is where the first one begins in the file, `ends` where they end there."""
        self.first_offset = first_offset
        self.end_offset = first_offset + len(ends)
        self._position = position
        self._ends = [position, *ends]
        self._content = memoryview(content)

    def part(self, file: ReadOnlyFile, offset: int, end: int) -> FileRange:
        """Messages offset..end, all of which are here."""
        first = offset - self.first_offset
        start, stop = self._ends[first], self._ends[end - self.first_offset]
        content = self._content[start - self._position : stop - self._position]
        return FileRange(file, start, stop - start, content)
