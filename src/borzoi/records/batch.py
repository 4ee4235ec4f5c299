"""Batches: messages back to back in one buffer, and where each of them ends.

No object per message is made between the socket and the disk. A batch of fewer than SMALL
messages is handled with `struct`, because one numpy call costs as much as a whole message; a
larger one field by field, for all its messages at once (`columns.py`), with messages of one size
as the case that is tried first.

An index entry, of a SendMessages request and of an index file::

    bytes    field        in a request              in a file
    0..4     offset       u32, zero                 relative to the first of the segment
    4..8     position     u32, END of the message   in the segment file
    8..16    timestamp    u64, zero                 µs
"""

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from borzoi.model.errors import (
    InvalidIndexPosition,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidOffset,
    InvalidReservedField,
    MessageTooSmall,
    MissingIndex,
    NonZeroIndexOffset,
    NonZeroIndexTimestamp,
    PayloadTooBig,
    UserHeadersTooBig,
)
from borzoi.model.limits import (
    HEADER_BYTES,
    INDEX_ENTRY_BYTES,
    PAYLOAD_BYTES_MAX,
    U32_MAX,
    U64_MAX,
    USER_HEADERS_BYTES_MAX,
)
from borzoi.records.checksum import checksum, checksums_between, checksums_of_equal
from borzoi.records.columns import Column, equal_column, gathered_column, scatter_column
from borzoi.records.header import (
    CHECKSUM_AT,
    ID_AT,
    LENGTHS_AT,
    OFFSET_AT,
    TIMESTAMP_AT,
)

#: Below this many messages `struct` is faster than numpy.
SMALL: Final = 8

#: Layouts of one-size batches up to this many messages are kept (20 bytes a message, 64 layouts).
KEPT_LAYOUT_MAX: Final = 4096

INDEX_ENTRY: Final = struct.Struct("<IIQ")
INDEX_DTYPE: Final = np.dtype([("offset", "<u4"), ("position", "<u4"), ("timestamp", "<u8")])
assert INDEX_ENTRY.size == INDEX_DTYPE.itemsize == INDEX_ENTRY_BYTES

U64: Final = np.dtype("<u8")
MESSAGE_ID: Final = np.dtype("V16")
#: user_headers_length, payload_length and reserved: the rest of a header from LENGTHS_AT.
LENGTHS: Final = np.dtype([("user_headers", "<u4"), ("payload", "<u4"), ("reserved", "<u8")])
LENGTHS_STRUCT: Final = struct.Struct("<IIQ")
#: What `stamp` numbers a message with: offset and timestamp are neighbours.
STAMP_STRUCT: Final = struct.Struct("<QQ")
U64_STRUCT: Final = struct.Struct("<Q")

NewIds = Callable[[int], NDArray[np.uint8] | bytes]


class Batch:
    """Messages, and the end of each relative to the start of the first.

    `equal_size` is the size of every message when `receive`, `walk` or `keep` saw that they have
    one size, else 0; it only chooses the faster of two ways to the same bytes.
    """

    __slots__ = ("_ends", "equal_size", "messages")

    def __init__(
        self, messages: memoryview, ends: NDArray[np.uint32] | list[int], equal_size: int = 0
    ) -> None:
        self.messages = messages
        # A list for a small batch, an array for the others: whoever needs the other form of a
        # small one gets it made on demand.
        self._ends = ends
        self.equal_size = equal_size

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def size(self) -> int:
        """Bytes of all messages together."""
        return len(self.messages)

    @property
    def ends(self) -> NDArray[np.uint32]:
        ends = self._ends
        return np.array(ends, np.uint32) if isinstance(ends, list) else ends

    @property
    def starts(self) -> NDArray[np.int64]:
        starts = np.zeros(len(self._ends), np.int64)
        starts[1:] = self._ends[:-1]
        return starts

    def bounds(self) -> Iterator[tuple[int, int]]:
        """Start and end of each message, for those who must go one by one."""
        ends = self._ends if isinstance(self._ends, list) else self._ends.tolist()
        return zip([0, *ends[:-1]], ends, strict=False)

    def ids(self) -> Column:
        """16 bytes each; `tolist()` makes them `bytes`."""
        return self._read(ID_AT, MESSAGE_ID)

    def offsets(self) -> Column:
        return self._read(OFFSET_AT, U64)

    def timestamps(self) -> Column:
        return self._read(TIMESTAMP_AT, U64)

    def _read(self, at: int, kind: np.dtype[Any]) -> Column:
        if not len(self):
            return np.empty(0, kind)
        if self.equal_size:
            return equal_column(self.messages, self.equal_size, at, kind)
        return gathered_column(self.messages, self.starts, at, kind)

    def _write(self, at: int, values: Column) -> None:
        if self.equal_size:
            equal_column(self.messages, self.equal_size, at, values.dtype)[:] = values
        else:
            scatter_column(self.messages, self.starts, at, values)


