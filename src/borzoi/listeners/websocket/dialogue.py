"""The WebSocket layer between a connection and its conversation, with or without TLS."""

import logging
from collections.abc import Callable
from typing import Final

from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import RangesReply, Reply
from borzoi.listeners.connection import Conversation
from borzoi.listeners.shares import frames_per_turn
from borzoi.protocol.websocket.frames import (
    CloseCode,
    Control,
    FrameFault,
    FrameReader,
    Limits,
    Opcode,
    close_frame,
    close_reply,
    frame_head,
)
from borzoi.protocol.websocket.handshake import answer_once_whole

log = logging.getLogger(__name__)

#: How long a client has for its request to open the WebSocket.
HANDSHAKE_SECONDS_MAX: Final = 10.0


class Dialogue:
    """The phases of a WebSocket: opening handshake, frames, close."""

    __slots__ = (
        "_close_sent",
        "_conversation",
        "_greeting",
        "_later",
        "_opened",
        "_read",
        "_send",
        "frames",
    )

    def __init__(
        self,
        limits: Limits,
        conversation: Conversation,
        *,
        send: Callable[[Reply], None],
        read: Callable[[bool], None],
        opened: Callable[[Session], None],
    ) -> None:
        self._conversation = conversation
        self._send = send
        #: Called to pause or resume reading.
        self._read = read
        self._opened = opened
        #: Received bytes that wait for a turn; None when there are none.
        self._later: bytearray | None = None
        #: Received bytes of the opening request; None once it is open.
        self._greeting: bytes | None = b""
        self._close_sent = False
        self.frames = FrameReader(limits)

    @property
    def is_open(self) -> bool:
        return self._greeting is None

    @property
    def waits_for_its_turn(self) -> bool:
        return self._later is not None

    @property
    def is_unfinished(self) -> bool:
        """Whether the client has to send the rest of a frame or of the opening."""
        return not self.is_open or self.frames.inside_frame

    def arrived(self, data: memoryview) -> None:
        """Process received bytes; they are unmasked in place."""
        if self._later is not None:
            self._later += data
            return
        if self._greeting is not None:
            rest = self._greet(bytes(data))
            if not rest:
                return
            data = memoryview(bytearray(rest))
        conversation = self._conversation
        share = frames_per_turn(conversation.session)
        try:
            for event in self.frames.feed(data):
                if conversation.ended:
                    return
                if isinstance(event, Control):
                    self._control(event)
                else:
                    conversation.feed(event)
                share -= 1
                if not share and self.frames.consumed < len(data):
                    self._wait_for_turn(data[self.frames.consumed :])
                    return
        except FrameFault as fault:
            log.info("closing %s: %s", conversation.session.address, fault)
            self._say_close(close_frame(fault.code))
            conversation.end()

    def _wait_for_turn(self, rest: memoryview) -> None:
        """Yield to others after a share of frames: a ping is two bytes and gets an answer."""
        self._later = bytearray(rest)
        self._read(False)
        self._conversation.binary.turns.wait(self._turn_came)

    def _turn_came(self) -> None:
        later, self._later = self._later, None
        if later is None or self._conversation.ended:
            return
        try:
            self.arrived(memoryview(later))
        except Exception:
            log.exception("serving %s failed", self._conversation.session.address)
            self._conversation.end()
        if self._later is None:
            self._read(True)

    def _greet(self, data: bytes) -> bytes:
        """Continue the handshake; return the bytes after it once it is done."""
        assert self._greeting is not None
        self._greeting += data
        answer = answer_once_whole(self._greeting)
        if answer is None:
            return b""
        self._greeting = None
        self._send(answer.response)
        if not answer.accepted:
            self._close_sent = True  # there is no WebSocket to close
            self._conversation.end()
            return b""
        self._opened(self._conversation.session)
        return answer.rest

    def _control(self, control: Control) -> None:
        if control.opcode is Opcode.PING:
            self._send(frame_head(Opcode.PONG, len(control.payload)) + control.payload)
        elif control.opcode is Opcode.CLOSE and not self._conversation.input_ended():
            self._say_close(close_reply(control.payload))
            self._conversation.end()

    def say(self, reply: Reply) -> None:
        """Send a response as one message; dropped before the WebSocket is open."""
        if not self.is_open:
            return
        if isinstance(reply, RangesReply):
            head = frame_head(Opcode.BINARY, reply.size) + reply.head
            self._send(RangesReply(head, reply.ranges, reply.tail))
        else:
            self._send(frame_head(Opcode.BINARY, len(reply)) + reply)

    def say_goodbye(self) -> None:
        """Send a close frame, unless one was sent already."""
        if self.is_open:
            self._say_close(close_frame(CloseCode.GOING_AWAY))

    def _say_close(self, frame: bytes) -> None:
        if not self._close_sent:
            self._close_sent = True
            self._send(frame)
