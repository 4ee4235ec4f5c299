"""The cache for batches of equal-sized messages, reused before they are parsed.

A `Layout` is what follows from the size of a message and the number of messages: the index entries
a client must have sent, where the messages end, the cuts for hashing. A producer repeats both
numbers, so layouts are kept.

The memory pool also lends the same buffer again and again. `Views` are the numpy and memory views
of one layout at one place of the arena: one view of each field for all messages, and one of each
message for its checksum. Making them takes nearly as long as hashing through them. With kept views
the checksums of 1000 messages of 1000 bytes cost 78 µs instead of 140, and checking and stamping
make no view at all.

Nothing here depends on what a buffer holds: each new batch is checked (`Views.fits`).
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from borzoi.model.limits import HEADER_BYTES
from borzoi.records.checksum import DIGEST, Cutter, checksums_of_equal, cutters, joined_digests
from borzoi.records.columns import Column
from borzoi.records.header import CHECKSUM_AT, ID_AT, LENGTHS_AT, OFFSET_AT, TIMESTAMP_AT

#: Batches of more messages are not kept: they are rare, and their layout is a small part of them.
LAYOUT_MESSAGES_MAX: Final = 4096
#: Layouts kept, up to 130 bytes a message each.
LAYOUTS_MAX: Final = 64
#: Messages of all kept views together; a view takes 200 bytes.
VIEWED_MESSAGES_MAX: Final = 32_768
#: Places remembered to see whether a batch of the same shape comes there again.
SEEN_ONCE_MAX: Final = 1024

INDEX_DTYPE: Final = np.dtype([("offset", "<u4"), ("position", "<u4"), ("timestamp", "<u8")])
WORD_DTYPE: Final = np.dtype("<u8")
#: The type of each field that is read or written for all messages at once.
FIELDS: Final[Mapping[int, np.dtype[Any]]] = {
    CHECKSUM_AT: WORD_DTYPE,
    ID_AT: np.dtype("V16"),
    OFFSET_AT: WORD_DTYPE,
    TIMESTAMP_AT: WORD_DTYPE,
    LENGTHS_AT: np.dtype("V16"),
}


def equal_columns(messages: memoryview, size: int) -> dict[int, Column]:
    """The fields of messages that all have the same size, by their position in the header."""
    count = len(messages) // size
    return {at: np.ndarray((count,), kind, messages, at, (size,)) for at, kind in FIELDS.items()}


class Layout:
    """`count` messages of `size` bytes each, in any memory."""

    __slots__ = ("_cutters", "_steps", "count", "ends", "indexes", "size")

    def __init__(self, size: int, count: int) -> None:
        entries = np.zeros(count, INDEX_DTYPE)
        entries["position"] = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(size)
        self.size = size
        self.count = count
        #: Where each message ends. Shared by all batches of this layout, so read-only.
        self.ends: NDArray[np.uint32] = entries["position"].copy()
        self.ends.flags.writeable = False
        #: The index entries of a request. Compare with this on the left: a bytearray compares
        #: memory, a memoryview compares items.
        self.indexes = bytearray(entries.tobytes())
        self._steps: NDArray[np.uint64] | None = None
        self._cutters: list[Cutter] | None = None

    @property
    def steps(self) -> NDArray[np.uint64]:
        if self._steps is None:
            self._steps = steps_of(self.ends)
        return self._steps

    def checksums(self, messages: memoryview) -> NDArray[np.uint64]:
        if self._cutters is None:
            self._cutters = cutters(self.size, self.count)
        return checksums_of_equal(messages, self.size, self._cutters)


def steps_of(ends: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """First words of the index entries of a batch that begins its segment."""
    steps = ends.astype(WORD_DTYPE)
    steps <<= np.uint64(32)
    steps += np.arange(len(ends), dtype=WORD_DTYPE)
    return steps


#: Where a batch lies in the arena, its size in bytes, and how many messages it has.
Place: TypeAlias = tuple[int, int, int]


class Views:
    """The fields and messages of one layout at one place."""

    __slots__ = ("_expected_lengths", "_no_offsets", "columns", "hashed", "layout")

    def __init__(self, layout: Layout, messages: memoryview) -> None:
        """Of a batch that was found sound, so that later ones can be compared with it."""
        size, count = layout.size, layout.count
        self.layout = layout
        self.columns = equal_columns(messages, size)
        #: What is hashed of each message.
        self.hashed = [messages[end - size + ID_AT : end] for end in layout.ends.tolist()]
        self._expected_lengths = bytes(messages[LENGTHS_AT:HEADER_BYTES]) * count
        self._no_offsets = bytes(WORD_DTYPE.itemsize * count)

    def fits(self, indexes: memoryview) -> bool:
        """Whether the batch that lies there now is as sound as the first one, and as long."""
        return (
            self.layout.indexes == indexes
            and self.columns[LENGTHS_AT].tobytes() == self._expected_lengths
            and self.columns[OFFSET_AT].tobytes() == self._no_offsets
        )

    def checksums(self) -> NDArray[np.uint64]:
        return np.frombuffer(joined_digests(self.hashed), DIGEST)


class Layouts:
    """The layouts used lately, and the views of batches that came at least twice.

    Views hold on to the arena they look at, so one of these belongs to one memory pool. The oldest
    entries are dropped when there are too many.
    """

    __slots__ = ("_layouts", "_seen_once", "_viewed_messages", "_views")

    def __init__(self) -> None:
        self._layouts: dict[tuple[int, int], Layout] = {}
        self._views: dict[Place, Views] = {}
        self._viewed_messages = 0
        self._seen_once: set[Place] = set()

    def of(self, size: int, count: int) -> Layout:
        layout = self._layouts.get((size, count))
        if layout is None:
            layout = Layout(size, count)
            if count <= LAYOUT_MESSAGES_MAX:
                if len(self._layouts) >= LAYOUTS_MAX:
                    del self._layouts[next(iter(self._layouts))]
                self._layouts[size, count] = layout
        return layout

    def views_at(self, place: Place) -> Views | None:
        return self._views.get(place)

    def comes_again(self, place: Place) -> bool:
        """Whether a batch lay there before that has no views yet: then they are worth making."""
        if place in self._seen_once:
            self._seen_once.discard(place)
            return True
        if place not in self._views and place[2] <= LAYOUT_MESSAGES_MAX:
            if len(self._seen_once) >= SEEN_ONCE_MAX:
                self._seen_once.clear()
            self._seen_once.add(place)
        return False

    def keep(self, place: Place, views: Views) -> None:
        self._views[place] = views
        self._viewed_messages += place[2]
        while self._viewed_messages > VIEWED_MESSAGES_MAX:
            oldest = next(iter(self._views))
            del self._views[oldest]
            self._viewed_messages -= oldest[2]


#: For batches outside every arena, which never have views.
SHARED: Final = Layouts()
