"""The HTTP request that opens a WebSocket (RFC 6455, section 4), and its answer. Sans-IO.

Any path is accepted, and what a client offers beyond the base protocol (sub-protocols, compression)
is not taken up: the published servers do the same.
"""

import base64
import binascii
import hashlib
from http import HTTPStatus
from typing import Final

import msgspec

from borzoi.model.value import Value

#: The whole request; browsers send about one kilobyte.
HEAD_BYTES_MAX: Final = 16 * 1024
END: Final = b"\r\n\r\n"
#: Fixed by the RFC: what a server mixes into a client's key to show that it knows the protocol.
MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY_BYTES: Final = 16
VERSION: Final = "13"


class UpgradeResponse(Value):
    """What to send back, and whether frames follow."""

    response: bytes
    accepted: bool
    #: What the client sent behind its request.
    rest: bytes = b""


def accept_value(key: str) -> str:
    """What `Sec-WebSocket-Accept` says to a key."""
    digest = hashlib.sha1(key.encode("ascii") + MAGIC, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode("ascii")


def answer_once_whole(data: bytes) -> UpgradeResponse | None:
    """The answer to all that has arrived so far; None while the request is not complete."""
    end = data.find(END)
    if end < 0 and len(data) <= HEAD_BYTES_MAX:
        return None
    if not 0 <= end <= HEAD_BYTES_MAX:
        return _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    return msgspec.structs.replace(answer_to(data[:end]), rest=data[end + len(END) :])


def answer_to(head: bytes) -> UpgradeResponse:
    """The answer to a request: its lines without the blank one that ends it."""
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or parts[2] != "HTTP/1.1":
        return _refusal(HTTPStatus.BAD_REQUEST)
    if parts[0] != "GET":
        return _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if line and not colon:
            return _refusal(HTTPStatus.BAD_REQUEST)
        name = name.strip().lower()
        headers[name] = f"{headers[name]},{value.strip()}" if name in headers else value.strip()
    if not _has(headers, "upgrade", "websocket") or not _has(headers, "connection", "upgrade"):
        return _refusal(HTTPStatus.UPGRADE_REQUIRED)
    if headers.get("sec-websocket-version") != VERSION:
        return _refusal(HTTPStatus.UPGRADE_REQUIRED)
    key = headers.get("sec-websocket-key", "")
    if not _is_key(key) or "host" not in headers:
        return _refusal(HTTPStatus.BAD_REQUEST)
    response = (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept_value(key)}\r\n\r\n"
    )
    return UpgradeResponse(response.encode("ascii"), True)


def _has(headers: dict[str, str], name: str, token: str) -> bool:
    return token in (part.strip().lower() for part in headers.get(name, "").split(","))


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def _refusal(status: HTTPStatus) -> UpgradeResponse:
    more = ""
    if status is HTTPStatus.UPGRADE_REQUIRED:
        more = f"Upgrade: websocket\r\nSec-WebSocket-Version: {VERSION}\r\n"
    elif status is HTTPStatus.METHOD_NOT_ALLOWED:
        more = "Allow: GET\r\n"
    response = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n{more}"
        "Connection: close\r\nContent-Length: 0\r\n\r\n"
    )
    return UpgradeResponse(response.encode("ascii"), False)
