"""Polls of encrypted messages: decrypted a slice at a time.

An answer begins with its length and message count, and messages that cannot be decrypted are left
out. So a long poll is decrypted twice: once to determine both, and once more while it is sent, a
slice of memory at a time. A short one is decrypted once and kept.
"""

import logging
from collections.abc import Iterator
from typing import Final

from borzoi.model.errors import CannotDecrypt, StorageFailure
from borzoi.partitions.encrypting import LENGTHS, decrypted
from borzoi.partitions.message_runs import RUN_MESSAGES, LargeMessage, runs
from borzoi.partitions.turns import Work
from borzoi.records.header import LENGTHS_AT
from borzoi.security.encryption import NONCE_BYTES, OVERHEAD_BYTES, TAG_BYTES, Cipher
from borzoi.storage.reading import SLICE_BYTES, Produced, Reading

logger = logging.getLogger(__name__)

#: Decrypted bytes of one poll that are kept from the first pass.
KEPT_BYTES_MAX: Final = 4 << 20
#: A message from this size on is never held whole: its body is opened as it is read. What that
#: found to be unreadable is noted, because the second time its bytes leave before its tag is seen.
LARGE_BYTES_MIN: Final = 4 << 20


def is_decrypted_at_once(reading: Reading) -> bool:
    """Whether it takes no longer than one slice."""
    return reading.count <= RUN_MESSAGES and reading.size <= SLICE_BYTES


def with_clear_bodies(reading: Reading, cipher: Cipher) -> Reading:
    """The same messages decrypted, which takes them out of their files."""
    if not reading.count:
        return reading
    clear = decrypted(memoryview(reading.materialise()), cipher)
    return _clear_reading(reading, clear.count, [clear.messages])


def clear_bodies_found_out(reading: Reading, cipher: Cipher) -> Work[Reading]:
    """The same for any number of messages of any size, share by share."""
    kept: list[memoryview | Produced] | None = []
    unreadable: set[int] = set()
    number = count = length = 0
    for run in _runs_of(reading):
        if isinstance(run, memoryview):
            found = decrypted(run, cipher)
            number += found.count + found.unreadable
            count += found.count
            length += len(found.messages)
            if length > KEPT_BYTES_MAX:
                kept = None
            if kept is not None:
                kept.append(found.messages)
            yield
            continue
        size = yield from _size_when_opened(run, cipher)
        if size is None:
            unreadable.add(number)
        else:
            kept = None
            count += 1
            length += size
        number += 1
    if kept is None:
        kept = [ClearSlices(reading, cipher, length, frozenset(unreadable))]
    return _clear_reading(reading, count, kept)


def _size_when_opened(large: LargeMessage, cipher: Cipher) -> Work[int | None]:
    """Bytes of a message when it is decrypted; None when no key opens it."""
    size, is_open = 0, True
    try:
        for piece in opened(large, cipher):
            size += len(piece)
            yield
    except CannotDecrypt:
        is_open = False
    for _ in large.rest():
        yield
    return size if is_open else None


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

    __slots__ = ("_cipher", "stored", "unreadable")

    def __init__(
        self, stored: Reading, cipher: Cipher, length: int, unreadable: frozenset[int]
    ) -> None:
        super().__init__(length)
        self.stored = stored
        self._cipher = cipher
        self.unreadable = unreadable

    def slices(self) -> Iterator[memoryview]:
        number = 0
        for run in _runs_of(self.stored):
            if isinstance(run, memoryview):
                found = decrypted(run, self._cipher)
                number += found.count + found.unreadable
                yield found.messages
                continue
            if number not in self.unreadable:
                yield from self._opened(run)
            for _ in run.rest():
                pass
            number += 1

    def _opened(self, large: LargeMessage) -> Iterator[memoryview]:
        try:
            yield from opened(large, self._cipher)
        except CannotDecrypt as fault:
            raise StorageFailure(f"a message changed while it was polled: {fault}") from fault


def _runs_of(reading: Reading) -> Iterator[memoryview | LargeMessage]:
    return runs(reading.chunks(), RUN_MESSAGES, large_bytes_min=LARGE_BYTES_MIN)


def opened(large: LargeMessage, cipher: Cipher) -> Iterator[memoryview]:
    """The clear header and body of a message, about a slice at a time. `CannotDecrypt` may come
    behind all of them: what was given before is worth nothing then."""
    user_headers, payload, reserved = LENGTHS.unpack_from(large.header, LENGTHS_AT)
    clear = [max(length - OVERHEAD_BYTES, 0) for length in (user_headers, payload)]
    yield memoryview(large.header[:LENGTHS_AT] + LENGTHS.pack(*clear, reserved))
    for length in (payload, user_headers) if user_headers else (payload,):
        if length < OVERHEAD_BYTES:
            raise CannotDecrypt(f"a ciphertext has at least {OVERHEAD_BYTES} bytes")
        opening = cipher.opening(b"".join(large.take(NONCE_BYTES)))
        for piece in large.take(length - OVERHEAD_BYTES):
            yield memoryview(opening.update(piece))
        opening.finish(b"".join(large.take(TAG_BYTES)))
