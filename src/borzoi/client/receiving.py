"""Answers of one connection, received into the memory they are read from; sans-IO.

The shell receives into `space()` and reports how many bytes arrived; it gets back the answers that
are complete. Small answers share one buffer and are handed out as copies. A large one gets memory
of its size as soon as its prefix is known, and only bytes that arrived with the prefix are moved.
The answer after a large one is received into such memory from its first byte on: who polls a
megabyte polls the next one, too. The memory belongs to the caller as long as there is a view of it;
after that a later answer may reuse it.
"""

from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Final

from borzoi.client.options import Address
from borzoi.model.errors import InvalidVersion
from borzoi.model.limits import BATCH_BYTES_MAX
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.framing import PREFIX_BYTES, RESPONSE_PREFIX, ResponseFrame

#: One receive takes at most this much before the size of an answer is known.
SMALL_BYTES: Final = 64 * 1024

#: Frames above this size are large.
LARGE_BYTES: Final = SMALL_BYTES // 2

#: What the memory of a large answer has beyond its frame.
SPARE_BYTES: Final = 4096

#: No server has statuses above this; a peer that sends one speaks another protocol.
STATUS_MAX: Final = 100_000

#: A program often holds one answer while the next one arrives.
LENT_MAX: Final = 2

#: The largest buffer that is kept for the next large answer.
KEPT_BYTES_MAX: Final = 16 * 1024 * 1024

_unpack_prefix = RESPONSE_PREFIX.unpack_from

#: The size of the block that teaches glibc to keep memory, see `keep_freed_memory`.
LEARNT_BYTES: Final = 8 * 1024 * 1024


@cache
def keep_freed_memory() -> None:
    """Make the C library keep the memory of freed messages; once per process.

    The payloads of a batch are freed together, and glibc gives freed memory back to the system: the
    next batch pays for every page again, which takes twice as long as reading it. A block that is
    freed teaches glibc to keep up to twice its size; this one is never touched and costs nothing.
    """
    bytearray(LEARNT_BYTES)


def is_unseen(memory: bytearray) -> bool:
    """Whether no view of the memory is left: as long as there is one, its size is fixed."""
    try:
        memory.append(memory.pop())
    except BufferError:
        return False
    return True


class AnswerReceiver:
    """Bytes in, answers out: the wire of TCP, where frames follow each other and nothing else."""

    __slots__ = (
        "_address",
        "_buffer",
        "_end",
        "_expected",
        "_is_lent",
        "_lent",
        "_small",
        "_start",
        "_wanted",
    )

    def __init__(self, address: Address) -> None:
        self._address = address
        self._small = memoryview(bytearray(SMALL_BYTES))
        #: Bytes that were received and not handed out lie in `_buffer[_start:_end]`.
        self._buffer = self._small
        self._start = 0
        self._end = 0
        #: Whether a view of the buffer was handed out.
        self._is_lent = False
        #: Where in the buffer the large frame ends that is arriving; 0 if there is none.
        self._wanted = 0
        #: The size of the last frame if it was large, and 0 if it was not.
        self._expected = 0
        #: Memory of the last large answers, which may still be in use.
        self._lent: deque[bytearray] = deque(maxlen=LENT_MAX)

    #: See `Wire`: TCP sends nothing before the first request and nothing unasked.
    opening: Final = b""
    is_open: Final = True
    unasked: Final = False

    def take_unasked(self) -> bytes:
        return b""

    def outgoing(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        return parts

    def space(self) -> memoryview:
        """The memory to receive the next bytes into; never empty."""
        if self._wanted:
            return self._buffer[self._end : self._wanted]
        if self._expected and not self._end and self._buffer is self._small:
            self._buffer = self._memory(self._expected)
        return self._buffer[self._end :]

    @property
    def missing(self) -> int:
        """How many bytes of a large answer are missing."""
        return self._wanted - self._end if self._wanted else 0

    def received(self, count: int) -> list[ResponseFrame]:
        """Return the answers that are complete after `count` more bytes in `space()`."""
        self._end += count
        if self._end < self._wanted:
            return []
        self._wanted = 0
        answers: list[ResponseFrame] = []
        while self._end - self._start >= PREFIX_BYTES:
            status, length = _unpack_prefix(self._buffer, self._start)
            self._check(status, length)
            size = PREFIX_BYTES + length
            if size > self._end - self._start:
                if size > LARGE_BYTES:
                    self._await_large(size)
                    return answers
                break
            answers.append(ResponseFrame(status, self._take(size)))
        if self._start or self._buffer is not self._small:
            self._move_to(self._small)
        return answers

    def _take(self, size: int) -> bytes | memoryview:
        start = self._start + PREFIX_BYTES
        self._start += size
        is_large = size > LARGE_BYTES
        self._expected = size if is_large and size <= KEPT_BYTES_MAX else 0
        payload = self._buffer[start : self._start]
        if is_large and self._buffer is not self._small:
            self._is_lent = True
            return payload
        return bytes(payload)

    def _await_large(self, size: int) -> None:
        is_small = self._buffer is self._small
        if is_small or self._is_lent or self._start + size > len(self._buffer):
            self._move_to(self._memory(size))
        self._wanted = self._start + size

    def _move_to(self, buffer: memoryview) -> None:
        """Go on in another buffer, with the bytes that were not handed out."""
        rest = self._end - self._start
        if rest:
            buffer[:rest] = bytes(self._buffer[self._start : self._end])
        self._buffer, self._start, self._end, self._is_lent = buffer, 0, rest, False

    def _memory(self, size: int) -> memoryview:
        """Memory for a frame of this size, and some more: a receive that fills all of its memory
        is repeated by event loops, to see whether there is more."""
        keep_freed_memory()
        wanted = size + SPARE_BYTES
        for lent in self._lent:
            if len(lent) >= wanted and is_unseen(lent):
                return memoryview(lent)
        memory = bytearray(wanted)
        if size <= KEPT_BYTES_MAX:
            self._lent.append(memory)
        return memoryview(memory)

    def _check(self, status: int, length: int) -> None:
        # The first bytes of an HTTP answer or of a TLS alert are impossible values here.
        if status > STATUS_MAX or (status and length) or length > BATCH_BYTES_MAX:
            raise InvalidVersion(
                f"the peer at {self._address} does not speak the Iggy 0.8 protocol:"
                f" status {status}, {length} bytes; is it another server, another version, or TLS?"
            )
