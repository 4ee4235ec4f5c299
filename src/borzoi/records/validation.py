"""What a client may send: the checks of a SendMessages request, and the exception for each fault.

Faults count in the order of the messages, for each message in the order in which the published
server looks for them::

    index entry without offset       NonZeroIndexOffset
    index entry without timestamp    NonZeroIndexTimestamp
    whole message there              MissingIndex
    payload not too big              PayloadTooBig
    user headers not too big         UserHeadersTooBig
    offsets do not descend           InvalidOffset
    last position does not descend   InvalidIndexPosition

and then, for the batch, InvalidMessagesSize and InvalidReservedField. That server lets `reserved`
through, and then no consumer can read the partition.

It takes the start of a message from the index entry before it, and lets the last message end where
the request ends, whatever its own entry says. So must we: there are clients that get it wrong.

Soundness is settled for all messages at once, and by comparing bytes where that will do: on cold
caches one reduction over a column costs three comparisons. Only a faulty batch is looked at closer.
"""

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from borzoi.model.errors import (
    InvalidIndexPosition,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidOffset,
    InvalidReservedField,
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
    USER_HEADERS_BYTES_MAX,
)
from borzoi.records.columns import equal_column, gathered_column
from borzoi.records.header import LENGTHS_AT, OFFSET_AT
from borzoi.records.layouts import INDEX_DTYPE as INDEX_DTYPE
from borzoi.records.layouts import Layout, Layouts

#: An entry, of a request and of an index file: offset, position of the END of the message, time.
INDEX_ENTRY: Final = struct.Struct("<IIQ")
assert INDEX_ENTRY.size == INDEX_DTYPE.itemsize == INDEX_ENTRY_BYTES

#: The second half of a header: all of it that is checked.
CHECKED: Final = struct.Struct("<Q16xIIQ")
CHECKED_DTYPE: Final = np.dtype(
    [
        ("offset", "<u8"),
        ("timestamps", "V16"),
        ("user_headers", "<u4"),
        ("payload", "<u4"),
        ("reserved", "<u8"),
    ]
)
#: Gathered as plain bytes and viewed as fields afterwards: field by field takes five times longer.
CHECKED_BYTES: Final = np.dtype("V40")
assert CHECKED.size == CHECKED_DTYPE.itemsize == CHECKED_BYTES.itemsize == HEADER_BYTES - OFFSET_AT
#: Its last 16 bytes: the lengths and `reserved`.
LENGTHS: Final = struct.Struct("<IIQ")
LENGTHS_DTYPE: Final = np.dtype("V16")
OFFSET_DTYPE: Final = np.dtype("<u8")


def check_count(indexes: memoryview, count: int) -> None:
    if count == 0:
        raise InvalidMessagesCount("a batch needs at least one message")
    if len(indexes) != count * INDEX_ENTRY_BYTES:
        raise InvalidMessagesCount(f"{len(indexes)} bytes of index are not {count} entries")


def is_one_plain(messages: memoryview, indexes: memoryview) -> bool:
    """Whether the batch is one sound message without an offset, as nearly every single one is.

    A batch that this rejects may still be valid.
    """
    if len(indexes) != INDEX_ENTRY_BYTES or len(messages) < HEADER_BYTES:
        return False
    index_offset, _, index_timestamp = INDEX_ENTRY.unpack_from(indexes)
    offset, user_headers, payload, reserved = CHECKED.unpack_from(messages, OFFSET_AT)
    return (
        HEADER_BYTES + user_headers + payload == len(messages)
        and not (index_offset or index_timestamp or offset or reserved)
        and payload <= PAYLOAD_BYTES_MAX
        and user_headers <= USER_HEADERS_BYTES_MAX
    )


def check_each(messages: memoryview, indexes: memoryview, count: int) -> list[int]:
    """Return the ends of the messages, checked one by one: for small batches."""
    ends = []
    total = offset = any_reserved = 0
    for number in range(count):
        size, offset, reserved = check_message(messages, indexes, count, number, offset)
        any_reserved |= reserved
        total += size
        ends.append(total)
    check_whole(adds_up=total == len(messages), is_reserved_zero=not any_reserved)
    return ends


def check_all(
    messages: memoryview, indexes: memoryview, count: int, layouts: Layouts
) -> tuple[NDArray[np.uint32], Layout | None]:
    """The same for any number of messages, all at once; and their layout, if they have one size."""
    size, rest = divmod(len(messages), count)
    if rest == 0 and size >= HEADER_BYTES:
        layout = layouts.of(size, count)
        if layout.indexes == indexes:
            if not _are_alike(messages, size, count):
                _check_mixed(messages, indexes, count)
            return layout.ends, layout
    return _check_mixed(messages, indexes, count), None


