"""Finds the valid and the lost messages of a segment by reading every byte.

Recovery stops at the first invalid message. Here the search continues after it, because a repair
keeps as much as possible. After a damaged message the next one is found by the index, by the
damaged message's own length if a valid one follows there, or by searching for the next offsets byte
by byte.
"""

from collections.abc import Iterator
from typing import Final

from borzoi.model.limits import HEADER_BYTES, INDEX_ENTRY_BYTES
from borzoi.model.value import Value
from borzoi.records.batch import Batch, walk_prefix
from borzoi.records.checksum import checksum
from borzoi.records.header import ID_AT, OFFSET_AT, unpack_header
from borzoi.storage.index import entries_of
from borzoi.storage.scanning import CHUNK_BYTES, MESSAGE_BYTES_MAX, ReadBytes

#: How many offsets after a damaged message are searched for as a last resort.
OFFSETS_SOUGHT: Final = 16
#: And how far: more than the largest message takes.
SOUGHT_BYTES: Final = 2 * MESSAGE_BYTES_MAX

_ZEROS: Final = bytes(1 << 20)


class Sound(Value):
    """Consecutive messages with nothing wrong."""

    first_offset: int
    position: int
    batch: Batch

    def entries(self, start_offset: int) -> bytes:
        """What the index of the segment has to say about them."""
        return entries_of(
            self.batch, relative_offset=self.first_offset - start_offset, position=self.position
        )


class Lost(Value):
    """Bytes that are no message; `count` messages should be there, None means unknown."""

    first_offset: int
    position: int
    length: int
    count: int | None
    reason: str
    #: Only zeros up to the end, as in a preallocated file.
    is_blank: bool = False


def look_through(
    read: ReadBytes, size: int, start_offset: int, index: bytes = b""
) -> Iterator[Sound | Lost]:
    """Every byte of a segment, in order, as runs of sound messages and what is between them."""
    position = 0
    offset = start_offset
    wanted = CHUNK_BYTES
    while position < size:
        chunk = memoryview(read(min(wanted, size - position), position))
        batch = walk_prefix(chunk)
        if len(batch) and int(batch.offsets()[0]) == offset:
            yield Sound(offset, position, batch)
            position += batch.size
            offset += len(batch)
            wanted = CHUNK_BYTES
            continue
        needed = _declared_size(chunk)
        if len(chunk) < needed <= min(size - position, MESSAGE_BYTES_MAX):
            wanted = needed
            continue
        lost = _lost_at(read, size, position, offset, start_offset, index)
        yield lost
        if lost.count is None:
            return
        position += lost.length
        offset += lost.count
        wanted = CHUNK_BYTES


def _lost_at(
    read: ReadBytes, size: int, position: int, offset: int, start_offset: int, index: bytes
) -> Lost:
    reason = _reason(read, size, position, offset)
    end = _end_by_index(index, offset - start_offset, position, size)
    if end is None and _is_blank(read, size, position):
        return Lost(
            offset, position, size - position, None, "nothing but zeros follows", is_blank=True
        )
    if end is None:
        end = _end_by_header(read, size, position, offset)
    if end is not None:
        return Lost(offset, position, end - position, 1, reason)
    rest = memoryview(read(min(size - position, SOUGHT_BYTES), position))
    found = _next_sound(rest, offset)
    if found is None:
        return Lost(offset, position, size - position, None, reason)
    at, next_offset = found
    return Lost(offset, position, at, next_offset - offset, reason)


def _is_blank(read: ReadBytes, size: int, position: int) -> bool:
    while position < size:
        chunk = read(min(len(_ZEROS), size - position), position)
        if chunk != _ZEROS[: len(chunk)]:
            return False
        position += len(chunk)
    return True


def _end_by_header(read: ReadBytes, size: int, position: int, offset: int) -> int | None:
    """Where the damaged message's own lengths say it ends, if a sound one follows there."""
    if size - position < HEADER_BYTES:
        return None
    declared = position + _declared_size(memoryview(read(HEADER_BYTES, position)))
    if declared == size or _is_sound_at(read, size, declared, offset + 1):
        return declared
    return None


def _end_by_index(index: bytes, number: int, position: int, size: int) -> int | None:
    """Return where the message ends by the index, if the index is plausible there."""

    def position_of(entry: int) -> int | None:
        if entry < 0:
            return 0
        at = entry * INDEX_ENTRY_BYTES
        if at + INDEX_ENTRY_BYTES > len(index) or _u32(index, at) != entry:
            return None
        return _u32(index, at + 4)

    end = position_of(number)
    if end is None or position_of(number - 1) != position:
        return None
    return end if position + HEADER_BYTES <= end <= size else None


def _is_sound_at(read: ReadBytes, size: int, position: int, offset: int) -> bool:
    if position + HEADER_BYTES > size:
        return False
    head = memoryview(read(HEADER_BYTES, position))
    length = _declared_size(head)
    if position + length > size or length > MESSAGE_BYTES_MAX:
        return False
    return _is_sound(memoryview(read(length, position)), offset)


def _is_sound(message: memoryview, offset: int) -> bool:
    header = unpack_header(message)
    return (
        header.offset == offset
        and header.reserved == 0
        and header.checksum == checksum(message[ID_AT:])
    )


def _next_sound(rest: memoryview, offset: int) -> tuple[int, int] | None:
    """Return the start and the offset of the first valid message after the damage."""
    searched = bytes(rest)
    for next_offset in range(offset + 1, offset + 1 + OFFSETS_SOUGHT):
        pattern = next_offset.to_bytes(8, "little")
        at = searched.find(pattern, HEADER_BYTES)
        while at >= 0:
            start = at - OFFSET_AT
            length = _declared_size(rest[start : start + HEADER_BYTES])
            message = rest[start : start + length]
            if 0 < length == len(message) and _is_sound(message, next_offset):
                return start, next_offset
            at = searched.find(pattern, at + 1)
    return None


def _reason(read: ReadBytes, size: int, position: int, offset: int) -> str:
    """What is wrong with the message that should begin here."""
    left = size - position
    if left < HEADER_BYTES:
        return f"{left} bytes are too few for a message"
    header = unpack_header(memoryview(read(HEADER_BYTES, position)))
    length = HEADER_BYTES + header.payload_length + header.user_headers_length
    if length > min(left, MESSAGE_BYTES_MAX):
        return f"its lengths ask for {length} bytes and {left} are left"
    if header.reserved:
        return "its reserved field is not zero"
    if header.checksum != checksum(memoryview(read(length, position))[ID_AT:]):
        return "its checksum does not fit"
    return f"it says it is message {header.offset}, message {offset} is expected"


def _declared_size(chunk: memoryview) -> int:
    """How many bytes the first message says it has; 0 when not even its header is there."""
    if len(chunk) < HEADER_BYTES:
        return 0
    header = unpack_header(chunk)
    return HEADER_BYTES + header.payload_length + header.user_headers_length


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
