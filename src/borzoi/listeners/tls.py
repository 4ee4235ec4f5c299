"""TLS over TCP: the same conversation, with asyncio's transport doing the encryption.

Stored messages have to pass through the cipher, so a poll is read from its file here, piece by
piece. Plain TCP avoids that, so it has its own listener.
"""

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from typing import cast

from borzoi.handlers.sessions import Session
from borzoi.listeners.accepting import Acceptor, Peer
from borzoi.listeners.acknowledging import acknowledge, may_be_held_back
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import BinaryProtocol, RangesReply, Reply
from borzoi.listeners.connection import Conversation
from borzoi.listeners.interface import Detached
from borzoi.listeners.sockets import SocketOptions, host_of, peer_text, reason_of
from borzoi.memory.pool import MemoryPool
from borzoi.model.errors import BorzoiError
from borzoi.model.identifiers import client_id_of
from borzoi.model.system import TransportKind
from borzoi.storage.reading import Chunk, Produced

log = logging.getLogger(__name__)

#: Bytes handed to the transport in one turn of the loop.
PUMPED_BYTES_MAX = 512 * 1024
HANDSHAKE_SECONDS_MAX = 10.0


class TlsConnection(asyncio.Protocol):
    """One accepted connection; the transport calls it."""

    def __init__(self, listener: "TlsListener", peer: Peer) -> None:
        self._listener = listener
        self._peer = peer
        self._transport: asyncio.Transport | None = None
        self._finishing = False
        #: Pieces waiting for the transport, because the peer is slow.
        self._outgoing: deque[bytes | memoryview | Iterator[Chunk]] = deque()
        self._waits_for_its_turn = False
        #: The transport's buffer is full.
        self._is_full = False
        self.session: Session | None = None
        self.conversation: Conversation | None = None
        self.progressed_at = listener.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's TLS transport has every method of asyncio's class but does not inherit from it.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        address = peer_text(self._peer)
        session = Session(
            client_id_of(address),
            address,
            self._listener.transport,
            lambda: None,
            self._listener.loop.time(),
        )
        self.session = session
        listener = self._listener
        self.conversation = Conversation(session, listener.binary, self, listener.pool)
        session.hang_up = self.conversation.hang_up
        listener.welcomed(self)

    def data_received(self, data: bytes) -> None:
        self.progressed_at = self._listener.loop.time()
        if self.conversation is not None and not self.conversation.ended:
            self.conversation.feed(memoryview(data))
            if self.conversation.inside_frame and may_be_held_back(self.conversation.wanted):
                self._acknowledge()

    def _acknowledge(self) -> None:
        """Acknowledge the received part of a frame, as far as its TLS records are complete."""
        if self._transport is not None and not self._transport.is_closing():
            acknowledge(self._transport.get_extra_info("socket"))

    def connection_lost(self, fault: Exception | None) -> None:
        # Whatever still refers to the connection must not keep its answers in memory.
        self._outgoing.clear()
        self._transport = None
        if self.conversation is not None:
            self.conversation.lost()
            self._listener.forget(self)

    # The conversation's output.

    def send(self, reply: Reply) -> None:
        if isinstance(reply, RangesReply):
            self._outgoing.append(reply.head)
            self._outgoing.extend(part.slices() for part in reply.ranges)
            self._outgoing.extend(
                part.slices() if isinstance(part, Produced) else part for part in reply.tail
            )
        else:
            self._outgoing.append(reply)
        self._pump()

    def _pump(self) -> None:
        """Write pieces to the transport until none is left, its buffer is full, or others must have
        a turn. A slow reader costs that buffer and one piece, however much it polled."""
        transport, conversation = self._transport, self.conversation
        if transport is None or conversation is None:
            return
        outgoing, room = self._outgoing, PUMPED_BYTES_MAX
        while outgoing and not conversation.blocked and not transport.is_closing():
            if room <= 0:
                self._wait_for_turn(conversation)
                return
            piece = outgoing[0]
            if isinstance(piece, Iterator):
                try:
                    made = next(piece, None)
                except (OSError, BorzoiError) as fault:
                    # The messages were deleted after the poll was answered, or cannot be read.
                    log.info("lost %s: %s", conversation.session.address, fault)
                    transport.abort()
                    return
                if made is None:
                    outgoing.popleft()
                    continue
                piece = made
            else:
                outgoing.popleft()
            room -= len(piece)
            transport.write(bytes(piece))

    def _wait_for_turn(self, conversation: Conversation) -> None:
        """Begin no request of this client while the rest of an answer is queued."""
        conversation.blocked = True
        if not self._waits_for_its_turn:
            self._waits_for_its_turn = True
            self._listener.binary.turns.wait(self._turn_came)

    def _turn_came(self) -> None:
        self._waits_for_its_turn = False
        if not self._is_full:
            self._go_on_writing()

    def pause_writing(self) -> None:
        self._is_full = True
        if self.conversation is not None:
            self.conversation.blocked = True

    def resume_writing(self) -> None:
        self._is_full = False
        if not self._waits_for_its_turn:
            self._go_on_writing()

    def _go_on_writing(self) -> None:
        conversation = self.conversation
        if conversation is None or self._transport is None:
            return
        self.progressed_at = self._listener.loop.time()
        conversation.blocked = False
        self._pump()
        if self._outgoing or conversation.blocked:
            return
        if self._finishing:
            self._close()
        else:
            conversation.unblocked()

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        # What was sent ahead may end in half a frame; its rest was not read before.
        self.progressed_at = self._listener.loop.time()
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    def finish(self) -> None:
        self._finishing = True
        if not self._outgoing:
            self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def give_up(self, reason: str) -> None:
        if self._transport is not None and self.session is not None:
            log.info("closing %s: %s", self.session.address, reason)
            self._transport.abort()

    def detach(self) -> Detached | None:
        """Return None: TLS state cannot move to another process."""

    def stalled(self, before: float) -> bool:
        """Whether the peer has to act and nothing has moved since `before`."""
        conversation = self.conversation
        if conversation is None:
            return False
        return (conversation.inside_frame or conversation.blocked) and self.progressed_at < before