# Receiving: what a client sent, checked. ---------------------------------------------------------


def receive(messages: memoryview, indexes: memoryview, count: int) -> Batch:
    """The batch of a SendMessages request, or the exception for its first fault.

    Faults count in the order of the messages, for each message in the order in which the published
    server looks for them; a non-zero `reserved`, which that server lets through, comes last.
    """
    if count == 0:
        raise InvalidMessagesCount("a batch needs at least one message")
    if len(indexes) != count * INDEX_ENTRY_BYTES:
        raise InvalidMessagesCount(f"{len(indexes)} bytes of index are not {count} entries")
    if count < SMALL:
        return _receive_each(messages, indexes, count)
    size, rest = divmod(len(messages), count)
    if rest == 0 and size >= HEADER_BYTES:
        layout = _kept_layout(size, count) if count <= KEPT_LAYOUT_MAX else _layout(size, count)
        if bytes(indexes) == layout.indexes:
            if not _all_headers_alike(messages, size, count):
                _check_all(messages, indexes, count)
            return Batch(messages, layout.ends, size)
    return Batch(messages, _check_all(messages, indexes, count))


class _Layout(NamedTuple):
    indexes: bytes
    ends: NDArray[np.uint32]


def _layout(size: int, count: int) -> _Layout:
    """The index entries that say `count` messages of one size, and the ends they name."""
    ends = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(size)
    entries = np.zeros(count, INDEX_DTYPE)
    entries["position"] = ends
    ends32 = ends.astype(np.uint32)
    ends32.flags.writeable = False
    return _Layout(entries.tobytes(), ends32)


_kept_layout = lru_cache(maxsize=64)(_layout)


def _all_headers_alike(messages: memoryview, size: int, count: int) -> bool:
    """Whether all messages have sound lengths, the same ones, and no fault otherwise.

    This is what one producer's records look like; two comparisons of bytes settle it. A batch it
    says no to may still be sound.
    """
    first = messages[LENGTHS_AT:HEADER_BYTES].tobytes()
    user_headers, payload, reserved = LENGTHS_STRUCT.unpack(first)
    return (
        HEADER_BYTES + user_headers + payload == size
        and payload <= PAYLOAD_BYTES_MAX
        and user_headers <= USER_HEADERS_BYTES_MAX
        and reserved == 0
        and equal_column(messages, size, LENGTHS_AT, MESSAGE_ID).tobytes() == first * count
        and not equal_column(messages, size, OFFSET_AT, U64).any()
    )


def _check_all(messages: memoryview, indexes: memoryview, count: int) -> NDArray[np.uint32]:
    """The ends of the messages, checked all at once; a fault is then named by its message."""
    length = len(messages)
    entries = np.frombuffer(indexes, INDEX_DTYPE)
    ends = entries["position"].astype(np.int64)
    ends[-1] = length
    starts = np.zeros(count, np.int64)
    starts[1:] = ends[:-1]
    room = ends - starts
    no_header = (room < HEADER_BYTES) | (ends > length)
    readable = int(no_header.argmax()) if no_header.any() else count
    lengths = gathered_column(messages, starts[:readable], LENGTHS_AT, LENGTHS)
    user_headers, payload = lengths["user_headers"], lengths["payload"]
    sizes = HEADER_BYTES + user_headers.astype(np.int64) + payload
    offsets = gathered_column(messages, starts[:readable], OFFSET_AT, U64)
    faulty = (
        (sizes > room[:readable])
        | (payload > PAYLOAD_BYTES_MAX)
        | (user_headers > USER_HEADERS_BYTES_MAX)
        | (entries["offset"][:readable] != 0)
        | (entries["timestamp"][:readable] != 0)
    )
    faulty[1:] |= offsets[1:] < offsets[:-1]
    if readable == count:
        faulty[-1] |= entries["position"][-1] < entries["position"][-2]
    first_faulty = int(faulty.argmax()) if faulty.any() else readable
    if first_faulty < count:
        previous = int(offsets[first_faulty - 1]) if first_faulty else 0
        _check_message(messages, indexes, count, first_faulty, previous)
    if (sizes != room).any():
        raise InvalidMessagesSize("the sizes of the messages do not add up to what was sent")
    if lengths["reserved"].any():
        raise InvalidReservedField("the reserved field of a message is not zero")
    return ends.astype(np.uint32)


