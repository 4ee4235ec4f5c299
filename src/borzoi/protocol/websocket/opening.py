"""The request with which a client opens a WebSocket, and what it makes of the answer. Sans-IO."""

from typing import Final, NamedTuple

from borzoi.model.errors import InvalidVersion
from borzoi.protocol.websocket.handshake import (
    END,
    HEAD_BYTES_MAX,
    KEY_BYTES,
    VERSION,
    accept_value,
)

__all__ = ["KEY_BYTES", "OpenedWebSocket", "opened_once_whole", "opening"]

SWITCHING: Final = "101"


class OpenedWebSocket(NamedTuple):
    """The WebSocket is open; `rest` is what the server has sent in it already."""

    rest: bytes


def opening(host: str, key: str) -> bytes:
    """The request; `key` is the Base64 of `KEY_BYTES` that cannot be foreseen."""
    return (
        f"GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: {VERSION}\r\n\r\n"
    ).encode("ascii")


def opened_once_whole(data: bytes, key: str) -> OpenedWebSocket | None:
    """None while the answer is not complete; `InvalidVersion` when it does not open anything."""
    end = data.find(END)
    if end < 0:
        if len(data) > HEAD_BYTES_MAX:
            raise InvalidVersion("what answers speaks no WebSocket")
        return None
    lines = data[:end].decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    status = rest.partition(" ")[0]
    if not version.startswith("HTTP/1.") or status != SWITCHING:
        raise InvalidVersion(f"what answers opens no WebSocket: {lines[0][:80]!r}")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines[1:])
    }
    if headers.get("sec-websocket-accept") != accept_value(key):
        raise InvalidVersion("what answers does not know how a WebSocket is opened")
    return OpenedWebSocket(data[end + len(END) :])
