"""A server with scripted answers: late, wrong, half, or none at all."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from tests.support.request_frames import RequestReader

from borzoi.protocol.buffers import Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.system import ClusterMetadata, GetClusterMetadata
from borzoi.protocol.contract import Response
from borzoi.protocol.framing import encode_response
from borzoi.testing.loopback import LoopbackServer

#: Answers of a script: nothing, or the end of the connection.
SILENCE: Final = None
HANG_UP: Final = b""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request; connections are counted from 0."""

    connection: int
    code: int
    payload: bytes


Script = Callable[[Asked], bytes | None]


def answered(response: Response) -> bytes:
    out = Writer()
    response.encode(out)
    return encode_response(0, out.getvalue())


def ok(asked: Asked) -> bytes:
    """Accepts every login, and answers everything else with success."""
    if asked.code in (Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN):
        return encode_response(0, bytes(4))
    if asked.code == GetClusterMetadata.CODE:
        return answered(ClusterMetadata("test", ()))
    return encode_response(0)


def hanging_up_once(code: int) -> Script:
    """Ends the first connection at this command; otherwise as `ok`."""

    def script(asked: Asked) -> bytes:
        return HANG_UP if asked.code == code and asked.connection == 0 else ok(asked)

    return script


def echo(asked: Asked) -> bytes:
    """Answers every request with its own payload."""
    return encode_response(0, asked.payload)


def in_three_parts(payload: bytes) -> list[bytes]:
    """A ping with a payload, as the parts of a frame."""
    return [
        (4 + len(payload)).to_bytes(4, "little"),
        int(Code.PING).to_bytes(4, "little"),
        payload,
    ]


class ScriptedServer(LoopbackServer):
    """Answers each request of each connection as the script says."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        super().__init__()

    @property
    def codes(self) -> list[int]:
        """The codes of all requests so far."""
        return [asked.code for asked in self.asked]

    def push(self, data: bytes) -> None:
        """Send something without a request on every connection."""
        for connection in self._connections:
            with suppress(OSError):
                connection.sendall(data)

    def _accepted(self, connection: socket.socket) -> None:
        self._start(self._serve, len(self._connections) - 1, connection)

    def _serve(self, number: int, connection: socket.socket) -> None:
        decoder = RequestReader()
        with suppress(OSError):
            while data := connection.recv(1 << 20):
                decoder.feed(data)
                while (frame := decoder.next_request()) is not None:
                    asked = Asked(number, frame.code, bytes(frame.payload))
                    self.asked.append(asked)
                    answer = self.script(asked)
                    if answer == HANG_UP:
                        connection.shutdown(socket.SHUT_RDWR)
                    elif answer is not SILENCE:
                        connection.sendall(answer)
        connection.close()


@contextmanager
def scripted(script: Script = ok) -> Iterator[ScriptedServer]:
    with ScriptedServer(script) as server:
        yield server
