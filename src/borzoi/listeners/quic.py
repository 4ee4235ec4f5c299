"""QUIC: one connection is one session, and each request has its own stream.

A client opens a bidirectional stream, writes one frame and ends its side; the answer comes on the
same stream, which ends with it. Only the first frame of a stream is answered. The library (qh3)
owns packets, loss and encryption; it is an extra, so this module is loaded only where QUIC is on.
"""

import asyncio
import logging
import socket
from asyncio import Future
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from qh3.asyncio.protocol import QuicConnectionProtocol
from qh3.asyncio.server import QuicServer
from qh3.quic.configuration import QuicConfiguration
from qh3.quic.connection import QuicConnection as QuicCore
from qh3.quic.events import (
    ConnectionTerminated,
    HandshakeCompleted,
    QuicEvent,
    StreamDataReceived,
    StreamReset,
)

from borzoi.handlers.answers import Answer
from borzoi.handlers.sessions import Session
from borzoi.listeners.accepting import Peer
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import BinaryProtocol, Reply
from borzoi.listeners.interface import Detached
from borzoi.listeners.quic_receiving import Receiving, RequestStream
from borzoi.listeners.quic_sending import Sending
from borzoi.listeners.shares import frames_per_turn
from borzoi.listeners.sockets import host_of, peer_text
from borzoi.memory.pool import NOWHERE, Payload
from borzoi.model.errors import BorzoiError
from borzoi.model.identifiers import client_id_of
from borzoi.model.system import TransportKind
from borzoi.model.value import Value

log = logging.getLogger(__name__)

#: The minimum of the flow-control windows.
WINDOW_BYTES_MIN: Final = 256 * 1024
#: Pending handshakes above which new clients have to validate their address first.
UNPROVED_MAX: Final = 64
#: Limit of answers that a client has not read; beyond it the client is disconnected.
BACKLOG_BYTES_MAX: Final = 64 << 20
#: How long the last answers have to arrive before their connection closes.
PARTING_SECONDS: Final = 0.05
#: The error code of a stream that is reset because it carries no valid frame.
NO_FRAME: Final = 1


class QuicOptions(Value):
    """The settings of QUIC; times in seconds."""

    certificate: bytes
    key: bytes
    receive_window: int = 100_000
    datagram_bytes_max: int = 8000
    idle_seconds: float = 10
    keep_alive_seconds: float = 5

    def configuration(self) -> QuicConfiguration:
        configuration = QuicConfiguration(
            is_client=False,
            # No ALPN is offered or accepted: there is only one protocol.
            alpn_protocols=None,
            # The initial window of a stream; it grows as bytes arrive.
            max_data=max(self.receive_window, WINDOW_BYTES_MIN),
            max_stream_data=max(self.receive_window, WINDOW_BYTES_MIN),
            max_datagram_size=self.datagram_bytes_max,
            idle_timeout=self.idle_seconds,
        )
        configuration.load_cert_chain(self.certificate, self.key)
        return configuration


