"""One client's requests, in order: bytes → frames → dispatch → replies, for every byte stream.

The conversation owns no socket. The listener feeds it what arrived and sends what it hands out.
Small frames are taken from the listener's receive buffer. A larger one stays in it where it fits,
and the listener takes another; a very large one gets a buffer of its own. Its rest is received
straight to where it lies (`wanted`), so a batch is copied at most once on its way in.
"""

from asyncio import Future
from typing import Protocol

from borzoi.handlers.answers import Answer
from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import BinaryProtocol, Reply, failed
from borzoi.memory.pool import NOWHERE, MemoryPool, PooledBuffer
from borzoi.model.limits import (
    BATCH_BYTES_MAX,
    CONTROL_PAYLOAD_BYTES_MAX,
    UNAUTHENTICATED_BYTES_MAX,
)
from borzoi.protocol.codes import Code
from borzoi.protocol.framing import REQUEST_PREFIX

PREFIX_BYTES = REQUEST_PREFIX.size
CODE_BYTES = 4
INVALID_COMMAND = 3
UNAUTHENTICATED = 40
SEND_MESSAGES = int(Code.SEND_MESSAGES)

#: A frame of fewer bytes is copied out of the receive buffer: that costs less than to part with the
#: buffer. More than a stranger may send, so nobody holds one who has not logged in.
STAYING_BYTES_MIN = UNAUTHENTICATED_BYTES_MAX + 1

#: What a client may send ahead while its earlier request runs, before we stop reading from it.
PIPELINED_BYTES_MAX = 256 * 1024


