"""Frames, and the incremental decoder that finds answers in a stream cut anywhere.

::

    request     bytes                              response    bytes
      u32 length  0   4 + size of the payload        u32 status  0   0 = ok, else a status code
      u32 code    4                                  u32 length  4   size of the payload
      payload     8                                  payload     8

A request whose `length` is below 4 is `InvalidCommand`; its 8 bytes are consumed and the next frame
is found as usual. A request other than SendMessages that declares more than 10 MiB of payload is
`InvalidCommand` as soon as its prefix is there; its payload cannot be told from frames, so the
connection is closed after the answer. `listeners/connection.py` finds requests by these rules.
Memory is taken for bytes that have arrived, never for bytes that were announced.
"""

import struct
from typing import Final, NamedTuple

from borzoi.protocol.buffers import Buffer
from borzoi.protocol.contract import Request, encode_payload

REQUEST_PREFIX: Final = struct.Struct("<II")
RESPONSE_PREFIX: Final = struct.Struct("<II")
PREFIX_BYTES: Final = 8

#: The part of a request's length that is its code.
CODE_BYTES: Final = 4

#: The response without a payload: status 0, length 0.
DONE: Final = RESPONSE_PREFIX.pack(0, 0)

_unpack_prefix = RESPONSE_PREFIX.unpack_from


class ResponseFrame(NamedTuple):
    """One answer; a small payload is bytes, a large one a view."""

    status: int
    payload: bytes | memoryview


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


class ResponseDecoder:
    """Bytes of one connection in, answers out."""

    __slots__ = ("_bytes", "_start")

    def __init__(self) -> None:
        #: What arrived and was not handed out yet begins at `_start`.
        self._bytes = bytearray()
        self._start = 0

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


#: Answers up to this size are copied, because fields are read faster from bytes than from a view.
_COPIED_BYTES_MAX: Final = 4096
