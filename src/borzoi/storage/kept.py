"""Consecutive messages of a file in memory, for consumers that poll few at a time.

A small poll would look up two positions in the index and read some hundred bytes from the file.
Most of them read on where they, or others, have just read. So the messages behind such a poll are
read along, and the next polls are answered from memory.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from borzoi.storage.media import ReadOnlyFile
from borzoi.storage.reading import FileRange

#: What is read along at once.
KEPT_BYTES: Final = 8 * 1024
#: How many times that is kept for all files of a shard together.
KEPT_MAX: Final = 256
#: A poll of more bytes does not gain.
FEW_BYTES: Final = KEPT_BYTES // 4


class KeptMessages:
    """Messages first_offset..end_offset; the bytes of a file never change behind a range."""

    __slots__ = ("_content", "_ends", "_position", "edition", "end_offset", "first_offset", "used")

    def __init__(
        self, first_offset: int, position: int, ends: Sequence[int], content: bytes
    ) -> None:
        """`position` is where the first one begins in the file, `ends` where they end there."""
        #: Who holds them may use them while this is the edition of the log.
        self.edition = 0
        #: Whether they were read since they last were the next ones to be forgotten.
        self.used = False
        self.first_offset = first_offset
        self.end_offset = first_offset + len(ends)
        self._position = position
        self._ends = [position, *ends]
        self._content = memoryview(content)

    def content(self, offset: int, end: int) -> memoryview:
        """Messages offset..end, all of which are here."""
        self.used = True
        first, ends, position = self.first_offset, self._ends, self._position
        return self._content[ends[offset - first] - position : ends[end - first] - position]

    def part(self, file: ReadOnlyFile, offset: int, end: int) -> FileRange:
        """The same as a part of the file."""
        start, content = self._ends[offset - self.first_offset], self.content(offset, end)
        return FileRange(file, start, len(content), content)

    def forget(self) -> None:
        """Hold none of them any more."""
        self.end_offset = self.first_offset
        self._ends = [self._position]
        self._content = memoryview(b"")


def nothing_kept(edition: int) -> KeptMessages:
    """No messages of a log that could be read in this edition."""
    kept = KeptMessages(0, 0, (), b"")
    kept.edition = edition
    return kept


class KeptInTurn:
    """All that is kept of the files of one shard. When there is no room, what is in use stays: with
    more consumers than that, some read from the file, or all would forget what they need next."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: deque[KeptMessages] = deque()

    def make_room(self) -> bool:
        """Whether there is room for another one; the next one that is not in use makes some."""
        if len(self._kept) < KEPT_MAX:
            return True
        next_one = self._kept[0]
        if next_one.used:
            next_one.used = False
            self._kept.rotate(-1)
            return False
        self._kept.popleft().forget()
        return True

    def add(self, kept: KeptMessages) -> None:
        """Keep these as well: there is room."""
        assert len(self._kept) < KEPT_MAX
        self._kept.append(kept)
