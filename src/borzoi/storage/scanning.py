"""Reads a segment message by message, to find where its valid part ends."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from borzoi.model.limits import HEADER_BYTES, PAYLOAD_BYTES_MAX, USER_HEADERS_BYTES_MAX
from borzoi.records.batch import Batch, walk_prefix
from borzoi.records.header import unpack_header

#: Reads bytes of the uncompressed segment: length, position. Fewer only at its end.
ReadBytes: TypeAlias = Callable[[int, int], bytes | memoryview]

#: How much is read at once; a message that does not fit is read alone.
CHUNK_BYTES: Final = 4 << 20
#: No message is longer, whatever a damaged header says; the kilobyte is for encryption.
MESSAGE_BYTES_MAX: Final = HEADER_BYTES + PAYLOAD_BYTES_MAX + USER_HEADERS_BYTES_MAX + 1024


def sound_batches(read: ReadBytes, position: int, end: int, first_offset: int) -> Iterator[Batch]:
    """Yield the messages from `position` on, in runs, until `end` or the first invalid one.

    Valid means: complete, correct checksum, reserved field empty, and the next offset.
    """
    offset = first_offset
    wanted = CHUNK_BYTES
    while position < end:
        chunk = memoryview(read(min(wanted, end - position), position))
        batch = walk_prefix(chunk)
        if not len(batch):
            needed = _size_of_first(chunk)
            if needed <= len(chunk) or needed > min(end - position, MESSAGE_BYTES_MAX):
                return
            wanted = needed
            continue
        if int(batch.offsets()[0]) != offset:
            return
        yield batch
        position += batch.size
        offset += len(batch)
        wanted = CHUNK_BYTES


def _size_of_first(chunk: memoryview) -> int:
    """How many bytes the first message says it has; 0 when not even its header is there."""
    if len(chunk) < HEADER_BYTES:
        return 0
    header = unpack_header(chunk)
    return HEADER_BYTES + header.payload_length + header.user_headers_length
