"""Answers of one connection, received into the memory they are read from; sans-IO.

The shell receives into `space()` and reports how many bytes arrived; it gets back the answers that
are complete. Small answers share one buffer and are handed out as copies. A large one gets memory
of its size as soon as its prefix is known, and only bytes that arrived with the prefix are moved.
The memory belongs to the caller as long as there is a view of it; after that a later answer may
reuse it.
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

    __slots__ = ("_address", "_end", "_filled", "_large", "_lent", "_small", "_start", "_status")

    def __init__(self, address: Address) -> None:
        self._address = address
        self._small = memoryview(bytearray(SMALL_BYTES))
        self._start = 0
        self._end = 0
        #: The large answer that is arriving, and how many bytes of it have arrived.
        self._large: memoryview | None = None
        self._filled = 0
        self._status = 0
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
        if self._large is not None:
            return self._large[self._filled :]
        return self._small[self._end :]

    @property
    def missing(self) -> int:
        """How many bytes of a large answer are missing."""
        return 0 if self._large is None else len(self._large) - self._filled

    def received(self, count: int) -> list[ResponseFrame]:
        """Return the answers that are complete after `count` more bytes in `space()`."""
        if self._large is not None:
            self._filled += count
            if self._filled < len(self._large):
                return []
            answer = ResponseFrame(self._status, self._large)
            self._large = None
            return [answer]
        self._end += count
        answers = []
        while self._end - self._start >= PREFIX_BYTES:
            status, length = _unpack_prefix(self._small, self._start)
            self._check(status, length)
            start = self._start + PREFIX_BYTES
            stop = start + length
            if stop > self._end:
                if PREFIX_BYTES + length > SMALL_BYTES // 2:
                    self._begin_large(status, length, start)
                break
            self._start = stop
            answers.append(ResponseFrame(status, bytes(self._small[start:stop])))
        self._make_room()
        return answers

    def _begin_large(self, status: int, length: int, start: int) -> None:
        keep_freed_memory()
        self._large = memoryview(self._memory(length))[:length]
        self._status = status
        self._filled = self._end - start
        self._large[: self._filled] = self._small[start : self._end]
        self._start = self._end

    def _memory(self, length: int) -> bytearray:
        for lent in self._lent:
            if len(lent) >= length and is_unseen(lent):
                return lent
        memory = bytearray(length)
        if length <= KEPT_BYTES_MAX:
            self._lent.append(memory)
        return memory

    def _make_room(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start:
            rest = bytes(self._small[self._start : self._end])
            self._small[: len(rest)] = rest
            self._start, self._end = 0, len(rest)

    def _check(self, status: int, length: int) -> None:
        # The first bytes of an HTTP answer or of a TLS alert are impossible values here.
        if status > STATUS_MAX or (status and length) or length > BATCH_BYTES_MAX:
            raise InvalidVersion(
                f"the peer at {self._address} does not speak the Iggy 0.8 protocol:"
                f" status {status}, {length} bytes; is it another server, another version, or TLS?"
            )
