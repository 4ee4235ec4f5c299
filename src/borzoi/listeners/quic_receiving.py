"""Receives the requests of one QUIC connection: a frame per stream, within the limits on memory.

A stream cannot be paused, so a frame that there is no memory for is rejected.
"""

from asyncio import Future
from typing import Final

from borzoi.handlers.answers import Answer
from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import BinaryProtocol, failed
from borzoi.listeners.unfinished import COUNTED_BYTES_MIN
from borzoi.model.errors import LimitReached
from borzoi.model.limits import (
    BATCH_BYTES_MAX,
    CONTROL_PAYLOAD_BYTES_MAX,
    UNAUTHENTICATED_BYTES_MAX,
)
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import SEND_METADATA_BYTES_MAX
from borzoi.protocol.errors import INVALID_COMMAND, UNAUTHENTICATED, code_of
from borzoi.protocol.framing import CODE_BYTES, REQUEST_PREFIX

SEND_MESSAGES: Final = int(Code.SEND_MESSAGES)
#: Limit of bytes in incomplete streams per connection.
UNFINISHED_BYTES_MAX: Final = BATCH_BYTES_MAX
#: The status of a large frame for which there is no memory.
NO_ROOM: Final = code_of(LimitReached(""))


class RequestStream:
    """A request that is being received or runs."""

    __slots__ = ("answer", "data", "done", "reserved")

    def __init__(self) -> None:
        self.data = bytearray()
        #: The frame is complete or rejected: nothing more is read.
        self.done = False
        #: The size of a large frame that was admitted, until it is done.
        self.reserved = 0
        self.answer: Future[Answer] | None = None


class Receiving:
    """The streams whose requests arrive or run."""

    def __init__(self, binary: BinaryProtocol) -> None:
        self._binary = binary
        self.streams: dict[int, RequestStream] = {}
        #: Streams whose frame is complete or rejected and which the client has not ended. What
        #: still arrives on them is not a new request.
        self._unread: set[int] = set()
        self._unfinished_bytes = 0

    @property
    def is_incomplete(self) -> bool:
        """Whether more of a request has to arrive."""
        return any(not stream.done for stream in self.streams.values())

    @property
    def is_running(self) -> bool:
        return any(stream.answer for stream in self.streams.values())

    def stream(self, number: int, *, ended: bool, may_begin: bool) -> RequestStream | None:
        """Return the stream whose data arrived, None when nothing more is read from it."""
        if number in self._unread:
            if ended:
                self._unread.discard(number)
            return None
        stream = self.streams.get(number)
        if stream is None and may_begin:
            stream = self.streams[number] = RequestStream()
        return stream

    def add(self, stream: RequestStream, data: bytes) -> bool:
        """Whether the connection stays below the limit on incomplete requests."""
        stream.data += data
        self._unfinished_bytes += len(data)
        return self._unfinished_bytes <= UNFINISHED_BYTES_MAX

    def frame(
        self, session: Session, stream: RequestStream
    ) -> tuple[int, memoryview] | bytes | None:
        """Return code and payload once complete, or at once the rejection of a frame that is too
        large."""
        data = stream.data
        if len(data) < REQUEST_PREFIX.size:
            return None
        length, code = REQUEST_PREFIX.unpack_from(data)
        size = length - CODE_BYTES
        size_max = BATCH_BYTES_MAX if code == SEND_MESSAGES else CONTROL_PAYLOAD_BYTES_MAX
        if not 0 <= size <= size_max:
            return failed(INVALID_COMMAND)
        if session.user_id is None and size > UNAUTHENTICATED_BYTES_MAX:
            public = self._binary.dispatcher.is_public(code)
            return failed(INVALID_COMMAND if public else UNAUTHENTICATED)
        if size >= COUNTED_BYTES_MIN and not stream.reserved:
            refusal = self._refusal_of_large(session, stream, code, size)
            if refusal is not None:
                return refusal
        if len(data) < REQUEST_PREFIX.size + size:
            return None
        return code, memoryview(data)[REQUEST_PREFIX.size : REQUEST_PREFIX.size + size]

    def _refusal_of_large(
        self, session: Session, stream: RequestStream, code: int, size: int
    ) -> bytes | None:
        """Return why a large frame is rejected, once that is known."""
        if code == SEND_MESSAGES:
            first = memoryview(stream.data)[REQUEST_PREFIX.size :]
            if len(first) < SEND_METADATA_BYTES_MAX:
                return None
            refusal = self._binary.refusal_of_send(session, first, size)
            if refusal is not None:
                return refusal
        if not self._binary.unfinished.enter(size):
            return failed(NO_ROOM)
        stream.reserved = size
        return None

    def finish(self, number: int, stream: RequestStream, *, ended: bool) -> None:
        """Read no more from the stream: its frame is complete or rejected."""
        self._unfinished_bytes -= len(stream.data)
        stream.done = True
        if not ended:
            self._unread.add(number)

    def release(self, stream: RequestStream) -> None:
        """Release the admission of a large frame."""
        if stream.reserved:
            self._binary.unfinished.leave(stream.reserved)
            stream.reserved = 0

    def forget(self, number: int) -> None:
        """Drop a request that its client takes back or leaves incomplete."""
        self._unread.discard(number)
        stream = self.streams.pop(number, None)
        if stream is None:
            return
        if not stream.done:
            self._unfinished_bytes -= len(stream.data)
        if stream.answer is None:
            self.release(stream)
        else:
            self._binary.dispatcher.abandon(stream.answer)
