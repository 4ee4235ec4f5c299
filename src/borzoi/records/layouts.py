"""Batches of one shape in memory that is used again: every view of their fields, made once.

A producer sends the same number of messages of the same size over and over, and the pool lends the
same buffer for each of them. The views of a batch (one of each field for all messages, one of each
message for its checksum) then look at the same addresses every time. Making the views takes nearly
as long as hashing through them, so they are kept: for 1000 messages of 1000 bytes the
checksums cost 78 µs instead of 140, and checking and stamping make no view at all.

What is kept here says nothing about what the buffer holds: each new batch is checked (`fits`).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from borzoi.model.limits import HEADER_BYTES
from borzoi.records.checksum import DIGEST, joined_digests
from borzoi.records.columns import Column, equal_column
from borzoi.records.header import CHECKSUM_AT, ID_AT, LENGTHS_AT, OFFSET_AT, TIMESTAMP_AT

#: How many messages all kept layouts may have together: a view takes 200 bytes.
KEPT_MESSAGES_MAX: Final = 32_768
#: A batch of more messages is rare, and making its views is the smaller part of its cost.
LAYOUT_MESSAGES_MAX: Final = 4096
#: Places that are remembered to see whether a batch of the same shape comes there again.
SEEN_ONCE_MAX: Final = 1024

WORD_DTYPE: Final = np.dtype("<u8")
#: The type of each field that is read or written for all messages at once.
FIELDS: Final[Mapping[int, np.dtype[Any]]] = {
    CHECKSUM_AT: WORD_DTYPE,
    ID_AT: np.dtype("V16"),
    OFFSET_AT: WORD_DTYPE,
    TIMESTAMP_AT: WORD_DTYPE,
    LENGTHS_AT: np.dtype("V16"),
}


class Place(NamedTuple):
    """Where a batch lies, in memory that is used again, and its shape."""

    start: int
    size: int
    messages: int


class Layout:
    """Messages of one size at one place."""

    __slots__ = ("_expected_lengths", "_hashed", "_indexes", "_no_offsets", "columns", "ends")

    def __init__(
        self, messages: memoryview, indexes: bytes, ends: NDArray[np.uint32], size: int
    ) -> None:
        """Of a batch that was found sound, so that another one can be held against it."""
        count = len(ends)
        self.ends = ends
        #: By the position of the field in the header.
        self.columns: dict[int, Column] = {
            at: equal_column(messages, size, at, kind) for at, kind in FIELDS.items()
        }
        self._hashed = [messages[end - size + ID_AT : end] for end in ends.tolist()]
        # The bytearray must stand on the left: it compares memory, a memoryview compares items.
        self._indexes = bytearray(indexes)
        self._expected_lengths = bytes(messages[LENGTHS_AT:HEADER_BYTES]) * count
        self._no_offsets = bytes(WORD_DTYPE.itemsize * count)

    def fits(self, indexes: memoryview) -> bool:
        """Whether what lies there now is as sound as the batch this was made of, and as long."""
        return (
            self._indexes == indexes
            and self.columns[LENGTHS_AT].tobytes() == self._expected_lengths
            and self.columns[OFFSET_AT].tobytes() == self._no_offsets
        )

    def checksums(self) -> NDArray[np.uint64]:
        return np.frombuffer(joined_digests(self._hashed), DIGEST)


class Layouts:
    """The layouts of batches that came at least twice; the oldest go when there are too many."""

    __slots__ = ("_kept", "_messages", "_seen_once")

    def __init__(self) -> None:
        self._kept: dict[Place, Layout] = {}
        self._messages = 0
        self._seen_once: set[Place] = set()

    def find(self, place: Place) -> Layout | None:
        return self._kept.get(place)

    def comes_again(self, place: Place) -> bool:
        """Whether a batch lay there before that has no layout yet: then one is worth making."""
        if place in self._seen_once:
            self._seen_once.discard(place)
            return True
        if place not in self._kept and place.messages <= LAYOUT_MESSAGES_MAX:
            if len(self._seen_once) >= SEEN_ONCE_MAX:
                self._seen_once.clear()
            self._seen_once.add(place)
        return False

    def keep(self, place: Place, layout: Layout) -> None:
        self._kept[place] = layout
        self._messages += place.messages
        while self._messages > KEPT_MESSAGES_MAX:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._messages -= oldest.messages