class QuicConnection(QuicConnectionProtocol):
    """One client; the server below passes its datagrams to it."""

    def __init__(self, listener: "QuicListener", quic: QuicCore) -> None:
        super().__init__(quic)
        self._listener = listener
        self._receiving = Receiving(listener.binary)
        #: Complete frames that wait for a turn.
        self._ready: deque[tuple[int, RequestStream, int, memoryview]] = deque()
        #: How many more may run in this turn.
        self._share = 0
        self._sending = Sending(quic)
        self._waits_for_its_turn = False
        self.session: Session | None = None
        self._peer: Peer | None = None
        self._ending = False
        #: When a request or an answer last made progress, and how much was unsent then.
        self._progressed_at = self._loop.time()
        self._unsent_bytes = 0
        self._keep_alive: asyncio.TimerHandle | None = None

    def datagram_received(self, data: bytes | str, addr: Any) -> None:
        self._peer = self._peer or addr
        self._begin_share()
        super().datagram_received(data, addr)

    def _begin_share(self) -> None:
        self._share = 0 if self.session is None else frames_per_turn(self.session)

    def transmit(self) -> None:
        """Send what may be sent; afterwards there may be space for more of an answer."""
        super().transmit()
        if self._sending.is_due:
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        if not self._waits_for_its_turn:
            self._waits_for_its_turn = True
            self._listener.binary.turns.wait(self._turn_came)

    def _turn_came(self) -> None:
        self._waits_for_its_turn = False
        if self.session is None:
            return
        self._begin_share()
        while self._ready and self._share and self.session is not None:
            self._share -= 1
            number, stream, code, payload = self._ready.popleft()
            if number in self._receiving.streams:
                self._run(number, stream, code, payload)
        if self._ready:
            self._wait_for_turn()
        if self._sending.is_due:
            try:
                self._sending.go_on()
            except (OSError, BorzoiError) as fault:
                # The messages were deleted after the poll was answered, or cannot be read.
                log.info("an answer ended early: %s", fault)
                self.give_up("its answer cannot be read")
                return
        self.transmit()

    def quic_event_received(self, event: QuicEvent) -> None:
        match event:
            case StreamDataReceived():
                if event.stream_id % 4 == 0 and self.session is not None:
                    self._received(self.session, event.stream_id, event.data, event.end_stream)
            case StreamReset():
                self._forget(event.stream_id)
            case HandshakeCompleted():
                self._opened()
            case ConnectionTerminated():
                self._lost()

    def _opened(self) -> None:
        assert self._peer is not None
        address = peer_text(self._peer)
        if not self._listener.admission.admit(host_of(address)):
            self.close()
            return
        self.session = Session(
            client_id_of(address), address, TransportKind.QUIC, self.hang_up, self._loop.time()
        )
        self._listener.opened(self, self.session)
        self._stay_alive()

    def _stay_alive(self) -> None:
        seconds = self._listener.options.keep_alive_seconds
        if seconds and not self._ending:
            self._keep_alive = self._loop.call_later(seconds, self._ping)

    def _ping(self) -> None:
        self._quic.send_ping(0)
        self.transmit()
        self._stay_alive()

    # Requests.

    def _received(self, session: Session, number: int, data: bytes, ended: bool) -> None:
        receiving = self._receiving
        stream = receiving.stream(number, ended=ended, may_begin=not self._ending)
        if stream is None:
            return
        self._progressed_at = self._loop.time()
        if not receiving.add(stream, data):
            self.give_up("it has too many incomplete requests")
            return
        frame = receiving.frame(session, stream)
        if isinstance(frame, bytes):
            receiving.finish(number, stream, ended=ended)
            self._answer(number, frame)
        elif frame is not None:
            receiving.finish(number, stream, ended=ended)
            if self._share and not self._ready:
                self._share -= 1
                self._run(number, stream, *frame)
            else:
                self._ready.append((number, stream, *frame))
                self._wait_for_turn()
        elif ended:
            receiving.forget(number)
            self._quic.reset_stream(number, NO_FRAME)

    def _run(self, number: int, stream: RequestStream, code: int, payload: memoryview) -> None:
        session = self.session
        assert session is not None
        binary = self._listener.binary
        if self._quic.get_send_buffer_size() > BACKLOG_BYTES_MAX:
            self.give_up("it does not read its answers")
            return
        reply = binary.respond(session, code, Payload(payload, NOWHERE))
        if not isinstance(reply, Future):
            self._receiving.release(stream)
            self._answer(number, reply)
            return
        stream.answer = reply

        def ran(done: "Future[Answer]") -> None:
            self._receiving.release(stream)
            if number not in self._receiving.streams:
                return
            if done.cancelled():
                self._quic.reset_stream(number, NO_FRAME)
                self._receiving.streams.pop(number, None)
            else:
                self._answer(number, binary.reply_to(session, code, done))
            self._transmit_soon()

        reply.add_done_callback(ran)

    def _answer(self, number: int, reply: Reply) -> None:
        self._receiving.streams.pop(number, None)
        self._sending.add(number, reply)
        if self._sending.is_due:
            self._wait_for_turn()
        if self.session is not None and self.session.closing:
            self._ending = True
        self._close_when_idle()

    # Ending.

    def _forget(self, number: int) -> None:
        """The client takes back a request."""
        self._sending.forget(number)
        self._receiving.forget(number)

    def hang_up(self) -> None:
        """End the session; running requests are still answered."""
        self._ending = True
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        if self._ending and not self._receiving.is_running and not self._ready:
            self._transmit_soon()
            self._loop.call_later(PARTING_SECONDS, self._close_once_sent)

    def _close_once_sent(self) -> None:
        """Close after the last answer was sent: a close would discard unsent data."""
        if self.session is None:
            return
        if not self._sending.is_done:
            self._loop.call_later(PARTING_SECONDS, self._close_once_sent)
        else:
            self.close()

    def stalled(self, before: float) -> bool:
        """Whether a request or an answer is incomplete and has not moved since `before`."""
        unsent_bytes = self._quic.get_send_buffer_size()
        if unsent_bytes != self._unsent_bytes:
            self._unsent_bytes = unsent_bytes
            self._progressed_at = self._loop.time()
        if self._progressed_at >= before:
            return False
        return self._receiving.is_incomplete or not self._sending.is_done

    def detach(self) -> Detached | None:
        return None  # the state of the encryption cannot move

    def give_up(self, reason: str) -> None:
        address = "a client" if self.session is None else self.session.address
        log.info("closing %s: %s", address, reason)
        self.close()

    def close(self) -> None:
        super().close()
        self._lost()

    def _lost(self) -> None:
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        for number in list(self._receiving.streams):
            self._forget(number)
        self._ready.clear()
        self._sending.clear()
        session, self.session = self.session, None
        if session is not None:
            self._listener.ended(self, session)


