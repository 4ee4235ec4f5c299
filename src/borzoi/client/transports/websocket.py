"""Frames inside WebSocket messages; sans-IO.

The binary messages of one direction are one stream with the frames of TCP in it. A request is
sent as one message, a large one as several, because servers accept at most 16 MiB per message.
"""

import base64
import os
from collections.abc import Sequence
from typing import Final

from borzoi.client.options import Address
from borzoi.client.receiving import AnswerReceiver
from borzoi.model.errors import InvalidVersion
from borzoi.model.limits import BATCH_BYTES_MAX
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.framing import ResponseFrame
from borzoi.protocol.websocket.frames import (
    Control,
    FrameFault,
    FrameReader,
    Limits,
    Opcode,
    masked_frame,
)
from borzoi.protocol.websocket.opening import KEY_BYTES, opened_once_whole, opening

#: Half of what servers accept.
MESSAGE_BYTES_MAX: Final = 8 << 20
RECEIVED_BYTES: Final = 64 * 1024
MASK_BYTES: Final = 4

#: An answer comes as one message, however large it is; servers do not mask.
LIMITS: Final = Limits(
    message_bytes_max=2 * BATCH_BYTES_MAX, frame_bytes_max=2 * BATCH_BYTES_MAX, accept_unmasked=True
)


class WebSocketWire:
    """The WebSocket of one connection."""

    def __init__(self, address: Address) -> None:
        self._key = base64.b64encode(os.urandom(KEY_BYTES)).decode("ascii")
        self.opening = opening(str(address), self._key)
        self._greeting: bytes | None = b""
        self._frames = FrameReader(LIMITS)
        self._receiver = AnswerReceiver(address)
        self._buffer = memoryview(bytearray(RECEIVED_BYTES))
        #: Whether the next bytes are received straight into the memory of the answer.
        self._is_direct = False
        self._unasked = bytearray()

    @property
    def is_open(self) -> bool:
        return self._greeting is None

    @property
    def unasked(self) -> bool:
        return bool(self._unasked)

    def take_unasked(self) -> bytes:
        unasked = bytes(self._unasked)
        self._unasked.clear()
        return unasked

    def outgoing(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        frame = bytearray().join(parts)
        if len(frame) <= MESSAGE_BYTES_MAX:
            return masked_frame(Opcode.BINARY, frame, os.urandom(MASK_BYTES))
        pieces: list[Buffer] = []
        for start in range(0, len(frame), MESSAGE_BYTES_MAX):
            piece = frame[start : start + MESSAGE_BYTES_MAX]
            pieces += masked_frame(Opcode.BINARY, piece, os.urandom(MASK_BYTES))
        return pieces

    def space(self) -> memoryview:
        sure = min(self._frames.stream_bytes_next, self._receiver.missing)
        self._is_direct = sure > 0
        return self._receiver.space()[:sure] if sure else self._buffer

    @property
    def missing(self) -> int:
        return min(self._frames.stream_bytes_next, self._receiver.missing)

    def received(self, count: int) -> list[ResponseFrame]:
        if self._is_direct:
            self._frames.take(self._receiver.space()[:count])
            return self._receiver.received(count)
        data = self._buffer[:count]
        if self._greeting is not None:
            self._greeting += bytes(data)
            opened = opened_once_whole(self._greeting, self._key)
            if opened is None:
                return []
            self._greeting = None
            data = memoryview(bytearray(opened.rest))
        try:
            return self._read(data)
        except FrameFault as fault:
            raise InvalidVersion(f"the peer violates the WebSocket protocol: {fault}") from None

    def _read(self, data: memoryview) -> list[ResponseFrame]:
        answers: list[ResponseFrame] = []
        for event in self._frames.feed(data):
            if isinstance(event, Control):
                self._control(event)
                continue
            while event:
                space = self._receiver.space()
                size = min(len(space), len(event))
                space[:size] = event[:size]
                answers += self._receiver.received(size)
                event = event[size:]
        return answers

    def _control(self, control: Control) -> None:
        # A close is not answered: the server ends the connection behind it.
        if control.opcode is Opcode.PING:
            for part in masked_frame(
                Opcode.PONG, bytearray(control.payload), os.urandom(MASK_BYTES)
            ):
                self._unasked += part
