"""Frames, and the incremental decoders that find them in a stream cut anywhere.

::

    request     bytes                              response    bytes
      u32 length  0   4 + size of the payload        u32 status  0   0 = ok, else a status code
      u32 code    4                                  u32 length  4   size of the payload
      payload     8                                  payload     8

A request whose `length` is below 4 is `InvalidCommand`; its 8 bytes are consumed and the next frame
is found as usual. A request other than SendMessages that declares more than 10 MiB of payload is
`InvalidCommand` as soon as its prefix is there; what follows cannot be told from frames, so the
decoder is no longer in sync and the connection has to be closed after the answer. Memory is taken
for bytes that have arrived, never for bytes that were announced.
"""

import struct
from typing import Final, NamedTuple

from borzoi.model.errors import InvalidCommand
from borzoi.model.limits import CONTROL_PAYLOAD_BYTES_MAX
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.codes import Code
from borzoi.protocol.contract import Request, encode_payload

REQUEST_PREFIX: Final = struct.Struct("<II")
RESPONSE_PREFIX: Final = struct.Struct("<II")
PREFIX_BYTES: Final = 8

#: The part of a request's length that is its code.
CODE_BYTES: Final = 4

_SEND_MESSAGES: Final = int(Code.SEND_MESSAGES)
_unpack_prefix = REQUEST_PREFIX.unpack_from


class RequestFrame(NamedTuple):
    """One request; the payload of SendMessages is a writable view, any other is bytes."""

    code: int
    payload: bytes | memoryview


class ResponseFrame(NamedTuple):
    """One answer; a small payload is bytes, a large one a view."""

    status: int
    payload: bytes | memoryview


class PendingRequest(NamedTuple):
    """A request whose payload is still arriving."""

    code: int
    payload_length: int
    arrived: int


def encode_request(request: Request) -> bytes:
    """The whole frame of a request."""
    payload = encode_payload(request)
    return REQUEST_PREFIX.pack(CODE_BYTES + len(payload), request.CODE) + payload


def encode_response(status: int, payload: Buffer = b"") -> bytes:
    """The whole frame of an answer; an error has no payload."""
    # Published clients take a length of 1 for "nothing follows" and would lose the stream.
    assert len(payload) != 1, "no answer may have exactly one byte"
    assert not (status and payload), "an error has no payload"
    return RESPONSE_PREFIX.pack(status, len(payload)) + payload


class _Unread:
    """Bytes that arrived and were not handed out yet."""

    __slots__ = ("_bytes", "_start")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._start = 0

    def _take(self, start: int, stop: int) -> bytes:
        """A copy of the bytes between two positions; the rest begins behind them."""
        self._start = stop
        return bytes(memoryview(self._bytes)[start:stop])

    def _detach(self, start: int, stop: int) -> memoryview:
        """A writable view of the bytes between two positions, that costs the smaller copy.

        Whatever is shorter is copied, these bytes or those behind them, so a stream of frames is
        moved at most once however they are cut.
        """
        unread = self._bytes
        if len(unread) - stop < stop - start:
            self._bytes, self._start = unread[stop:], 0
            return memoryview(unread)[start:stop]
        self._start = stop
        return memoryview(unread[start:stop])


class RequestDecoder(_Unread):
    """Bytes of one connection in, requests out."""

    __slots__ = ("_skipping", "in_sync")

    def __init__(self) -> None:
        super().__init__()
        self._skipping = 0
        #: False once a refused request left an unread payload behind.
        self.in_sync = True

    def feed(self, data: Buffer) -> None:
        if not self.in_sync:
            return
        if self._skipping:
            skipped = min(self._skipping, len(data))
            self._skipping -= skipped
            data = memoryview(data)[skipped:]
        if self._start:
            del self._bytes[: self._start]
            self._start = 0
        self._bytes += data

    def next_request(self) -> RequestFrame | None:
        """The next whole request, or None until more bytes arrive; `InvalidCommand` for a prefix
        that no request can have."""
        start = self._start
        available = len(self._bytes) - start - PREFIX_BYTES
        if available < 0:
            return None
        length, code = _unpack_prefix(self._bytes, start)
        payload_length = length - CODE_BYTES
        if payload_length < 0:
            self._start = start + PREFIX_BYTES
            raise InvalidCommand(f"a request frame cannot have the length {length}")
        start += PREFIX_BYTES
        if code == _SEND_MESSAGES:
            if available < payload_length:
                return None
            return RequestFrame(code, self._detach(start, start + payload_length))
        if payload_length > CONTROL_PAYLOAD_BYTES_MAX:
            self._bytes, self._start = bytearray(), 0
            self.in_sync = False
            raise InvalidCommand(f"{payload_length} bytes are too many for command {code}")
        if available < payload_length:
            return None
        return RequestFrame(code, self._take(start, start + payload_length))

    def pending(self) -> PendingRequest | None:
        """The request that `next_request` waits for, once its prefix is there."""
        arrived = len(self._bytes) - self._start - PREFIX_BYTES
        if arrived < 0:
            return None
        length, code = _unpack_prefix(self._bytes, self._start)
        return PendingRequest(code, length - CODE_BYTES, arrived)

    def skip_pending(self) -> None:
        """Drop the request that is pending, what arrived of it and what is still to come.

        For the listener that refuses a payload before it has all arrived: the bytes are let go as
        they come in and the next request is found behind them.
        """
        pending = self.pending()
        assert pending is not None
        assert pending.arrived < pending.payload_length, "a whole request is taken, not skipped"
        self._skipping = pending.payload_length - pending.arrived
        self._bytes, self._start = bytearray(), 0


class ResponseDecoder(_Unread):
    """Bytes of one connection in, answers out."""

    __slots__ = ()

    def feed(self, data: Buffer) -> None:
        if self._start:
            del self._bytes[: self._start]
            self._start = 0
        self._bytes += data

    def next_response(self) -> ResponseFrame | None:
        """The next whole answer, or None until more bytes arrive."""
        start = self._start
        available = len(self._bytes) - start - PREFIX_BYTES
        if available < 0:
            return None
        status, length = _unpack_prefix(self._bytes, start)
        if available < length:
            return None
        start += PREFIX_BYTES
        if not length:
            self._start = start
            return ResponseFrame(status, b"")
        if length <= _COPIED_BYTES_MAX:
            return ResponseFrame(status, self._take(start, start + length))
        return ResponseFrame(status, self._detach(start, start + length))


#: Answers up to this size are copied, because fields are read faster from bytes than from a view.
_COPIED_BYTES_MAX: Final = 4096