class QuicListener:
    """Receives datagrams and owns their connections until they end."""

    def __init__(
        self,
        *,
        binary: BinaryProtocol,
        admission: Admission,
        options: QuicOptions,
        on_connect: Callable[[Session], None],
        on_disconnect: Callable[[Session], None],
    ) -> None:
        self.binary = binary
        self.admission = admission
        self.options = options
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self.connections: set[QuicConnection] = set()
        self.address: tuple[str, int] = ("", 0)
        self._server: _Server | None = None

    async def start(self, sock: socket.socket) -> None:
        """Receive the datagrams of a bound socket."""
        configuration = self.options.configuration()
        _, self._server = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Server(self, configuration), sock=sock
        )
        self.address = sock.getsockname()[:2]

    def opened(self, connection: QuicConnection, session: Session) -> None:
        self.connections.add(connection)
        self._on_connect(session)

    def ended(self, connection: QuicConnection, session: Session) -> None:
        self.connections.discard(connection)
        self.admission.leave(host_of(session.address))
        self._on_disconnect(session)

    def give_up_stalled(self, before: float) -> None:
        # The idle timeout of QUIC ends silent peers; these still confirm what they receive.
        for connection in [one for one in self.connections if one.stalled(before)]:
            connection.give_up("it stopped in the middle of a request or an answer")

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.accepting = False

    def say_goodbye(self, farewell: bytes) -> None:
        """There is no stream for a farewell: close after the running requests are answered."""
        for connection in list(self.connections):
            connection.hang_up()

    def close(self) -> None:
        self.stop_accepting()
        for connection in list(self.connections):
            connection.give_up("the server stops")
        if self._server is not None:
            self._server.close()  # type: ignore[no-untyped-call]


class _Server(QuicServer):
    """Finds the connection of each datagram."""

    def __init__(self, listener: QuicListener, configuration: QuicConfiguration) -> None:
        super().__init__(configuration=configuration, create_protocol=self._create, retry=True)
        self._listener = listener
        self._proving: Any = self._retry
        self.accepting = True

    def _create(self, quic: QuicCore, stream_handler: Any) -> QuicConnection:
        return QuicConnection(self._listener, quic)

    def datagram_received(self, data: bytes | str, addr: Any) -> None:
        # Each connection has two ids here until it is open.
        unproved = len(self._protocols) // 2 - len(self._listener.connections)
        proving: Any = self._proving if unproved > UNPROVED_MAX else None
        self._retry = proving
        if not self.accepting and isinstance(data, bytes) and _is_initial(data):
            return
        super().datagram_received(data, addr)


def _is_initial(data: bytes) -> bool:
    """Whether a datagram opens a connection: a long header of type 0 (RFC 9000, section 17.2)."""
    return len(data) > 0 and data[0] & 0xF0 == 0xC0