def _receive_each(messages: memoryview, indexes: memoryview, count: int) -> Batch:
    total = 0
    offset = 0
    reserved = 0
    ends = []
    for number in range(count):
        size, offset, reserved_here = _check_message(messages, indexes, count, number, offset)
        total += size
        reserved |= reserved_here
        ends.append(total)
    if total != len(messages):
        raise InvalidMessagesSize("the sizes of the messages do not add up to what was sent")
    if reserved:
        raise InvalidReservedField("the reserved field of a message is not zero")
    return Batch(messages, ends)


def _check_message(
    messages: memoryview, indexes: memoryview, count: int, number: int, previous_offset: int
) -> tuple[int, int, int]:
    """Size, offset and reserved field of one message; raises its first fault.

    The published server takes the start of a message from the index entry before it, and lets the
    last message end where the request ends, whatever its own entry says.
    """
    index_offset, position, index_timestamp = INDEX_ENTRY.unpack_from(indexes, number * 16)
    if index_offset != 0:
        raise NonZeroIndexOffset(f"index entry {number} has an offset")
    if index_timestamp != 0:
        raise NonZeroIndexTimestamp(f"index entry {number} has a timestamp")
    start = INDEX_ENTRY.unpack_from(indexes, number * 16 - 16)[1] if number else 0
    is_last = number == count - 1
    end = len(messages) if is_last else position
    if end > len(messages) or end - start < HEADER_BYTES:
        raise MissingIndex(f"message {number} has no room for a header")
    user_headers, payload, reserved = LENGTHS_STRUCT.unpack_from(messages, start + LENGTHS_AT)
    size = HEADER_BYTES + payload + user_headers
    if size > end - start:
        raise MissingIndex(f"message {number} is shorter than its header says")
    if payload > PAYLOAD_BYTES_MAX:
        raise PayloadTooBig(f"message {number} has a payload of {payload} bytes")
    if user_headers > USER_HEADERS_BYTES_MAX:
        raise UserHeadersTooBig(f"message {number} has {user_headers} bytes of user headers")
    (offset,) = U64_STRUCT.unpack_from(messages, start + OFFSET_AT)
    if offset < previous_offset:
        raise InvalidOffset(f"message {number} has a lower offset than the one before")
    if position < start and is_last:
        raise InvalidIndexPosition(f"index entry {number} lies before the one before it")
    return size, offset, reserved


# Walking: what the headers alone say. ------------------------------------------------------------


def walk(messages: memoryview) -> Batch:
    """The batch in these bytes, taken from its headers; raises when they do not fit together.

    Lengths are only held against the bytes that are there: encrypted messages are longer than a
    client may send. Checksums are for `verify`.
    """
    ends: list[int] = []
    length = len(messages)
    start = 0
    while start < length:
        if length - start < HEADER_BYTES:
            raise MessageTooSmall(f"{length - start} bytes are too few for a message header")
        user_headers, payload, reserved = LENGTHS_STRUCT.unpack_from(messages, start + LENGTHS_AT)
        start += HEADER_BYTES + payload + user_headers
        if start > length:
            raise InvalidMessagesSize(f"message {len(ends)} is cut off")
        if reserved:
            raise InvalidReservedField("the reserved field of a message is not zero")
        ends.append(start)
    return _walked(messages, ends)


def walk_prefix(messages: memoryview) -> Batch:
    """The longest run of whole, undamaged messages with consecutive offsets at the start."""
    ends: list[int] = []
    length = len(messages)
    start = 0
    expected: int | None = None
    while length - start >= HEADER_BYTES:
        (stored,) = U64_STRUCT.unpack_from(messages, start)
        (offset,) = U64_STRUCT.unpack_from(messages, start + OFFSET_AT)
        user_headers, payload, reserved = LENGTHS_STRUCT.unpack_from(messages, start + LENGTHS_AT)
        end = start + HEADER_BYTES + payload + user_headers
        if end > length or reserved or (expected is not None and offset != expected):
            break
        if checksum(messages[start + ID_AT : end]) != stored:
            break
        ends.append(end)
        start, expected = end, offset + 1
    return _walked(messages[:start], ends)


def _walked(messages: memoryview, ends: list[int]) -> Batch:
    if len(ends) < SMALL:
        return Batch(messages, ends)
    array = np.array(ends, np.uint32)
    size = ends[0]
    alike = size * len(ends) == ends[-1] and bool((np.diff(array) == size).all())
    return Batch(messages, array, size if alike else 0)


