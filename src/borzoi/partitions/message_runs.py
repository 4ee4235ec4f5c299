"""The bytes of a poll, cut between messages.

They come in chunks that end anywhere. What works on messages gets runs of whole ones, and where it
can do with less a message that is too long to be held as a `LargeMessage`, piece by piece.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from borzoi.model.errors import StorageFailure
from borzoi.model.limits import HEADER_BYTES
from borzoi.partitions.encrypting import LENGTHS
from borzoi.records.header import LENGTHS_AT
from borzoi.storage.reading import SLICE_BYTES, Chunk

#: Messages of one run: about a millisecond of work, whatever their size.
RUN_MESSAGES: Final = 512


class LargeMessage:
    """One message, taken from its start to its end in pieces of at most `SLICE_BYTES`."""

    __slots__ = ("_chunks", "_data", "_left", "header")

    def __init__(self, data: memoryview, size: int, chunks: Iterator[Chunk]) -> None:
        self.header = bytes(data[:HEADER_BYTES])
        #: Bytes of its body that were not taken.
        self._left = size - HEADER_BYTES
        self._data = data[HEADER_BYTES:]
        self._chunks = chunks

    def take(self, length: int) -> Iterator[memoryview]:
        """The next bytes of its body, no more than there are."""
        wanted = min(length, self._left)
        while wanted:
            if not self._data:
                chunk = next(self._chunks, None)
                if chunk is None:
                    raise StorageFailure(f"a message of a poll ends {self._left} bytes too early")
                self._data = memoryview(chunk)
            piece = self._data[: min(wanted, SLICE_BYTES)]
            self._data = self._data[len(piece) :]
            self._left -= len(piece)
            wanted -= len(piece)
            yield piece

    def rest(self) -> Iterator[memoryview]:
        """What was not taken of it."""
        return self.take(self._left)

    def following(self) -> memoryview:
        """The bytes after it, once all of it was taken."""
        assert not self._left, "a large message is taken to its end"
        return self._data


def whole_messages(
    chunks: Iterable[Chunk], messages_max: int = RUN_MESSAGES
) -> Iterator[memoryview]:
    """At most `messages_max` messages at a time and, unless one is longer, no more bytes than came
    at once."""
    for run in runs(chunks, messages_max, large_bytes_min=sys.maxsize):
        assert isinstance(run, memoryview)
        yield run


def runs(
    chunks: Iterable[Chunk], messages_max: int, *, large_bytes_min: int
) -> Iterator[memoryview | LargeMessage]:
    """The same, but messages of `large_bytes_min` bytes or more are given piece by piece. They have
    to be taken to their end before the next run."""
    source = iter(chunks)
    pending: list[Chunk] = []
    arrived, needed = 0, HEADER_BYTES
    for chunk in source:
        pending.append(chunk)
        arrived += len(chunk)
        if arrived < needed:
            continue
        data = memoryview(chunk if len(pending) == 1 else b"".join(pending))
        while True:
            end = 0
            for start, end in _runs(data, messages_max, large_bytes_min):
                yield data[start:end]
            data = data[end:]
            needed = _size_of_first(data)
            if needed < large_bytes_min:
                break
            large = LargeMessage(data, needed, source)
            yield large
            data = large.following()
        pending, arrived = [data] if data else [], len(data)
    if arrived:
        raise StorageFailure(f"{arrived} bytes behind the last whole message of a poll")


def _runs(data: memoryview, messages_max: int, large_bytes_min: int) -> Iterator[tuple[int, int]]:
    """Where runs of whole messages begin and end, up to the first large one."""
    start = end = count = 0
    while len(data) - end >= HEADER_BYTES:
        size = _size_of_first(data[end : end + HEADER_BYTES])
        if size >= large_bytes_min or end + size > len(data):
            break
        end += size
        count += 1
        if count == messages_max:
            yield start, end
            start, count = end, 0
    if end > start:
        yield start, end


def _size_of_first(data: memoryview) -> int:
    """Bytes of the message that begins here, or of a header while that is not all there."""
    if len(data) < HEADER_BYTES:
        return HEADER_BYTES
    user_headers, payload, _ = LENGTHS.unpack_from(data, LENGTHS_AT)
    return int(HEADER_BYTES + user_headers + payload)
