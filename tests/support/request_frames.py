"""Requests in a stream of bytes, for scripted servers and recorded frames.

The server finds its frames in `listeners/connection.py`; this is the plain way to read them.
"""

from typing import NamedTuple

from borzoi.model.errors import InvalidCommand
from borzoi.model.limits import CONTROL_PAYLOAD_BYTES_MAX
from borzoi.protocol.codes import Code
from borzoi.protocol.framing import CODE_BYTES, PREFIX_BYTES, REQUEST_PREFIX


class RequestFrame(NamedTuple):
    code: int
    #: Writable: a batch is stamped in place.
    payload: memoryview


class RequestReader:
    """Bytes in, whole requests out."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def feed(self, data: bytes) -> None:
        self._unread += data

    def next_request(self) -> RequestFrame | None:
        """None until more bytes arrive; `InvalidCommand` for a prefix that no request can have."""
        if len(self._unread) < PREFIX_BYTES:
            return None
        length, code = REQUEST_PREFIX.unpack_from(self._unread)
        size = length - CODE_BYTES
        if size < 0:
            del self._unread[:PREFIX_BYTES]
            raise InvalidCommand(f"a request frame cannot have the length {length}")
        if code != Code.SEND_MESSAGES and size > CONTROL_PAYLOAD_BYTES_MAX:
            raise InvalidCommand(f"{size} bytes are too many for command {code}")
        end = PREFIX_BYTES + size
        if len(self._unread) < end:
            return None
        payload = self._unread[PREFIX_BYTES:end]
        del self._unread[:end]
        return RequestFrame(code, memoryview(payload))
