"""A server with scripted answers: late, wrong, half, or none at all."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Self

from tests.support.request_frames import RequestReader

from borzoi.protocol.buffers import Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.system import ClusterMetadata, GetClusterMetadata
from borzoi.protocol.contract import Response
from borzoi.protocol.framing import encode_response

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


@dataclass(slots=True)
class ScriptedServer:
    """Answers each request of each connection as the script says."""

    script: Script
    asked: list[Asked] = field(default_factory=list)
    _listener: socket.socket = field(init=False)
    _connections: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._run(self._accept)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return host, port

    @property
    def url(self) -> str:
        host, port = self.address
        return f"borzoi://iggy:iggy@{host}:{port}"

    @property
    def codes(self) -> list[int]:
        """The codes of all requests so far."""
        return [asked.code for asked in self.asked]

    def push(self, data: bytes) -> None:
        """Send something without a request on every connection."""
        for connection in self._connections:
            with suppress(OSError):
                connection.sendall(data)

    def _run(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self._run(self._serve, len(self._connections) - 1, connection)

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()


@contextmanager
def scripted(script: Script = ok) -> Iterator[ScriptedServer]:
    with ScriptedServer(script) as server:
        yield server
