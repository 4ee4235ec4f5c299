"""WebSocket frames (RFC 6455, section 5), read as they arrive and written whole. Sans-IO.

::

    1 bit fin, 3 bits reserved, 4 bits opcode
    1 bit masked, 7 bits length            126: u16 length follows, 127: u64 (network order)
    4 bytes mask, when masked              payload byte i is xored with mask byte i mod 4
    payload

A payload is never buffered: its bytes are unmasked in place and passed on, because the
messages of a connection are one stream. Only control frames, of at most 125 bytes, are kept until
they are whole.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np

from borzoi.model.value import Value

#: The sizes of the published servers, which are those of their library.
MESSAGE_BYTES_MAX: Final = 64 << 20
FRAME_BYTES_MAX: Final = 16 << 20
CONTROL_BYTES_MAX: Final = 125

#: Below this many bytes one large integer is quicker than an array.
INTEGER_BYTES_MAX: Final = 256
WORD: Final = 8

_U16: Final = struct.Struct(">H")
_U64: Final = struct.Struct(">Q")


class Opcode(IntEnum):
    CONTINUATION = 0x0
    TEXT = 0x1
    BINARY = 0x2
    CLOSE = 0x8
    PING = 0x9
    PONG = 0xA


class CloseCode(IntEnum):
    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    NO_STATUS = 1005
    TOO_BIG = 1009


class FrameFault(Exception):
    """The client violated the protocol; the connection closes with the code."""

    def __init__(self, code: CloseCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Control(Value):
    """A whole control frame: ping, pong or close."""

    opcode: Opcode
    payload: bytes


class Limits(Value):
    message_bytes_max: int = MESSAGE_BYTES_MAX
    frame_bytes_max: int = FRAME_BYTES_MAX
    accept_unmasked: bool = False


#: Bytes of the stream, or a control frame.
Event: TypeAlias = memoryview | Control


class FrameReader:
    """The frames of one client, in whatever pieces they come."""

    __slots__ = (
        "_control",
        "_head",
        "_limits",
        "_mask",
        "_message",
        "_message_bytes",
        "_opcode",
        "_phase",
        "_unfinished",
        "consumed",
        "remaining",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: The first bytes of a head that is not complete.
        self._head = b""
        self._opcode = Opcode.CONTINUATION
        #: The type of the fragmented message, and its size so far.
        self._message: Opcode | None = None
        self._message_bytes = 0
        #: The current frame is not the last of its message.
        self._unfinished = False
        self._mask = b""
        #: Which byte of the mask comes next.
        self._phase = 0
        self._control = bytearray()
        #: Missing bytes of the current frame.
        self.remaining = 0
        #: How many of the bytes that are being fed the events so far have taken.
        self.consumed = 0

    @property
    def inside_frame(self) -> bool:
        """Whether the client has begun something and not finished it."""
        return self.remaining > 0 or bool(self._head) or self._message is not None

    @property
    def stream_bytes_next(self) -> int:
        """How many of the next bytes surely belong to the stream."""
        return self.remaining if self._opcode is Opcode.BINARY else 0

    def take(self, piece: memoryview) -> None:
        """Bytes of the stream that were received where they belong: at most `stream_bytes_next`."""
        self._unmask(piece)
        self._advance(len(piece))

    def feed(self, data: memoryview) -> Iterator[Event]:
        """What arrived bytes mean, one after the other; they are unmasked in place.

        A caller that stops between two events continues later with the bytes after `consumed`.
        """
        position, end = 0, len(data)
        while position < end:
            if not self.remaining:
                position += self._begin(data[position:])
                if self.remaining or self._head:
                    continue
                # A frame without a payload is over with its head.
                if (control := self._ended()) is not None:
                    self.consumed = position
                    yield control
                continue
            piece = data[position : position + self.remaining]
            position += len(piece)
            self.consumed = position
            self._unmask(piece)
            opcode = self._opcode
            if opcode is Opcode.BINARY:
                self._advance(len(piece))
                yield piece
            elif opcode is Opcode.TEXT:
                self._advance(len(piece))
            else:
                self._control += piece
                self.remaining -= len(piece)
                if not self.remaining and (control := self._ended()) is not None:
                    yield control

    def _begin(self, data: memoryview) -> int:
        """Read the head of a frame; how many of the bytes it took."""
        known = len(self._head)
        head = self._head + bytes(data[: 14 - known])
        if len(head) < 2:
            self._head = head
            return len(head) - known
        short = head[1] & 0x7F
        masked = bool(head[1] & 0x80)
        length_size = {126: 2, 127: 8}.get(short, 0)
        size = 2 + length_size + (4 if masked else 0)
        if len(head) < size:
            self._check(head, masked)
            self._head = head
            return len(head) - known
        self._head = b""
        length = short
        if length_size:
            (length,) = (_U16 if length_size == 2 else _U64).unpack_from(head, 2)
        self._check(head, masked)
        self._mask = head[size - 4 : size] if masked else b""
        self._phase = 0
        self._enter(head[0], length)
        return size - known

    def _check(self, head: bytes, masked: bool) -> None:
        if head[0] & 0x70:
            raise FrameFault(CloseCode.PROTOCOL_ERROR, "a reserved bit is set")
        if not masked and not self._limits.accept_unmasked:
            raise FrameFault(CloseCode.PROTOCOL_ERROR, "a client masks its frames")

    def _enter(self, first: int, length: int) -> None:
        """A frame begins: which message it belongs to, and whether it may."""
        final = bool(first & 0x80)
        try:
            opcode = Opcode(first & 0x0F)
        except ValueError:
            raise FrameFault(CloseCode.PROTOCOL_ERROR, "an unknown opcode") from None
        if opcode >= Opcode.CLOSE:
            if not final or length > CONTROL_BYTES_MAX:
                raise FrameFault(CloseCode.PROTOCOL_ERROR, "a control frame is whole and short")
            self._opcode, self.remaining = opcode, length
            return
        if (opcode is Opcode.CONTINUATION) != (self._message is not None):
            raise FrameFault(CloseCode.PROTOCOL_ERROR, "a fragment out of order")
        if length > self._limits.frame_bytes_max:
            raise FrameFault(CloseCode.TOO_BIG, f"a frame of {length} bytes")
        if opcode is not Opcode.CONTINUATION:
            self._message, self._message_bytes = opcode, 0
        self._message_bytes += length
        if self._message_bytes > self._limits.message_bytes_max:
            raise FrameFault(CloseCode.TOO_BIG, f"a message of {self._message_bytes} bytes")
        assert self._message is not None
        self._opcode, self.remaining, self._unfinished = self._message, length, not final

    def _ended(self) -> Control | None:
        """The frame is complete; a control frame is handed on."""
        if self._opcode < Opcode.CLOSE:
            self._advance(0)
            return None
        control = Control(self._opcode, bytes(self._control))
        self._control.clear()
        return control

    def _advance(self, count: int) -> None:
        self.remaining -= count
        if not self.remaining and not self._unfinished:
            self._message = None

    def _unmask(self, piece: memoryview) -> None:
        if self._mask:
            unmask(piece, self._mask, self._phase)
            self._phase = (self._phase + len(piece)) & 3


def unmask(piece: memoryview, mask: bytes, phase: int) -> None:
    """Xor the bytes with the mask in place, from its byte `phase` on."""
    size = len(piece)
    if phase:
        mask = mask[phase:] + mask[:phase]
    if size <= INTEGER_BYTES_MAX:
        key = (mask * (size // 4 + 1))[:size]
        mixed = int.from_bytes(piece, "little") ^ int.from_bytes(key, "little")
        piece[:] = mixed.to_bytes(size, "little")
        return
    data = np.frombuffer(piece, np.uint8)
    # Words that do not lie at multiples of their size would be copied there and back.
    lead = -data.__array_interface__["data"][0] % WORD
    if lead:
        unmask(piece[:lead], mask, 0)
        mask = mask[lead & 3 :] + mask[: lead & 3]
    whole = lead + (size - lead) // WORD * WORD
    words = data[lead:whole].view(np.uint64)
    words ^= np.uint64(int.from_bytes(mask * 2, "little"))
    if whole < size:
        unmask(piece[whole:], mask, 0)


def frame_head(opcode: Opcode, length: int, mask: bytes = b"") -> bytes:
    """What stands before the payload of a whole frame; clients mask theirs, servers never do."""
    first, masked = 0x80 | opcode, 0x80 if mask else 0
    if length <= CONTROL_BYTES_MAX:
        return bytes((first, masked | length)) + mask
    if length < 1 << 16:
        return bytes((first, masked | 126)) + _U16.pack(length) + mask
    return bytes((first, masked | 127)) + _U64.pack(length) + mask


def masked_frame(opcode: Opcode, payload: bytearray, mask: bytes) -> tuple[bytes, bytearray]:
    """Return a frame of a client, in two parts; the payload is masked in place."""
    unmask(memoryview(payload), mask, 0)
    return frame_head(opcode, len(payload), mask), payload


def close_frame(code: CloseCode) -> bytes:
    return frame_head(Opcode.CLOSE, 2) + _U16.pack(code)


def close_reply(payload: bytes) -> bytes:
    """The answer to a client's close: its own code, or that it made no sense."""
    code = CloseCode.NORMAL
    if len(payload) == 1:
        code = CloseCode.PROTOCOL_ERROR
    elif payload:
        (given,) = _U16.unpack_from(payload)
        if 3000 <= given < 5000 or (1000 <= given < 1015 and given not in (1004, 1005, 1006)):
            return frame_head(Opcode.CLOSE, 2) + payload[:2]
        code = CloseCode.PROTOCOL_ERROR
    return close_frame(code)