# Stamping: what the server adds. -----------------------------------------------------------------


def stamp(batch: Batch, *, base_offset: int, timestamp: int, new_ids: NewIds) -> None:
    """Number the messages from `base_offset`, in place, and seal them with their checksums.

    `new_ids(n)` gives n × 16 bytes for the messages that came without an id.
    """
    assert 0 <= base_offset <= base_offset + len(batch) <= U64_MAX
    ends = batch._ends
    if isinstance(ends, list):
        _stamp_each(batch.messages, ends, base_offset, timestamp, new_ids)
        return
    count = len(ends)
    stamps = np.empty((count, 2), U64)
    stamps[:, 0] = np.arange(base_offset, base_offset + count, dtype=U64)
    stamps[:, 1] = timestamp
    batch._write(OFFSET_AT, stamps.view(MESSAGE_ID)[:, 0])
    _fill_ids(batch, new_ids)
    stamp_checksums(batch)


def _fill_ids(batch: Batch, new_ids: NewIds) -> None:
    low = batch._read(ID_AT, U64)
    if low.all():
        return
    high = batch._read(ID_AT + 8, U64)
    missing = (low == 0) & (high == 0)
    count = int(np.count_nonzero(missing))
    if count:
        fresh = np.frombuffer(new_ids(count), MESSAGE_ID)
        if count == len(batch):
            batch._write(ID_AT, fresh)
        else:
            ids = batch.ids()
            ids[missing] = fresh
            batch._write(ID_AT, ids)


def _stamp_each(
    messages: memoryview, ends: list[int], base_offset: int, timestamp: int, new_ids: NewIds
) -> None:
    start = 0
    for offset, end in enumerate(ends, base_offset):
        STAMP_STRUCT.pack_into(messages, start + OFFSET_AT, offset, timestamp)
        if STAMP_STRUCT.unpack_from(messages, start + ID_AT) == (0, 0):
            messages[start + ID_AT : start + OFFSET_AT] = bytes(new_ids(1))
        U64_STRUCT.pack_into(messages, start, checksum(messages[start + ID_AT : end]))
        start = end


def stamp_checksums(batch: Batch) -> None:
    """Seal the messages again, after their bodies changed."""
    if isinstance(batch._ends, list):
        for start, end in batch.bounds():
            hashed = checksum(batch.messages[start + ID_AT : end])
            U64_STRUCT.pack_into(batch.messages, start, hashed)
    else:
        batch._write(CHECKSUM_AT, _checksums(batch))


def verify(batch: Batch) -> int | None:
    """The first message whose checksum is wrong."""
    if isinstance(batch._ends, list):
        for number, (start, end) in enumerate(batch.bounds()):
            (stored,) = U64_STRUCT.unpack_from(batch.messages, start)
            if checksum(batch.messages[start + ID_AT : end]) != stored:
                return number
        return None
    wrong = batch._read(CHECKSUM_AT, U64) != _checksums(batch)
    return int(wrong.argmax()) if wrong.any() else None


def _checksums(batch: Batch) -> NDArray[np.uint64]:
    if batch.equal_size:
        return checksums_of_equal(batch.messages, batch.equal_size).astype(U64)
    return checksums_between(batch.messages, batch.ends).astype(U64)


def index_entries(batch: Batch, *, relative_offset: int, position: int, timestamp: int) -> bytes:
    """One entry per message, for a batch that begins at this byte and offset of its segment."""
    ends = batch._ends
    count = len(ends)
    assert position + batch.size <= U32_MAX
    assert relative_offset + count <= U32_MAX
    if isinstance(ends, list):
        pack = INDEX_ENTRY.pack
        return b"".join(
            [pack(relative_offset + i, position + end, timestamp) for i, end in enumerate(ends)]
        )
    entries = np.empty(count, INDEX_DTYPE)
    entries["offset"] = np.arange(relative_offset, relative_offset + count, dtype=np.uint32)
    entries["position"] = ends + np.uint32(position)
    entries["timestamp"] = timestamp
    return entries.tobytes()


def keep(batch: Batch, mask: NDArray[np.bool_]) -> Batch:
    """The messages the mask says yes to, in a buffer of their own."""
    kept = bytearray()
    ends: list[int] = []
    for wanted, (start, end) in zip(mask.tolist(), batch.bounds(), strict=True):
        if wanted:
            kept += batch.messages[start:end]
            ends.append(len(kept))
    return _walked(memoryview(kept), ends)