class Output(Protocol):
    """What a conversation asks of the connection it runs over."""

    def send(self, reply: Reply) -> None:
        """Send, or keep and send later; `Conversation.blocked` says which happened."""

    def finish(self) -> None:
        """Close once everything handed to `send` has left."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Conversation:
    """The state of one client's byte stream; the listener's reader and writer drive it.

    At any time it is in one of these states: between frames (perhaps with the first bytes of a
    prefix in `_head`), inside a frame that is received into `_frame`, inside a frame that is thrown
    away (`_discard`), or waiting for the running request (`_running`) while `_unread` keeps what
    the client sent ahead.
    """

    __slots__ = (
        "_binary",
        "_code",
        "_discard",
        "_discard_status",
        "_filled",
        "_frame",
        "_frame_at",
        "_frame_buffer",
        "_head",
        "_input_ended",
        "_output",
        "_pool",
        "_running",
        "_unread",
        "blocked",
        "ended",
        "session",
    )

    def __init__(
        self, session: Session, binary: BinaryProtocol, output: Output, pool: MemoryPool
    ) -> None:
        self.session = session
        self._binary = binary
        self._output = output
        self._pool = pool
        self._head = b""
        self._frame: memoryview | None = None
        self._frame_buffer: PooledBuffer | None = None
        #: Where the frame lies in the pool's memory.
        self._frame_at = NOWHERE
        self._filled = 0
        self._code = 0
        self._discard = 0
        self._discard_status = 0
        self._running: Future[Answer] | None = None
        self._unread: bytearray | None = None
        #: The client sends nothing more, but takes the answers it still waits for.
        self._input_ended = False
        #: The output could not send everything yet; nothing new is begun until `unblocked`.
        self.blocked = False
        #: The connection is closing; whatever still arrives is nobody's business.
        self.ended = False

    @property
    def wanted(self) -> memoryview | None:
        """Where the next bytes should be received, when a large frame is under way."""
        return None if self._frame is None else self._frame[self._filled :]

    @property
    def inside_frame(self) -> bool:
        """Whether the client owes us the rest of something it began."""
        return self._frame is not None or bool(self._head) or self._discard > 0

    def filled(self, count: int) -> None:
        """`count` bytes were received into `wanted`."""
        frame = self._frame
        if frame is None:
            return
        self._filled += count
        if self._filled < len(frame):
            return
        buffer, self._frame, self._frame_buffer = self._frame_buffer, None, None
        self._run(self._code, frame, buffer, self._frame_at)

    def received(self, data: memoryview, lying_in: PooledBuffer | None = None) -> bool:
        """Bytes arrived in the listener's receive buffer, which it will use again afterwards.

        Unless this is true: then a frame has begun in the buffer, `lying_in`, and stays there; the
        conversation gives it back to the pool.
        """
        if self._running is not None or self.blocked:
            self._keep(data)
            return False
        if self._head:
            data = memoryview(self._head + data)
            lying_in = None
            self._head = b""
        return self._consume(data, lying_in)

    def feed(self, data: memoryview) -> None:
        """Bytes arrived that the listener could not place itself (TLS, WebSocket)."""
        while data and (wanted := self.wanted) is not None:
            count = min(len(wanted), len(data))
            wanted[:count] = data[:count]
            self.filled(count)
            data = data[count:]
        if data:
            self.received(data)

    def _consume(self, data: memoryview, lying_in: PooledBuffer | None = None) -> bool:
        """Run the whole frames; whether the one that follows them stays where it lies."""
        position, end = 0, len(data)
        while position < end and not self.ended:
            if self._running is not None or self.blocked:
                self._keep(data[position:])
                return False
            if self._discard:
                position += self._discarded(end - position)
                continue
            if end - position < PREFIX_BYTES:
                self._head = bytes(data[position:])
                return False
            length, code = REQUEST_PREFIX.unpack_from(data, position)
            position += PREFIX_BYTES
            size = length - CODE_BYTES
            if size < 0:
                self._output.send(failed(INVALID_COMMAND))
            elif self._refused(code, size):
                continue
            elif size <= end - position:
                self._run_small(code, data[position : position + size])
                position += size
            else:
                return self._begin_frame(code, size, data[position:], position, lying_in)
        return False

    def _run_small(self, code: int, payload: memoryview) -> None:
        """A whole frame inside the receive buffer. Only a batch outlives the call, so only a batch
        is copied out."""
        if code == SEND_MESSAGES:
            payload = memoryview(bytearray(payload))
        self._run(code, payload, None, NOWHERE)

    def _begin_frame(
        self, code: int, size: int, first: memoryview, start: int, lying_in: PooledBuffer | None
    ) -> bool:
        """A frame of which only the first bytes are there, from `start` of a receive buffer on."""
        stays = (
            lying_in is not None and size >= STAYING_BYTES_MIN and start + size <= lying_in.capacity
        )
        if stays and lying_in is not None:
            buffer = lying_in
        else:
            buffer, start = self._pool.acquire(size), 0
            buffer.view[: len(first)] = first
        self._code, self._frame_buffer = code, buffer
        self._frame = buffer.view[start : start + size]
        self._frame_at = buffer.position + start if buffer.in_arena else NOWHERE
        self._filled = len(first)
        return stays

    def _refused(self, code: int, size: int) -> bool:
        """Frames that are too large for who sends them are answered without being held."""
        size_max = BATCH_BYTES_MAX if code == SEND_MESSAGES else CONTROL_PAYLOAD_BYTES_MAX
        if size > size_max:
            # What follows would have to be read to stay in sync, and it is never worth reading.
            self._output.send(failed(INVALID_COMMAND))
            self.end()
            return True
        if self.session.user_id is None and size > UNAUTHENTICATED_BYTES_MAX:
            self._discard = size
            self._discard_status = (
                INVALID_COMMAND if self._binary.dispatcher.is_public(code) else UNAUTHENTICATED
            )
            return True
        return False

    def _discarded(self, available: int) -> int:
        gone = min(available, self._discard)
        self._discard -= gone
        if not self._discard:
            self._output.send(failed(self._discard_status))
        return gone

    def _run(self, code: int, payload: memoryview, buffer: PooledBuffer | None, at: int) -> None:
        reply = self._binary.respond(self.session, code, payload, at=at)
        if isinstance(reply, Future):
            self._wait_for(reply, code, buffer)
            return
        if buffer is not None:
            self._pool.release(buffer)
        self._answer(reply)

    def _wait_for(self, answer: "Future[Answer]", code: int, buffer: PooledBuffer | None) -> None:
        self._running = answer
        if buffer is not None and code != SEND_MESSAGES:
            self._pool.release(buffer)
            buffer = None
        # A batch may wait in a journal until it is written: its buffer is not ours before.
        answer.add_done_callback(lambda done: self._ran(done, code, buffer))

    def _ran(self, done: "Future[Answer]", code: int, buffer: PooledBuffer | None) -> None:
        self._running = None
        if buffer is not None:
            self._pool.release(buffer)
        if self.ended:
            return
        if done.cancelled():
            # There will be no answer, and the next one must not be taken for it.
            self.end()
            return
        self._answer(self._binary.reply_to(self.session, code, done))
        self._continue()

    def _answer(self, reply: Reply) -> None:
        if self.ended:
            return
        self._output.send(reply)
        if self.session.closing:
            self.end()

    def unblocked(self) -> None:
        """Everything handed to the output has left."""
        self.blocked = False
        self._continue()

    def _continue(self) -> None:
        """Go on with what the client sent ahead, then with reading."""
        if self._unread is not None and self._running is None and not self.blocked:
            unread, self._unread = self._unread, None
            if self._head:
                unread = bytearray(self._head) + unread
                self._head = b""
            self._consume(memoryview(unread))
        if self._unread is not None or self.ended:
            return
        if not self._input_ended:
            self._output.resume_reading()
        elif self._running is None and not self.blocked:
            self.end()

    def _keep(self, data: memoryview) -> None:
        if self._unread is None:
            self._unread = bytearray(data)
        else:
            self._unread += data
        # Who is not logged in gets no more than what one read can bring.
        is_stranger = self.session.user_id is None
        if len(self._unread) >= PIPELINED_BYTES_MAX or self.blocked or is_stranger:
            self._output.pause_reading()

    def input_ended(self) -> bool:
        """The client sends nothing more. Whether it still waits for answers: it gets them, and
        then the connection ends."""
        self._input_ended = True
        return self._running is not None or self.blocked

    def hang_up(self, farewell: bytes = b"") -> None:
        """The session is over. A request that runs is still answered, and is the last one; who
        waits for nothing is told the farewell, if there is one."""
        if self.ended:
            return
        if self._running is not None:
            self.session.closing = True
            self._unread = None
            self._output.pause_reading()
            return
        if farewell:
            self._output.send(farewell)
        self.end()

    def end(self) -> None:
        """Nothing more is read or begun; what was answered still leaves."""
        if not self.ended:
            self.ended = True
            self._output.finish()

    def lost(self) -> None:
        """The connection is gone: give back what it held."""
        self.ended = True
        self._unread = None
        if self._running is not None:
            self._binary.dispatcher.abandon(self._running)
        if self._frame_buffer is not None:
            self._pool.release(self._frame_buffer)
        self._frame = self._frame_buffer = None