class TlsListener:
    """Accepts TLS connections and keeps them until they end."""

    transport = TransportKind.TCP

    def __init__(
        self,
        *,
        binary: BinaryProtocol,
        pool: MemoryPool,
        admission: Admission,
        on_connect: Callable[[Session], None],
        on_disconnect: Callable[[Session], None],
        options: SocketOptions | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.binary = binary
        self.pool = pool
        self._admission = admission
        self._options = SocketOptions() if options is None else options
        self.connections: set[TlsConnection] = set()
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._acceptor: Acceptor | None = None
        self._context: ssl.SSLContext | None = None
        #: Running handshakes.
        self._handshakes: set[asyncio.Task[None]] = set()
        self.address: tuple[str, int] = ("", 0)

    async def start(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._context = context
        self._acceptor = Acceptor(
            sock,
            admission=self._admission,
            prepare=self._options.apply,
            welcome=self._welcome,
        )
        self.address = self._acceptor.address

    def _welcome(self, sock: socket.socket, peer: Peer) -> None:
        task = self.loop.create_task(self._shake_hands(sock, peer))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, sock: socket.socket, peer: Peer) -> None:
        """The TLS handshake. It counts as a connection, so that the limits hold for it too."""
        connection = self._connection(peer)
        try:
            await self.loop.connect_accepted_socket(
                lambda: connection,
                sock,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
            )
        except ConnectionError as fault:
            # Connected and disconnected: port scanners do that all the time.
            log.debug("%s disconnected before its handshake: %s", peer_text(peer), reason_of(fault))
        except (OSError, TimeoutError) as fault:
            log.info("no handshake with %s: %s", peer_text(peer), reason_of(fault))
        finally:
            if connection.session is None:
                self._admission.leave(peer[0])

    def _connection(self, peer: Peer) -> TlsConnection:
        return TlsConnection(self, peer)

    def welcomed(self, connection: TlsConnection) -> None:
        """The handshake is done."""
        if connection.session is not None:
            self.connections.add(connection)
            self.opened(connection.session)

    def opened(self, session: Session) -> None:
        """Start the session of a connection."""
        self._on_connect(session)

    def forget(self, connection: TlsConnection) -> None:
        if connection in self.connections and connection.session is not None:
            self.connections.discard(connection)
            self._admission.leave(host_of(connection.session.address))
            self._on_disconnect(connection.session)

    def give_up_stalled(self, before: float) -> None:
        for connection in [one for one in self.connections if one.stalled(before)]:
            connection.give_up("it stopped in the middle of a frame")

    def stop_accepting(self) -> None:
        if self._acceptor is not None:
            self._acceptor.stop()
        for handshake in self._handshakes:
            handshake.cancel()

    def say_goodbye(self, farewell: bytes) -> None:
        for connection in list(self.connections):
            if connection.conversation is not None:
                connection.conversation.hang_up(farewell)

    def close(self) -> None:
        self.stop_accepting()
        for connection in list(self.connections):
            connection.give_up("the server stops")
