"""Polls of encrypted messages: decrypted a slice at a time.

An answer begins with its length and message count, and messages that cannot be decrypted are left
out. So a long poll is decrypted twice: once to determine both, and once more while it is sent, a
slice of memory at a time. A short one is decrypted once and kept.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from borzoi.model.errors import StorageFailure
from borzoi.model.limits import HEADER_BYTES
from borzoi.partitions.encrypting import LENGTHS, Decrypted, decrypted
from borzoi.partitions.turns import Work
from borzoi.records.header import LENGTHS_AT
from borzoi.security.encryption import Cipher
from borzoi.storage.reading import SLICE_BYTES, Chunk, Produced, Reading

logger = logging.getLogger(__name__)

#: Messages that are decrypted at once: about a millisecond, whatever their size.
SLICE_MESSAGES: Final = 512
#: Decrypted bytes of one poll that are kept from the first pass.
KEPT_BYTES_MAX: Final = 4 << 20


def is_decrypted_at_once(reading: Reading) -> bool:
    """Whether it takes no longer than one slice."""
    return reading.count <= SLICE_MESSAGES and reading.size <= SLICE_BYTES


def with_clear_bodies(reading: Reading, cipher: Cipher) -> Reading:
    """The same messages decrypted, which takes them out of their files."""
    if not reading.count:
        return reading
    clear = decrypted(memoryview(reading.materialise()), cipher)
    return _clear_reading(reading, clear.count, [clear.messages])


def clear_bodies_found_out(reading: Reading, cipher: Cipher) -> Work[Reading]:
    """The same for any number of messages, share by share."""
    kept: list[memoryview | Produced] | None = []
    count = length = 0
    for clear in _clear_slices(reading, cipher):
        count += clear.count
        length += len(clear.messages)
        if length > KEPT_BYTES_MAX:
            kept = None
        if kept is not None:
            kept.append(clear.messages)
        yield
    if kept is None:
        kept = [ClearSlices(reading, cipher, length)]
    return _clear_reading(reading, count, kept)


def _clear_reading(reading: Reading, count: int, clear: list[memoryview | Produced]) -> Reading:
    left_out = reading.count - count
    if left_out:
        logger.warning(
            "%d of %d messages from offset %d on were left out of a poll: the encryption key does"
            " not open them",
            left_out,
            reading.count,
            reading.first_offset,
        )
    return Reading(reading.first_offset, count, tail=clear, left_out=left_out)


class ClearSlices(Produced):
    """Stored messages that are decrypted while they are sent."""

    __slots__ = ("_cipher", "_stored")

    def __init__(self, stored: Reading, cipher: Cipher, length: int) -> None:
        super().__init__(length)
        self._stored = stored
        self._cipher = cipher

    def slices(self) -> Iterator[memoryview]:
        for clear in _clear_slices(self._stored, self._cipher):
            yield clear.messages


def _clear_slices(reading: Reading, cipher: Cipher) -> Iterator[Decrypted]:
    for messages in whole_messages(reading.chunks()):
        yield decrypted(messages, cipher)


def whole_messages(
    chunks: Iterable[Chunk], messages_max: int = SLICE_MESSAGES
) -> Iterator[memoryview]:
    """The bytes of the chunks, cut between messages: at most `messages_max` of them and, unless
    one is longer, no more bytes than came at once."""
    pending: list[Chunk] = []
    arrived, needed = 0, HEADER_BYTES
    for chunk in chunks:
        pending.append(chunk)
        arrived += len(chunk)
        if arrived < needed:
            continue
        data = memoryview(chunk if len(pending) == 1 else b"".join(pending))
        end = 0
        for start, end in _runs(data, messages_max):
            yield data[start:end]
        rest = data[end:]
        pending, arrived, needed = [rest] if rest else [], len(rest), _size_of_first(rest)
    if arrived:
        raise StorageFailure(f"{arrived} bytes behind the last whole message of a poll")


def _runs(data: memoryview, messages_max: int) -> Iterator[tuple[int, int]]:
    """Where runs of whole messages begin and end."""
    start = end = count = 0
    while len(data) - end >= HEADER_BYTES:
        stop = end + _size_of_first(data[end : end + HEADER_BYTES])
        if stop > len(data):
            break
        end = stop
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
