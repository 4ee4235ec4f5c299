"""TLS over TCP: the same conversation, with asyncio's transport doing the encryption.

Stored messages have to pass through the cipher, so a poll is read from the file here; that is the
price of TLS, and why plain TCP has a listener of its own.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import cast

from borzoi.handlers.dispatch import Dispatcher
from borzoi.handlers.replies import RangesReply, Reply
from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.connection import Conversation
from borzoi.listeners.tcp import host_of, peer_text
from borzoi.model.identifiers import client_id_of
from borzoi.model.system import Transport
from borzoi.storage.media import read_exactly
from borzoi.storage.memory_pool import MemoryPool

log = logging.getLogger(__name__)

#: A poll is read and encrypted in pieces of this size.
PIECE_BYTES = 256 * 1024
HANDSHAKE_SECONDS_MAX = 10.0


class TlsConnection(asyncio.Protocol):
    """One accepted connection; the transport calls it."""

    def __init__(self, listener: "TlsListener") -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._finishing = False
        self.session: Session | None = None
        self.conversation: Conversation | None = None
        self.progressed_at = listener.loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's TLS transport has every method of asyncio's class but does not inherit from it.
        transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if not self._listener.admission.admit(peer[0]):
            transport.abort()
            return
        self._transport = transport
        address = peer_text(peer)
        session = Session(
            client_id_of(address),
            address,
            Transport.TCP,
            lambda: None,
            self._listener.loop.time(),
        )
        self.session = session
        listener = self._listener
        self.conversation = Conversation(session, listener.dispatcher, self, listener.pool)
        session.hang_up = self.conversation.end
        listener.welcomed(self)

    def data_received(self, data: bytes) -> None:
        self.progressed_at = self._listener.loop.time()
        if self.conversation is not None and not self.conversation.ended:
            self.conversation.feed(memoryview(data))

    def connection_lost(self, fault: Exception | None) -> None:
        if self.conversation is not None:
            self.conversation.lost()
            self._listener.forget(self)

    # What the conversation asks for.

    def send(self, reply: Reply) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if not isinstance(reply, RangesReply):
            transport.write(reply)
            return
        transport.write(reply.head)
        for file, position, length in reply.ranges:
            end = position + length
            while position < end:
                piece = read_exactly(file, min(PIECE_BYTES, end - position), position)
                transport.write(piece)
                position += len(piece)
        for tail in reply.tail:
            transport.write(bytes(tail))

    def pause_writing(self) -> None:
        if self.conversation is not None:
            self.conversation.blocked = True

    def resume_writing(self) -> None:
        self.progressed_at = self._listener.loop.time()
        if self.conversation is not None and not self._finishing:
            self.conversation.unblocked()

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()

    def finish(self) -> None:
        self._finishing = True
        if self._transport is not None:
            self._transport.close()

    def give_up(self, reason: str) -> None:
        if self._transport is not None and self.session is not None:
            log.info("closing %s: %s", self.session.address, reason)
            self._transport.abort()

    def stalled(self, before: float) -> bool:
        """Whether something begun has not moved since the moment."""
        conversation = self.conversation
        if conversation is None:
            return False
        return (conversation.inside_frame or conversation.blocked) and self.progressed_at < before


class TlsListener:
    """Accepts TLS connections and keeps them until they end."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        pool: MemoryPool,
        admission: Admission,
        on_connect: Callable[[Session], None],
        on_disconnect: Callable[[Session], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.dispatcher = dispatcher
        self.pool = pool
        self.admission = admission
        self.connections: set[TlsConnection] = set()
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._server: asyncio.Server | None = None
        self.address: tuple[str, int] = ("", 0)

    async def start(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        host, port = sock.getsockname()[:2]
        self.address = (host, port)
        self._server = await self.loop.create_server(
            lambda: TlsConnection(self),
            sock=sock,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
        )

    def welcomed(self, connection: TlsConnection) -> None:
        if connection.session is not None:
            self.connections.add(connection)
            self._on_connect(connection.session)

    def forget(self, connection: TlsConnection) -> None:
        if connection in self.connections and connection.session is not None:
            self.connections.discard(connection)
            self.admission.leave(host_of(connection.session.address))
            self._on_disconnect(connection.session)

    def give_up_stalled(self, before: float) -> None:
        for connection in [one for one in self.connections if one.stalled(before)]:
            connection.give_up("it stopped in the middle of a frame")

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()

    def say_goodbye(self, farewell: bytes) -> None:
        for connection in list(self.connections):
            connection.send(farewell)
            if connection.conversation is not None:
                connection.conversation.end()