def check_message(
    messages: memoryview, indexes: memoryview, count: int, number: int, previous_offset: int
) -> tuple[int, int, int]:
    """Size, offset and reserved field of one message; raises its first fault."""
    index_offset, position, index_timestamp = INDEX_ENTRY.unpack_from(indexes, number * 16)
    if index_offset:
        raise NonZeroIndexOffset(f"index entry {number} has an offset")
    if index_timestamp:
        raise NonZeroIndexTimestamp(f"index entry {number} has a timestamp")
    start = INDEX_ENTRY.unpack_from(indexes, number * 16 - 16)[1] if number else 0
    is_last = number == count - 1
    length = len(messages)
    end = length if is_last else position
    if end > length or end - start < HEADER_BYTES:
        raise MissingIndex(f"message {number} has no room for a header")
    offset, user_headers, payload, reserved = CHECKED.unpack_from(messages, start + OFFSET_AT)
    size = HEADER_BYTES + payload + user_headers
    if size > end - start:
        raise MissingIndex(f"message {number} is shorter than its header says")
    if payload > PAYLOAD_BYTES_MAX:
        raise PayloadTooBig(f"message {number} has a payload of {payload} bytes")
    if user_headers > USER_HEADERS_BYTES_MAX:
        raise UserHeadersTooBig(f"message {number} has {user_headers} bytes of user headers")
    if offset < previous_offset:
        raise InvalidOffset(f"message {number} has a lower offset than the one before")
    if is_last and position < start:
        raise InvalidIndexPosition(f"index entry {number} is before the previous one")
    return size, offset, reserved


def check_whole(*, adds_up: bool, is_reserved_zero: bool) -> None:
    if not adds_up:
        raise InvalidMessagesSize("the sizes of the messages do not add up to what was sent")
    if not is_reserved_zero:
        raise InvalidReservedField("the reserved field of a message is not zero")


def _are_alike(messages: memoryview, size: int, count: int) -> bool:
    """Whether all messages are sound, with the same lengths and no offset, as one producer's are.

    A batch that this rejects may still be valid.
    """
    user_headers, payload, _ = LENGTHS.unpack_from(messages, LENGTHS_AT)
    return (
        payload <= PAYLOAD_BYTES_MAX
        and user_headers <= USER_HEADERS_BYTES_MAX
        and have_equal_lengths(messages, size)
        and equal_column(messages, size, OFFSET_AT, OFFSET_DTYPE).tobytes() == bytes(8 * count)
    )


def have_equal_lengths(messages: memoryview, size: int) -> bool:
    """Whether messages of this size fill the buffer, each with the same payload length."""
    count, rest = divmod(len(messages), size)
    first = messages[LENGTHS_AT:HEADER_BYTES].tobytes()
    user_headers, payload, reserved = LENGTHS.unpack(first)
    return (
        rest == 0
        and HEADER_BYTES + user_headers + payload == size
        and reserved == 0
        and equal_column(messages, size, LENGTHS_AT, LENGTHS_DTYPE).tobytes() == first * count
    )


def _check_mixed(messages: memoryview, indexes: memoryview, count: int) -> NDArray[np.uint32]:
    """The ends of messages of any sizes."""
    ends = np.frombuffer(indexes, "<u4")[1::4].astype(np.int64)
    ends[-1] = len(messages)
    starts = np.empty(count, np.int64)
    starts[0] = 0
    starts[1:] = ends[:-1]
    if not _are_plainly_sound(messages, indexes, starts, ends):
        _name_fault(messages, indexes, starts, ends)
    return ends.astype(np.uint32)


def _are_plainly_sound(
    messages: memoryview, indexes: memoryview, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> bool:
    """Whether all messages are sound, none is big and none has an offset.

    A batch that this rejects may still be valid.
    """
    count = len(starts)
    if len(messages) < HEADER_BYTES * count:
        return False
    try:
        headers = gathered_column(messages, starts, OFFSET_AT, CHECKED_BYTES)
    except IndexError:
        return False
    room = ends - starts
    entries = np.frombuffer(indexes, INDEX_DTYPE)
    fields = headers.view(CHECKED_DTYPE)
    offset_and_reserved = headers.view("<u8").reshape(count, 5)[:, ::4]
    return bool(
        room.max() <= USER_HEADERS_BYTES_MAX
        and (room - fields["user_headers"] == fields["payload"] + np.int64(HEADER_BYTES)).all()
        and offset_and_reserved.tobytes() == bytes(16 * count)
        and entries["offset"].tobytes() == bytes(4 * count)
        and entries["timestamp"].tobytes() == bytes(8 * count)
        and entries["position"][-1] >= starts[-1]
    )


def _name_fault(
    messages: memoryview, indexes: memoryview, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> None:
    """Raise the first fault, if there is one."""
    count = len(starts)
    entries = np.frombuffer(indexes, INDEX_DTYPE)
    room = ends - starts
    has_no_room = (room < HEADER_BYTES) | (ends > len(messages))
    readable = int(has_no_room.argmax()) if has_no_room.any() else count
    if readable == 0:
        check_message(messages, indexes, count, 0, 0)
    gathered = gathered_column(messages, starts[:readable], OFFSET_AT, CHECKED_BYTES)
    headers = gathered.view(CHECKED_DTYPE)
    user_headers, payload = headers["user_headers"], headers["payload"]
    sizes = HEADER_BYTES + user_headers.astype(np.int64) + payload
    is_faulty = np.ones(count + 1, bool)  # the first without space, or else the sentinel
    is_faulty[:readable] = (
        (entries["offset"][:readable] != 0)
        | (entries["timestamp"][:readable] != 0)
        | (sizes > room[:readable])
        | (payload > PAYLOAD_BYTES_MAX)
        | (user_headers > USER_HEADERS_BYTES_MAX)
    )
    offsets = headers["offset"]
    is_faulty[1:readable] |= offsets[1:] < offsets[:-1]
    is_faulty[count - 1] |= entries["position"][-1] < starts[-1]
    number = int(is_faulty.argmax())
    if number < count:
        check_message(messages, indexes, count, number, int(offsets[number - 1]) if number else 0)
    check_whole(adds_up=bool((sizes == room).all()), is_reserved_zero=not headers["reserved"].any())
