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

`frame_buffers.py` says where the rest of a frame is received, `large_frames.py` whether a large one
is received, waits for room or is discarded.
"""

import logging
from asyncio import Future
from collections.abc import Mapping
from enum import Enum, auto
from functools import partial
from typing import Final

from borzoi.handlers.answers import Answer
from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import POLL_MESSAGES, BinaryProtocol, failed
from borzoi.listeners.frame_buffers import Lender, begun
from borzoi.listeners.gathering import Repeated
from borzoi.listeners.large_frames import SEND_MESSAGES, FrameStep, LargeFrame
from borzoi.listeners.output import CLOSED, Output
from borzoi.listeners.repeated_polls import RepeatedPoll
from borzoi.listeners.shares import FRAMES_BEFORE_LOGIN, FRAMES_PER_TURN
from borzoi.listeners.unfinished import COUNTED_BYTES_MIN
from borzoi.memory.pool import NOWHERE, MemoryPool, Payload, PooledBuffer
from borzoi.partitions.futures import PromptFuture
from borzoi.protocol.errors import INVALID_COMMAND
from borzoi.protocol.framing import CODE_BYTES, PREFIX_BYTES, REQUEST_PREFIX

log = logging.getLogger(__name__)

_unpack_prefix: Final = REQUEST_PREFIX.unpack_from

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


class Conversation:
    """The state of one client's byte stream; the listener's reader and writer drive it."""

    __slots__ = (
        "_code",
        "_frame",
        "_frame_buffer",
        "_held",
        "_input_ended",
        "_large",
        "_output",
        "_pool",
        "_running",
        "_unread",
        "binary",
        "blocked",
        "discard",
        "ended",
        "head",
        "is_waiting",
        "repeated",
        "session",
        "wanted",
    )

    def __init__(
        self, session: Session, binary: BinaryProtocol, output: Output, pool: MemoryPool
    ) -> None:
        self.session = session
        self.binary = binary
        self._output: Output = output
        self._pool = pool
        #: The first bytes of a prefix that is not whole.
        self.head = b""
        self._frame: Payload | None = None
        self._frame_buffer: PooledBuffer | None = None
        #: The memory to receive the next bytes into: the rest of `_frame`.
        self.wanted: memoryview | None = None
        self._code = 0
        #: The large frame that is being received, waits for room, is discarded or runs.
        self._large: LargeFrame | None = None
        #: How many bytes of a refused frame are still to come.
        self.discard = 0
        self._running: Future[Answer] | None = None
        #: Whether its answer comes from the disk or another process, not from this turn.
        self.is_waiting = False
        #: What the last send or poll had in common with the one before; only between two requests,
        #: and when nothing followed it yet.
        self.repeated: Repeated | RepeatedPoll | None = None
        self._unread: bytearray | None = None
        #: Waits for its turn, or for room for a large frame.
        self._held = False
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
        if self._large is not None and self._large.is_announced:
            self.received(self._large.announced(frame.view))
        else:
            self._run(self._code, frame, buffer)

    def feed(self, data: memoryview) -> None:
        """Bytes arrived that the listener could not place itself (TLS, WebSocket)."""
        while data and (wanted := self.wanted) is not None:
            count = min(len(wanted), len(data))
            wanted[:count] = data[:count]
            self.filled(count)
            data = data[count:]
        if data and (self.repeated is None or not self.repeats(data)):
            self.received(data)

    def repeats(self, data: memoryview) -> bool:
        """Whether this is one poll like the last one, and was answered, or one send like the last
        one, and is stored with others at the end of the turn. If not, it is for `received`."""
        repeated, binary = self.repeated, self.binary
        if repeated is None or self._running is not None or self.blocked:
            return False
        if isinstance(repeated, RepeatedPoll):
            if len(data) != repeated.size:
                return False
            reply = binary.polls_again(self.session, repeated, data)
            if reply is None:
                return False
            if isinstance(reply, Future):
                self._running = reply
                self._wait_for(reply, POLL_MESSAGES, None)
            else:
                self._output.send(reply)
        elif binary.repeats(self.session, repeated, data, self):
            self._running = binary.gathering.running
        else:
            return False
        return True

    def received(self, data: memoryview, lender: Lender | None = None) -> None:
        """Bytes arrived: run the whole frames, as many as its turn allows. One that is not whole
        may stay where it lies, in the receive buffer of the lender."""
        before = self.repeated
        if self.head and self._running is None and not self.blocked and not self._held:
            data = memoryview(self.head + data)
            lender = None
            self.head = b""
        position, end, frames = 0, len(data), 0
        while position < end and not self.ended:
            self.repeated = None
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
                frame, self._frame_buffer = begun(self._pool, lender, data, position, size)
                self._code, self._frame = code, frame
                self.wanted = frame.view[end - position :]
                return
        if before is not None and self.repeated is None and isinstance(before, RepeatedPoll):
            self._expect_again(before)

    def _expect_again(self, repeated: RepeatedPoll) -> None:
        """Another request came behind the last poll, and nothing else yet."""
        is_whole = self.state is State.IDLE or self.state is State.RUNNING
        if is_whole and not self._held and repeated.is_missed_once():
            self.repeated = repeated

    def _had_its_turn(self, frames: int) -> bool:
        """Whether other connections come first now; then this one queues up."""
        if frames < FRAMES_PER_TURN and self.session.user_id is not None:
            return False
        self._held = True
        self.binary.turns.wait(self._turn_came)
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

    # Large frames.

    def _is_let_in(self, code: int, size: int, first: memoryview) -> bool:
        """Whether a large frame may be received now. If not, its first bytes are to be discarded,
        or were kept until it is decided."""
        large = self._large
        if large is None:
            large = self._large = LargeFrame(self.binary, code, size)
        step = large.next_step(self.session, first)
        if step is FrameStep.AUTHORISE:
            self._frame = large.begin_metadata(first)
            self.wanted = self._frame.view[len(first) :]
        elif step is FrameStep.WAIT:
            self._held = True
            self._keep(memoryview(large.prefix + first))
            self._output.pause_reading()
            large.wait(self._room_came)
        elif step is FrameStep.DISCARD:
            self.discard = size
        elif step is FrameStep.END:
            self._output.send(large.refusal)
            self.end()
        return step is FrameStep.RECEIVE

    def _room_came(self) -> None:
        if self.ended:
            self._leave()
        self._turn_came()

    def _leave(self) -> None:
        """The large frame is done, or was given up."""
        if self._large is not None:
            self._large.leave()
            self._large = None

    def _discarded(self, available: int) -> int:
        gone = min(available, self.discard)
        self.discard -= gone
        if not self.discard and self._large is not None:
            self._output.send(self._large.refusal)
            self._large = None
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
        reply = self.binary.respond(self.session, code, payload, self)
        if isinstance(reply, Future):
            self._running = reply
            if reply is not self.binary.gathering.running:
                self._wait_for(reply, code, buffer)
            elif buffer is not None:
                self._pool.release(buffer)
            return
        if buffer is not None:
            self._pool.release(buffer)
        if self._large is not None:
            self._leave()
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
        when_done = answer.listen if isinstance(answer, PromptFuture) else answer.add_done_callback
        when_done(partial(self.answered, code, buffer))

    def answered(self, code: int, buffer: PooledBuffer | None, done: "Future[Answer]") -> None:
        """The running request is done."""
        self._running = None
        self.is_waiting = False
        if not self.ended:
            if done.cancelled():
                # There is no answer, and the client must not mistake the next one for it.
                self.end()
            else:
                reply = self.binary.reply_to(self.session, code, done)
                if reply:
                    self._output.send(reply)
        if buffer is not None:
            self._pool.release(buffer)
        if self._large is not None:
            self._leave()
        if not self.ended:
            if self.session.closing:
                self.end()
            self._go_on()

    def may_repeat(self, repeated: Repeated | RepeatedPoll) -> None:
        self.repeated = repeated

    def concluded(self, reply: bytes | None) -> None:
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
            self.binary.dispatcher.services.waits.end_of(self.session)

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
            self.wanted = self.repeated = None
            self._output.finish()

    def lost(self) -> None:
        """The connection was lost: release everything, the reference to it included."""
        self.ended = True
        self._output = CLOSED
        self.repeated = None
        self.session.hang_up = CLOSED.finish
        self._unread = None
        if self._running is not None:
            # Its batch needs the memory and the room until it is done.
            self.binary.dispatcher.abandon(self._running)
        else:
            self._leave()
            if self._frame_buffer is not None:
                self._pool.release(self._frame_buffer)
                self._frame_buffer = None
        self._frame = self.wanted = None

    def detach(self) -> bytes | None:
        """Stop here and return the bytes that were read and not run, for a conversation in another
        process to continue with. None while a request or an answer is pending, or while a large
        frame is being received or discarded."""
        if self.state not in (State.IDLE, State.RECEIVING):
            return None
        if self._input_ended or self.blocked or self._held:
            return None
        unread = self.head
        if self._frame is not None and self.wanted is not None:
            arrived = len(self._frame.view) - len(self.wanted)
            if arrived > PIPELINED_BYTES_MAX:
                return None
            size, code = len(self._frame.view), self._code
            if self._large is not None and self._large.is_announced:
                size, code = self._large.size, self._large.code
            unread = REQUEST_PREFIX.pack(size + CODE_BYTES, code) + self._frame.view[:arrived]
        self.lost()
        return unread
