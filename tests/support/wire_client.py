"""A small blocking client that speaks frames: for tests that care about the bytes."""

import socket
from typing import Any, Self

from borzoi.protocol.buffers import Buffer, Reader
from borzoi.protocol.catalog import decode_request
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.errors import error_of
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request

#: Generous, because tests share their machine; a server that answers is never this slow.
PATIENCE_SECONDS = 60.0


class ConnectionEnded(ConnectionError):
    """The server closed the connection."""


def request_in(code: int, payload: Buffer) -> Any:
    """The decoded request, of which the caller knows the type."""
    return decode_request(code, payload)


def answer_in(status: int, payload: Buffer, request: Request) -> Any:
    """The decoded answer, None for an empty one; an error status becomes its exception."""
    if status:
        raise error_of(status)
    if request.RESPONSE is None or not payload:
        return None
    return request.RESPONSE.decode(Reader(payload))


def answer_in_frame(frame: Buffer, request: Request) -> Any:
    """The same of a whole frame."""
    status, length = RESPONSE_PREFIX.unpack_from(frame)
    assert len(frame) == RESPONSE_PREFIX.size + length
    return answer_in(status, memoryview(frame)[RESPONSE_PREFIX.size :], request)


class WireClient:
    """One connection; requests are answered one after another."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._sock = socket.create_connection(address, PATIENCE_SECONDS)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def address(self) -> tuple[str, int]:
        """Our own end, from which the server derives the client id."""
        host, port = self._sock.getsockname()[:2]
        return host, port

    def send(self, frame: bytes | memoryview) -> None:
        self._sock.sendall(frame)

    def receive(self) -> tuple[int, bytes]:
        """Status and payload of the next answer."""
        status, length = RESPONSE_PREFIX.unpack(self._exactly(RESPONSE_PREFIX.size))
        return status, self._exactly(length)

    def exchange(self, frame: bytes | memoryview) -> tuple[int, bytes]:
        self.send(frame)
        return self.receive()

    def call(self, request: Request) -> Any:
        """The decoded answer, None for an empty one; an error status becomes its exception."""
        return answer_in(*self.exchange(encode_request(request)), request)

    def login(self, username: str = "iggy", password: str = "iggy") -> None:
        self.call(LoginUser(username, password))

    def leftovers(self, seconds: float) -> tuple[bytes, bool]:
        """What arrives unasked within the time, and whether the server closed."""
        self._sock.settimeout(seconds)
        collected = b""
        try:
            while data := self._sock.recv(65536):
                collected += data
        except TimeoutError:
            return collected, False
        except ConnectionResetError:
            return collected, True
        finally:
            self._sock.settimeout(PATIENCE_SECONDS)
        return collected, True

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exactly(self, size: int) -> bytes:
        received = bytearray(size)
        view, filled = memoryview(received), 0
        while filled < size:
            count = self._sock.recv_into(view[filled:])
            if not count:
                raise ConnectionEnded(f"the server closed after {filled} of {size} bytes")
            filled += count
        return bytes(received)
