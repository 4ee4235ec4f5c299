"""Batches: messages back to back in one buffer, and where each of them ends.

No object per message is made between the socket and the disk. A batch of fewer than SMALL
messages is handled with `struct`, because one numpy call costs as much as a whole message; a
larger one field by field, for all its messages at once (`columns.py`), with messages of one size
as the case that is tried first. Where the accelerator is there, it does both (`accelerator.py`);
what it finds faulty is looked at again here, where faults have names. The header is in
`header.py`, an index entry is::

    bytes    field        in a request              in an index file
    0..4     offset       u32, zero                 relative to the first of the segment
    4..8     position     u32, END of the message   in the segment file
    8..16    timestamp    u64, zero                 µs
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from borzoi.model.errors import InvalidMessagesSize, InvalidReservedField, MessageTooSmall
from borzoi.model.limits import HEADER_BYTES, U32_MAX, U64_MAX
from borzoi.records import accelerator
from borzoi.records.checksum import DIGEST, checksum, checksums_between, joined_digests
from borzoi.records.columns import Column, equal_column, gathered_column, scatter_column
from borzoi.records.fresh_ids import FreshIds
from borzoi.records.header import CHECKSUM_AT, ID_AT, LENGTHS_AT, OFFSET_AT, TIMESTAMP_AT
from borzoi.records.layouts import (
    SHARED,
    WORD_DTYPE,
    Layout,
    Layouts,
    Place,
    Views,
    equal_columns,
    steps_of,
)
from borzoi.records.validation import (
    CHECKED,
    INDEX_ENTRY,
    LENGTHS,
    check_all,
    check_count,
    check_each,
    have_equal_lengths,
    is_one_plain,
)

#: Below this many messages `struct` is faster than numpy.
SMALL: Final = 8

WORD: Final = struct.Struct("<Q")
#: What the server writes into one header, behind the checksum: id, offset, timestamp.
STAMPED: Final = struct.Struct("<16sQQ")
ID: Final = struct.Struct("16s")
NO_ID: Final = bytes(ID.size)
_unpack_id: Final = ID.unpack_from
_pack_stamped: Final = STAMPED.pack_into
_pack_word: Final = WORD.pack_into
ID_DTYPE: Final = np.dtype("V16")

ENDS_DTYPE: Final = np.dtype("<u4")

#: None where the accelerator was not built, and in tests of what runs without it.
native: accelerator.Native | None = accelerator.native

#: Called with a count, gives that many ids, 16 bytes each.
NewIds = Callable[[int], NDArray[np.uint8] | bytes]


class Batch:
    """Messages, and the end of each relative to the start of the first.

    `equal_size` is the size of every message when `receive` or `walk` saw that they have one size,
    else 0; it only chooses the faster of two ways to the same bytes.
    """

    __slots__ = ("_ends", "_layout", "_starts", "_views", "count", "equal_size", "messages", "size")

    def __init__(
        self,
        messages: memoryview,
        ends: NDArray[np.uint32] | list[int],
        equal_size: int = 0,
        layout: Layout | None = None,
        views: Views | None = None,
    ) -> None:
        self.messages = messages
        #: Bytes of all messages together.
        self.size = len(messages)
        #: How many there are; what `len` gives, at a third of its cost.
        self.count = len(ends)
        # A list for a small batch, an array for the others: code that needs the other form of a
        # small one gets it made on demand.
        self._ends = ends
        self._starts: NDArray[np.int64] | None = None
        self.equal_size = equal_size
        self._layout = layout
        self._views = views

    def __len__(self) -> int:
        return self.count

    @property
    def layout(self) -> Layout:
        """Of a batch whose messages have one size."""
        if self._layout is None:
            self._layout = SHARED.of(self.equal_size, self.count)
        return self._layout

    @property
    def ends(self) -> NDArray[np.uint32]:
        ends = self._ends
        return np.array(ends, np.uint32) if isinstance(ends, list) else ends

    @property
    def starts(self) -> NDArray[np.int64]:
        if self._starts is None:
            self._starts = np.zeros(len(self._ends), np.int64)
            self._starts[1:] = self._ends[:-1]
        return self._starts

    def bounds(self) -> Iterator[tuple[int, int]]:
        """Start and end of each message, for code that must go one by one."""
        ends = self._ends if isinstance(self._ends, list) else self._ends.tolist()
        return zip([0, *ends[:-1]], ends, strict=False)

    def part(self, first: int, last: int) -> "Batch":
        """Return the messages from number `first` up to `last`, without copying."""
        start = int(self._ends[first - 1]) if first else 0
        ends = self._ends[first:last]
        if not isinstance(ends, list):
            ends = ends - np.uint32(start)
            if last - first < SMALL:
                ends = ends.tolist()
        elif start:
            ends = [end - start for end in ends]
        messages = self.messages[start : start + int(ends[-1])]
        return Batch(messages, ends, 0 if isinstance(ends, list) else self.equal_size)

    # The columns are copies: they neither follow the buffer nor keep its owner from releasing it.

    def ids(self) -> Column:
        """16 bytes each; `tolist()` makes them `bytes`."""
        return self._read(ID_AT, ID_DTYPE).copy()

    def offsets(self) -> NDArray[np.uint64]:
        return self._read(OFFSET_AT, WORD_DTYPE).copy()

    def timestamps(self) -> NDArray[np.uint64]:
        return self._read(TIMESTAMP_AT, WORD_DTYPE).copy()

    def _read(self, at: int, kind: np.dtype[Any]) -> Column:
        if not self.count:
            return np.empty(0, kind)
        if self._views is not None:
            return self._views.columns[at]
        if self.equal_size:
            return equal_column(self.messages, self.equal_size, at, kind)
        return gathered_column(self.messages, self.starts, at, kind)

    def _write(self, at: int, kind: np.dtype[Any], values: Column | int) -> None:
        if self.equal_size:
            equal_column(self.messages, self.equal_size, at, kind)[:] = values
        else:
            scatter_column(self.messages, self.starts, at, kind, values)


# Receiving: what a client sent, checked. ---------------------------------------------------------


def receive(messages: memoryview, indexes: memoryview, count: int) -> Batch:
    """The batch of a SendMessages request, or the exception for its first fault."""
    if native is not None:
        found = native.check(messages, indexes, count)
        if found is not None:
            return found_batch(messages, found)
    if count == 1 and is_one_plain(messages, indexes):
        return Batch(messages, [len(messages)])
    check_count(indexes, count)
    if count < SMALL:
        return Batch(messages, check_each(messages, indexes, count))
    return _receive_many(messages, indexes, count, SHARED)


def receive_at(layouts: Layouts, place: Place, messages: memoryview, indexes: memoryview) -> Batch:
    """The same for at least SMALL messages in a buffer that comes back: faster when a batch of this
    shape lay there before."""
    views = layouts.views_at(place)
    if views is not None and views.fits(indexes):
        layout = views.layout
        return Batch(messages, layout.ends, layout.size, layout, views)
    count = place[2]
    check_count(indexes, count)
    batch = _receive_many(messages, indexes, count, layouts)
    if batch.equal_size and layouts.comes_again(place):
        layouts.keep(place, Views(batch.layout, messages))
    return batch


def _receive_many(messages: memoryview, indexes: memoryview, count: int, layouts: Layouts) -> Batch:
    ends, layout = check_all(messages, indexes, count, layouts)
    return Batch(messages, ends, 0 if layout is None else layout.size, layout)


# Walking: what the headers alone say. ------------------------------------------------------------


def walk(messages: memoryview) -> Batch:
    """The batch in these bytes, taken from its headers; raises when they do not fit together.

    Lengths are only held against the bytes that are there: encrypted messages are longer than a
    client may send. Checksums are for `verify`.
    """
    if native is not None:
        found = native.walk(messages)
        if found is not None:
            return found_batch(messages, found)
    length = len(messages)
    if length > U32_MAX:
        raise InvalidMessagesSize("positions in a batch are 32-bit numbers")
    if length >= SMALL * HEADER_BYTES:
        user_headers, payload, _ = LENGTHS.unpack_from(messages, LENGTHS_AT)
        size = HEADER_BYTES + payload + user_headers
        if length >= SMALL * size and have_equal_lengths(messages, size):
            return Batch(messages, np.arange(size, length + 1, size, dtype=np.uint32), size)
    ends: list[int] = []
    start = 0
    while start < length:
        if length - start < HEADER_BYTES:
            raise MessageTooSmall(f"{length - start} bytes are too few for a message header")
        user_headers, payload, reserved = LENGTHS.unpack_from(messages, start + LENGTHS_AT)
        start += HEADER_BYTES + payload + user_headers
        if start > length:
            raise InvalidMessagesSize(f"message {len(ends)} is cut off")
        if reserved:
            raise InvalidReservedField(f"the reserved field of message {len(ends)} is not zero")
        ends.append(start)
    return _with_ends(messages, ends)


def equal_batch(messages: memoryview, size: int) -> Batch:
    """The batch in these bytes, whose messages are known to have this size each."""
    layout = SHARED.of(size, len(messages) // size)
    return Batch(messages, layout.ends, size, layout)


def walk_prefix(messages: memoryview) -> Batch:
    """The longest run of whole, undamaged messages with consecutive offsets at the start.

    Made for the tail of a segment, where anything may follow: half a message, zeros of space
    reserved ahead, the remains of a batch that was never acknowledged.
    """
    if native is not None:
        whole = found_batch(messages, native.prefix(messages))
        return Batch(messages[: int(whole._ends[-1]) if whole.count else 0], whole._ends)
    ends: list[int] = []
    length = min(len(messages), U32_MAX)
    start = 0
    expected: int | None = None
    while length - start >= HEADER_BYTES:
        (stored,) = WORD.unpack_from(messages, start)
        offset, user_headers, payload, reserved = CHECKED.unpack_from(messages, start + OFFSET_AT)
        end = start + HEADER_BYTES + payload + user_headers
        if end > length or reserved or (expected is not None and offset != expected):
            break
        if checksum(messages[start + ID_AT : end]) != stored:
            break
        ends.append(end)
        start, expected = end, offset + 1
    return _with_ends(messages[:start], ends)


def found_batch(messages: memoryview, found: accelerator.Found) -> Batch:
    """The batch in which the accelerator found these ends."""
    if isinstance(found, list):
        return Batch(messages, found)
    return Batch(messages, np.frombuffer(found[0], ENDS_DTYPE), found[1])


def _with_ends(messages: memoryview, ends: list[int]) -> Batch:
    return Batch(messages, ends if len(ends) < SMALL else np.array(ends, np.uint32))


# Stamping: what the server adds. -----------------------------------------------------------------


def stamp(batch: Batch, base_offset: int, timestamp: int, new_ids: NewIds) -> None:
    """Number the messages from `base_offset`, in place, and seal them with their checksums.

    `new_ids(n)` gives n × 16 bytes for the messages that came without an id.
    """
    assert base_offset + batch.count <= U64_MAX
    ends = batch._ends
    if native is not None:
        # It draws the ids itself where it can, while it has the message at hand.
        generator = new_ids.generator if isinstance(new_ids, FreshIds) else None
        native.stamp(batch.messages, ends, base_offset, timestamp, new_ids, generator)
        return
    if isinstance(ends, list):
        _stamp_each(batch.messages, ends, base_offset, timestamp, new_ids)
        return
    offsets = np.arange(base_offset, base_offset + batch.count, dtype=WORD_DTYPE)
    if batch.equal_size:
        _stamp_equal(batch, offsets, timestamp, new_ids)
        return
    batch._write(OFFSET_AT, WORD_DTYPE, offsets)
    batch._write(TIMESTAMP_AT, WORD_DTYPE, timestamp)
    ids = _completed(batch._read(ID_AT, ID_DTYPE).tobytes(), new_ids)
    if ids is not None:
        batch._write(ID_AT, ID_DTYPE, ids)
    stamp_checksums(batch)


def _stamp_equal(
    batch: Batch, offsets: NDArray[np.uint64], timestamp: int, new_ids: NewIds
) -> None:
    views, messages = batch._views, batch.messages
    columns = equal_columns(messages, batch.equal_size) if views is None else views.columns
    columns[OFFSET_AT][:] = offsets
    columns[TIMESTAMP_AT][:] = timestamp
    ids = _completed(columns[ID_AT].tobytes(), new_ids)
    if ids is not None:
        columns[ID_AT][:] = ids
    if views is None:
        columns[CHECKSUM_AT][:] = batch.layout.checksums(messages)
    else:
        columns[CHECKSUM_AT][:] = np.frombuffer(joined_digests(views.hashed), DIGEST)


def _completed(ids: bytes, new_ids: NewIds) -> Column | None:
    """The ids with new ones for those that are missing; None when none is."""
    count = len(ids) // ID.size
    if ids == bytes(len(ids)):
        return np.frombuffer(new_ids(count), ID_DTYPE)
    words = np.frombuffer(bytearray(ids), WORD_DTYPE).reshape(count, 2)
    is_missing = words[:, 0] == 0
    if not is_missing.any():
        return None
    is_missing &= words[:, 1] == 0
    missing = int(np.count_nonzero(is_missing))
    if not missing:
        return None
    words[is_missing] = np.frombuffer(new_ids(missing), WORD_DTYPE).reshape(missing, 2)
    return words.view(ID_DTYPE)[:, 0]


def _stamp_each(
    messages: memoryview, ends: list[int], base_offset: int, timestamp: int, new_ids: NewIds
) -> None:
    start = 0
    for end in ends:
        hashed = start + ID_AT
        (id_,) = _unpack_id(messages, hashed)
        if id_ == NO_ID:
            id_ = bytes(new_ids(1))
        _pack_stamped(messages, hashed, id_, base_offset, timestamp)
        _pack_word(messages, start, checksum(messages[hashed:end]))
        base_offset += 1
        start = end


def stamp_checksums(batch: Batch) -> None:
    """Seal the messages again, after their bodies changed."""
    if native is not None:
        native.seal(batch.messages, batch._ends)
    elif isinstance(batch._ends, list):
        for start, end in batch.bounds():
            hashed = checksum(batch.messages[start + ID_AT : end])
            WORD.pack_into(batch.messages, start, hashed)
    else:
        batch._write(CHECKSUM_AT, WORD_DTYPE, _checksums(batch))


def verify(batch: Batch) -> int | None:
    """The first message whose checksum is wrong."""
    if native is not None:
        return native.verify(batch.messages, batch._ends)
    if isinstance(batch._ends, list):
        for number, (start, end) in enumerate(batch.bounds()):
            (stored,) = WORD.unpack_from(batch.messages, start)
            if checksum(batch.messages[start + ID_AT : end]) != stored:
                return number
        return None
    wrong = batch._read(CHECKSUM_AT, WORD_DTYPE) != _checksums(batch)
    return int(wrong.argmax()) if wrong.any() else None


def _checksums(batch: Batch) -> NDArray[np.uint64]:
    if batch._views is not None:
        return batch._views.checksums()
    if batch.equal_size:
        return batch.layout.checksums(batch.messages)
    return checksums_between(batch.messages, batch.ends)


def index_entries(batch: Batch, *, relative_offset: int, position: int, timestamp: int) -> bytes:
    """One entry per message, for a batch that begins at this byte and offset of its segment."""
    ends = batch._ends
    count = batch.count
    end = position + batch.size
    assert end <= U32_MAX
    assert relative_offset + count <= U32_MAX
    if count == 1:
        return INDEX_ENTRY.pack(relative_offset, end, timestamp)
    if native is not None:
        return native.entries(ends, relative_offset, position, timestamp)
    if isinstance(ends, list):
        numbered = enumerate(ends, relative_offset)
        return b"".join([INDEX_ENTRY.pack(i, position + end, timestamp) for i, end in numbered])
    # Offset and position are the two halves of one word, and no half overflows into the other.
    steps = batch.layout.steps if batch.equal_size else steps_of(ends)
    words = np.empty((count, 2), WORD_DTYPE)
    np.add(steps, position << 32 | relative_offset, out=words[:, 0])
    words[:, 1] = timestamp
    return words.tobytes()


class JoinedBatches:
    """Copies of the messages of several batches, one after another."""

    __slots__ = ("_ends", "_messages")

    def __init__(self) -> None:
        self._messages = bytearray()
        self._ends: list[int] = []

    def __len__(self) -> int:
        """Bytes of all messages."""
        return len(self._messages)

    def add(self, messages: memoryview, ends: accelerator.Ends) -> None:
        """`ends` are relative to the start of these messages."""
        joined = self._messages
        if len(ends) == 1:
            joined += messages
            self._ends.append(len(joined))
        else:
            start = len(joined)
            self._ends += [start + int(end) for end in ends]
            joined += messages

    def join(self, frame: memoryview, repeated: bytes) -> int:
        """Add the messages of a whole request whose bytes from its code to its count are these;
        how many bytes were added. 0 for any other request, and without the accelerator."""
        return 0 if native is None else native.join(frame, repeated, self._messages, self._ends)

    def batch(self) -> Batch:
        """All of them; nothing is added afterwards."""
        return _with_ends(memoryview(self._messages), self._ends)


def keep(batch: Batch, mask: NDArray[np.bool_]) -> Batch:
    """Return the messages selected by the mask, in a new buffer."""
    kept = bytearray()
    ends: list[int] = []
    for wanted, (start, end) in zip(mask.tolist(), batch.bounds(), strict=True):
        if wanted:
            kept += batch.messages[start:end]
            ends.append(len(kept))
    return _with_ends(memoryview(kept), ends)
