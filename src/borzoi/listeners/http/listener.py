"""HTTP connections: accepted and counted like all others, then parsed by uvicorn.

uvicorn is used as a protocol only. Its server would accept connections itself, bypassing the limit
that all transports share, and would stop in its own way.
"""

import asyncio
import logging
import socket
import ssl
from typing import Any, Final, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from borzoi.listeners.accepting import Acceptor, Peer
from borzoi.listeners.admission import Admission
from borzoi.listeners.http.gathering import GatheredWrites
from borzoi.listeners.interface import Detached
from borzoi.listeners.sockets import SocketOptions, peer_text, reason_of

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS_MAX: Final = 10.0
#: Clients keep connections for their next call; most of them for less than this.
KEEP_ALIVE_SECONDS: Final = 75
#: The first line and the headers of a call together.
HEAD_BYTES_MAX: Final = 64 * 1024
#: Bytes that are parsed at once: some hundred of the shortest calls. The rest waits until these are
#: answered, so that one client neither fills the memory nor monopolises the loop.
PARSED_BYTES: Final = 16 * 1024

NOTHING: Final = memoryview(b"")

HEAD_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class HttpConnection(HttpToolsProtocol):
    """One accepted connection; the transport calls it."""

    def __init__(self, listener: "HttpListener", peer: Peer) -> None:
        super().__init__(listener.config, listener.state, {}, listener.loop)
        self._listener = listener
        self.peer = peer
        #: Bytes of a head that is not complete; None outside of one.
        self._head_bytes: int | None = 0
        #: Bytes that are not parsed yet, because earlier calls are pending.
        self._rest = NOTHING
        self.progressed_at = listener.loop.time()
        self.made = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made = True
        self._gathered = GatheredWrites(cast("asyncio.Transport", transport))
        super().connection_made(cast("asyncio.Transport", self._gathered))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._rest = NOTHING
        self._listener.forget(self)

    def data_received(self, data: bytes) -> None:
        self.progressed_at = self._listener.loop.time()
        self._rest = memoryview(bytes(self._rest) + data if self._rest else data)
        self._parse_on()

    def _parse_on(self) -> None:
        """Parse until a call has to wait for the previous one: a call of 35 bytes takes kilobytes
        once it is parsed."""
        while self._rest and not self.pipeline and not self.transport.is_closing():
            piece, self._rest = self._rest, NOTHING
            if len(piece) > PARSED_BYTES:
                piece, self._rest = piece[:PARSED_BYTES], piece[PARSED_BYTES:]
            super().data_received(piece)  # type: ignore[arg-type]
            if self._head_bytes is not None:
                self._head_bytes += len(piece)
                if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                    self.transport.write(HEAD_TOO_LARGE)
                    self.transport.close()
        self._gathered.hold_reading(bool(self._rest or self.pipeline))

    def on_response_complete(self) -> None:
        self._gathered.flush()
        super().on_response_complete()
        self._parse_on()

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        super().on_headers_complete()

    def resume_writing(self) -> None:
        self.progressed_at = self._listener.loop.time()
        super().resume_writing()

    def stalled(self, before: float) -> bool:
        """Whether a call or its answer is incomplete and has not moved since `before`."""
        if self.progressed_at >= before:
            return False
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return True  # it connected and never called
        waits_for_body = cycle.more_body and not cycle.response_complete
        return self._head_bytes is not None or waits_for_body or self.flow.write_paused

    def detach(self) -> Detached | None:
        return None  # a parser in the middle of a call cannot make progress

    def give_up(self, reason: str) -> None:
        log.info("closing %s: %s", peer_text(self.peer), reason)
        self.transport.abort()


class HttpListener:
    """Accepts HTTP connections and keeps them until they end."""

    def __init__(
        self,
        sock: socket.socket,
        app: Any,
        *,
        admission: Admission,
        context: ssl.SSLContext | None,
        stopping: asyncio.Event,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._stopping = stopping
        # Otherwise unauthenticated clients could fill the log with invalid requests.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self.config = Config(
            app,
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self.config.load()
        self.state = ServerState()
        self._admission = admission
        self._context = context
        #: Connections that have not finished their handshake.
        self._greeting: set[asyncio.Task[None]] = set()
        self._acceptor = Acceptor(
            sock, admission=admission, prepare=SocketOptions().apply, welcome=self._welcome
        )
        self.address = self._acceptor.address

    @property
    def connections(self) -> set[Any]:
        return self.state.connections

    def _welcome(self, sock: socket.socket, peer: Peer) -> None:
        task = self.loop.create_task(self._greet(sock, peer))
        self._greeting.add(task)
        task.add_done_callback(self._greeting.discard)

    async def _greet(self, sock: socket.socket, peer: Peer) -> None:
        connection = HttpConnection(self, peer)
        handshake = HANDSHAKE_SECONDS_MAX if self._context is not None else None
        try:
            await self.loop.connect_accepted_socket(
                lambda: connection, sock, ssl=self._context, ssl_handshake_timeout=handshake
            )
        except ConnectionError as fault:
            # Connected and disconnected: port scanners do that all the time.
            log.debug("%s disconnected before its handshake: %s", peer_text(peer), reason_of(fault))
        except (OSError, TimeoutError) as fault:
            log.info("no handshake with %s: %s", peer_text(peer), reason_of(fault))
        finally:
            if not connection.made:
                self._admission.leave(peer[0])

    def forget(self, connection: HttpConnection) -> None:
        self._admission.leave(connection.peer[0])

    def give_up_stalled(self, before: float) -> None:
        for connection in [one for one in self.connections if one.stalled(before)]:
            connection.give_up("it stopped in the middle of a call")

    def stop_accepting(self) -> None:
        self._acceptor.stop()
        for greeting in self._greeting:
            greeting.cancel()

    def say_goodbye(self, farewell: bytes) -> None:
        """Close idle connections now; the others after their answer."""
        self._stopping.set()
        for connection in list(self.connections):
            connection.shutdown()

    def close(self) -> None:
        self.stop_accepting()
        for connection in list(self.connections):
            connection.give_up("the server stops")
