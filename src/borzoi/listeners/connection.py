"""One client's requests, in order: bytes → frames → responses, for every byte stream.

A conversation owns no socket. The listener feeds it what arrived and sends what it hands out.

::

    State        the conversation waits for
    IDLE         the next frame; `head` may hold the first bytes of its prefix
    RECEIVING    the rest of a frame, received straight into `wanted`
    DISCARDING   the rest of a frame that was refused
    RUNNING      the answer to a request; `_unread` keeps what the client sends ahead
    ENDED        nothing: the connection is closing or closed

    event          IDLE    RECEIVING                     DISCARDING   RUNNING   ENDED
    received       any     not allowed, use `wanted`     any          RUNNING   ENDED
    filled         -       any                           -            -         -
    answered       -       -                             -            any       ENDED
    unblocked      any     RECEIVING                     any          RUNNING   ENDED
    hang_up        ENDED   ENDED                         ENDED        RUNNING   ENDED
    lost           ENDED   ENDED                         ENDED        ENDED     ENDED

`TRANSITIONS` is this table, and a test holds the code to it. `blocked` and `_held` are independent
of the state: while the output cannot send, or the conversation waits for its turn or for room, new
bytes are kept in `_unread` and no request begins.

A frame in the receive buffer is copied out when it is small. A larger one stays there, and the
listener takes another buffer; a very large one gets its own buffer. The rest of a frame is
received straight into its place (`wanted`), so a batch is copied at most once on its way in.

A large send gets no memory before its sender is authorised: its metadata is received first, and the
rest is discarded as it arrives if the send is rejected.
"""

import logging
from asyncio import Future
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, Protocol

from borzoi.handlers.answers import Answer
from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import BinaryProtocol, Reply, failed
from borzoi.listeners.shares import FRAMES_BEFORE_LOGIN, FRAMES_PER_TURN
from borzoi.listeners.unfinished import COUNTED_BYTES_MIN
from borzoi.memory.pool import NOWHERE, MemoryPool, Payload, PooledBuffer
from borzoi.model.limits import (
    BATCH_BYTES_MAX,
    CONTROL_PAYLOAD_BYTES_MAX,
    UNAUTHENTICATED_BYTES_MAX,
)
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import SEND_METADATA_BYTES_MAX
from borzoi.protocol.errors import INVALID_COMMAND, UNAUTHENTICATED
from borzoi.protocol.framing import CODE_BYTES, PREFIX_BYTES, REQUEST_PREFIX

log = logging.getLogger(__name__)

SEND_MESSAGES = int(Code.SEND_MESSAGES)

_unpack_prefix: Final = REQUEST_PREFIX.unpack_from

#: A smaller frame is copied out of the receive buffer: copying is cheaper than handing over the
#: buffer. Larger than any frame before login, so unauthenticated clients never hold a buffer.
STAYING_BYTES_MIN = UNAUTHENTICATED_BYTES_MAX + 1

#: How many bytes a client may send ahead while its request runs, before reading stops.
PIPELINED_BYTES_MAX = 256 * 1024


class State(Enum):
    IDLE = auto()
    RECEIVING = auto()
    DISCARDING = auto()
    RUNNING = auto()
    ENDED = auto()


_ANY: Final = frozenset(State)
_ENDED: Final = frozenset({State.ENDED})
_RUNNING: Final = frozenset({State.RUNNING})

# fmt: off
#: Event → state → the states it may lead to. A combination that is missing does not occur.
TRANSITIONS: Final[Mapping[str, Mapping[State, frozenset[State]]]] = {
    "received":  {State.IDLE: _ANY, State.DISCARDING: _ANY, State.RUNNING: _RUNNING,
                  State.ENDED: _ENDED},
    "filled":    {State.RECEIVING: _ANY},
    "answered":  {State.RUNNING: _ANY, State.ENDED: _ENDED},
    "unblocked": {State.IDLE: _ANY, State.RECEIVING: frozenset({State.RECEIVING}),
                  State.DISCARDING: _ANY, State.RUNNING: _RUNNING, State.ENDED: _ENDED},
    "hang_up":   {State.IDLE: _ENDED, State.RECEIVING: _ENDED, State.DISCARDING: _ENDED,
                  State.RUNNING: _RUNNING, State.ENDED: _ENDED},
    "lost":      dict.fromkeys(State, _ENDED),
}
# fmt: on


class Output(Protocol):
    """What a conversation needs from the connection it runs over."""

    def send(self, reply: Reply) -> None:
        """Send, or queue and set `Conversation.blocked`."""

    def finish(self) -> None:
        """Close once everything handed to `send` has left."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Lender(Protocol):
    """Whose receive buffer a frame may stay in."""

    def lend(self, size: int) -> PooledBuffer | None:
        """The buffer, if it has this size: it belongs to the frame from now on, and the lender
        receives into another one."""


class ClosedOutput:
    """The output of a lost conversation: it does nothing and keeps nothing alive."""

    def send(self, reply: Reply) -> None: ...

    def finish(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


CLOSED: Final = ClosedOutput()


class Conversation:
    """The state of one client's byte stream; the listener's reader and writer drive it."""

    __slots__ = (
        "_announced",
        "_binary",
        "_code",
        "_discard_answer",
        "_frame",
        "_frame_buffer",
        "_held",
        "_input_ended",
        "_output",
        "_pool",
        "_reserved",
        "_running",
        "_unread",
        "_wanted_room",
        "blocked",
        "discard",
        "ended",
        "head",
        "is_waiting",
        "session",
        "wanted",
    )

    def __init__(
        self, session: Session, binary: BinaryProtocol, output: Output, pool: MemoryPool
    ) -> None:
        self.session = session
        self._binary = binary
        self._output: Output = output
        self._pool = pool
        #: The first bytes of a prefix that is not whole.
        self.head = b""
        self._frame: Payload | None = None
        self._frame_buffer: PooledBuffer | None = None
        #: The memory to receive the next bytes into: the rest of `_frame`.
        self.wanted: memoryview | None = None
        self._code = 0
        #: The size of a large send whose metadata is being received, in the place of `_frame`.
        self._announced = 0
        #: How many bytes of a refused frame are still to come.
        self.discard = 0
        self._discard_answer: Reply = b""
        self._running: Future[Answer] | None = None
        #: Whether its answer comes from the disk or another process, not from this turn.
        self.is_waiting = False
        self._unread: bytearray | None = None
        #: Waits for its turn, or for room for a large frame.
        self._held = False
        #: The size of a large frame that was admitted (`listeners/unfinished.py`), until it is
        #: done.
        self._reserved = 0
        #: The size of a large frame waiting for admission.
        self._wanted_room = 0
        #: The client sends nothing more, but waits for pending answers.
        self._input_ended = False
        #: The output could not send everything yet; no request begins until `unblocked`.
        self.blocked = False
        #: The connection is closing; further input is ignored.
        self.ended = False

    @property
    def state(self) -> State:
        if self.ended:
            return State.ENDED
        if self._running is not None:
            return State.RUNNING
        if self.wanted is not None:
            return State.RECEIVING
        return State.DISCARDING if self.discard else State.IDLE

    @property
    def inside_frame(self) -> bool:
        """Whether a frame has begun and the client has to send the rest."""
        return self.wanted is not None or bool(self.head) or self.discard > 0

    @property
    def takes_input(self) -> bool:
        """Whether more may be read: otherwise `resume_reading` is called when it may."""
        return self._unread is None and not self.blocked and not self.ended

    # Input.

    def filled(self, count: int) -> None:
        """`count` bytes were received into `wanted`."""
        wanted, frame = self.wanted, self._frame
        if wanted is None or frame is None:
            return
        if count < len(wanted):
            self.wanted = wanted[count:]
            return
        buffer, self._frame, self._frame_buffer, self.wanted = self._frame_buffer, None, None, None
        if self._announced:
            self._metadata_arrived(frame.view)
        else:
            self._run(self._code, frame, buffer)

    def feed(self, data: memoryview) -> None:
        """Bytes arrived that the listener could not place itself (TLS, WebSocket)."""
        while data and (wanted := self.wanted) is not None:
            count = min(len(wanted), len(data))
            wanted[:count] = data[:count]
            self.filled(count)
            data = data[count:]
        if data:
            self.received(data)

    def received(self, data: memoryview, lender: Lender | None = None) -> None:
        """Bytes arrived: run the whole frames, as many as its turn allows. One that is not whole
        may stay where it lies, in the receive buffer of the lender."""
        if self.head and self._running is None and not self.blocked and not self._held:
            data = memoryview(self.head + data)
            lender = None
            self.head = b""
        position, end, frames = 0, len(data), 0
        while position < end and not self.ended:
            if self._running is not None or self.blocked or self._held:
                self._keep(data[position:])
                return
            if self.discard:
                position += self._discarded(end - position)
                continue
            if end - position < PREFIX_BYTES:
                self.head = bytes(data[position:])
                return
            if frames >= FRAMES_BEFORE_LOGIN and self._had_its_turn(frames):
                continue
            frames += 1
            length, code = _unpack_prefix(data, position)
            position += PREFIX_BYTES
            size = length - CODE_BYTES
            if size < 0:
                self._output.send(failed(INVALID_COMMAND))
            elif size >= COUNTED_BYTES_MIN and not self._is_let_in(code, size, data[position:]):
                # Its first bytes are discarded next, or were kept.
                position = position if self.discard else end
            elif size <= end - position:
                start, position = position, position + size
                self._run(code, Payload(data[start:position], NOWHERE, True), None)
            else:
                self._begin_frame(code, size, data[position:], position, lender)
                return

    def _had_its_turn(self, frames: int) -> bool:
        """Whether other connections come first now; then this one queues up."""
        if frames < FRAMES_PER_TURN and self.session.user_id is not None:
            return False
        self._held = True
        self._binary.turns.wait(self._turn_came)
        return True

    def _turn_came(self) -> None:
        self._held = False
        if not self.ended:
            self._go_on()

    def _go_on(self) -> None:
        """Continue where nobody else would see to a fault of ours."""
        try:
            self._continue()
        except Exception:
            log.exception("serving %s failed", self.session.address)
            self.end()

    def _begin_frame(
        self, code: int, size: int, first: memoryview, start: int, lender: Lender | None
    ) -> None:
        """Only the first bytes of a frame are there; its payload begins at `start` of the lender's
        receive buffer, and stays there if that has room for it."""
        buffer = None
        if lender is not None and size >= STAYING_BYTES_MIN:
            buffer = lender.lend(start + size)
        if buffer is None:
            buffer, start = self._pool.acquire(size), 0
            buffer.view[: len(first)] = first
        self._code, self._frame_buffer = code, buffer
        frame = buffer.payload(start, size)
        self._frame = frame
        self.wanted = frame.view[len(first) :]

    # Large frames: rejected before they take memory, or admitted when there is room.

    def _is_let_in(self, code: int, size: int, first: memoryview) -> bool:
        """Whether a large frame may be received now. If not, its first bytes are to be discarded,
        or were kept until it is decided."""
        is_send = code == SEND_MESSAGES
        if size > (BATCH_BYTES_MAX if is_send else CONTROL_PAYLOAD_BYTES_MAX):
            # Staying in sync would mean reading the rest, which is too much.
            self._output.send(failed(INVALID_COMMAND))
            self.end()
            return False
        if self.session.user_id is None:
            public = self._binary.dispatcher.is_public(code)
            self._refuse(size, failed(INVALID_COMMAND if public else UNAUTHENTICATED))
            return False
        if is_send:
            if len(first) < SEND_METADATA_BYTES_MAX:
                self._begin_metadata(size, first)
                return False
            refusal = self._binary.refusal_of_send(self.session, first, size)
            if refusal is not None:
                self._refuse(size, refusal)
                return False
        if not self._reserved:
            if not self._binary.unfinished.enter(size):
                self._wait_for_room(code, size, first)
                return False
            self._reserved = size
        return True

    def _refuse(self, size: int, answer: Reply) -> None:
        """Discard a frame as it arrives, and answer at its end."""
        self._leave()
        self.discard, self._discard_answer = size, answer

    def _begin_metadata(self, size: int, first: memoryview) -> None:
        """Receive the metadata of a large send by itself."""
        frame = Payload(memoryview(bytearray(SEND_METADATA_BYTES_MAX)))
        frame.view[: len(first)] = first
        self._announced, self._frame = size, frame
        self.wanted = frame.view[len(first) :]

    def _metadata_arrived(self, metadata: memoryview) -> None:
        size, self._announced = self._announced, 0
        prefix = REQUEST_PREFIX.pack(size + CODE_BYTES, SEND_MESSAGES)
        self.received(memoryview(prefix + metadata))

    def _wait_for_room(self, code: int, size: int, first: memoryview) -> None:
        self._held, self._wanted_room = True, size
        self._keep(memoryview(REQUEST_PREFIX.pack(size + CODE_BYTES, code) + first))
        self._output.pause_reading()
        self._binary.unfinished.wait(size, self._room_came)

    def _room_came(self) -> None:
        """The large frame was admitted."""
        self._reserved, self._wanted_room = self._wanted_room, 0
        if self.ended:
            self._leave()
        self._turn_came()

    def _leave(self) -> None:
        """Release the admission of a large frame."""
        if self._reserved:
            self._binary.unfinished.leave(self._reserved)
            self._reserved = 0

    def _discarded(self, available: int) -> int:
        gone = min(available, self.discard)
        self.discard -= gone
        if not self.discard:
            self._output.send(self._discard_answer)
        return gone

    def _keep(self, data: memoryview) -> None:
        if self._unread is None:
            self._unread = bytearray(data)
        else:
            self._unread += data
        # Unauthenticated clients get no more than what one read brings.
        is_unauthenticated = self.session.user_id is None
        if len(self._unread) >= PIPELINED_BYTES_MAX or self.blocked or is_unauthenticated:
            self._output.pause_reading()

    # Requests.

    def _run(self, code: int, payload: Payload, buffer: PooledBuffer | None) -> None:
        reply = self._binary.respond(self.session, code, payload, self._concluded)
        if isinstance(reply, Future):
            self._running = reply
            if reply is not self._binary.gathering.running:
                self._wait_for(reply, code, buffer)
            elif buffer is not None:
                self._pool.release(buffer)
            return
        if buffer is not None:
            self._pool.release(buffer)
        if self._reserved:
            self._binary.unfinished.leave(self._reserved)
            self._reserved = 0
        if not self.ended:
            self._output.send(reply)
            if self.session.closing:
                self.end()

    def _wait_for(self, answer: "Future[Answer]", code: int, buffer: PooledBuffer | None) -> None:
        self.is_waiting = True
        if buffer is not None and code != SEND_MESSAGES:
            self._pool.release(buffer)
            buffer = None
        # The journal may hold on to a batch until it is written, so its buffer is released then.
        answer.add_done_callback(lambda done: self.answered(done, code, buffer))

    def answered(self, done: "Future[Answer]", code: int, buffer: PooledBuffer | None) -> None:
        """The running request is done."""
        self._running = None
        self.is_waiting = False
        if buffer is not None:
            self._pool.release(buffer)
        if self._reserved:
            self._leave()
        if self.ended:
            return
        if done.cancelled():
            # There is no answer, and the client must not mistake the next one for it.
            self.end()
            return
        self._output.send(self._binary.reply_to(self.session, code, done))
        if self.session.closing:
            self.end()
        self._continue()

    def _concluded(self, reply: bytes | None) -> None:
        """The running send, which was gathered with others, is done."""
        self._running = None
        if self.ended:
            return
        if reply is None:
            self.end()
            return
        self._output.send(reply)
        if self.session.closing:
            self.end()
        if self._unread is not None or self._input_ended:
            self._go_on()

    def unblocked(self) -> None:
        """Everything handed to the output has left."""
        self.blocked = False
        self._continue()

    def _continue(self) -> None:
        """Run what the client sent ahead, then read on."""
        if self._running is not None or self.blocked or self._held:
            return
        if self._unread is not None:
            unread, self._unread = self._unread, None
            self.received(memoryview(unread))
        if self._unread is not None or self.ended:
            return
        if not self._input_ended:
            self._output.resume_reading()
        elif self._running is None and not self.blocked:
            self.end()

    # The end.

    def input_ended(self) -> bool:
        """The client has sent EOF. Return whether answers are pending: they are sent, and then the
        connection ends."""
        self._input_ended = True
        if self._running is not None:
            self.session.input_ended = True
            self._stop_waiting()
        return self._running is not None or self.blocked or self._held

    def _stop_waiting(self) -> None:
        """Answer a poll that waits for messages now: a client that has closed its side may not be
        reading any more, and the wait may be long."""
        if self.session.waiting:
            self._binary.dispatcher.services.waits.end_of(self.session)

    def hang_up(self, farewell: bytes = b"") -> None:
        """End the session. A running request is still answered, and is the last one. Without one,
        the farewell is sent."""
        if self.ended:
            return
        if self._running is not None:
            self.session.closing = True
            self._unread = None
            self._output.pause_reading()
            self._stop_waiting()
            return
        if farewell:
            self._output.send(farewell)
        self.end()

    def end(self) -> None:
        """Stop reading and begin no request; answers in the queue are still sent."""
        if not self.ended:
            self.ended = True
            self.wanted = None
            self._output.finish()

    def lost(self) -> None:
        """The connection was lost: release everything, the reference to it included."""
        self.ended = True
        self._output = CLOSED
        self.session.hang_up = hung_up
        self._unread = None
        if self._running is not None:
            # Its batch needs the memory and the room until it is done.
            self._binary.dispatcher.abandon(self._running)
        else:
            self._leave()
            if self._frame_buffer is not None:
                self._pool.release(self._frame_buffer)
                self._frame_buffer = None
        if self._wanted_room:
            self._binary.unfinished.forget(self._room_came)
        self._frame = self.wanted = None

    def detach(self) -> bytes | None:
        """Stop here and return the bytes that were read and not run, for a conversation in another
        process to continue with. None while a request or an answer is pending, or while a large
        frame is being received or discarded."""
        if self.state not in (State.IDLE, State.RECEIVING) or self._input_ended:
            return None
        if self.blocked or self._held:
            return None
        unread = self.head
        if self._frame is not None and self.wanted is not None:
            arrived = len(self._frame.view) - len(self.wanted)
            if arrived > PIPELINED_BYTES_MAX:
                return None
            size, code = len(self._frame.view), self._code
            if self._announced:
                size, code = self._announced, SEND_MESSAGES
            prefix = REQUEST_PREFIX.pack(size + CODE_BYTES, code)
            unread = prefix + self._frame.view[:arrived]
        self.lost()
        return unread


def hung_up() -> None:
    """The `hang_up` of a session whose connection was lost."""
