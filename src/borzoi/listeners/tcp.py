"""TCP without a transport in between: raw sockets on the event loop.

`recv_into` receives large frames into their final buffer, `sendfile` sends stored messages from the
page cache, and an answer leaves in the same turn of the loop in which its request was complete.
None of that is possible through asyncio's transports, which TLS needs (`listeners/tls.py`).
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from borzoi.handlers.sessions import Session
from borzoi.listeners.accepting import WOULD_BLOCK, Acceptor, Peer
from borzoi.listeners.acknowledging import acknowledge, may_be_held_back
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import BinaryProtocol, RangesReply, Reply
from borzoi.listeners.busy_poll import BusyPoll
from borzoi.listeners.connection import Conversation
from borzoi.listeners.interface import Detached
from borzoi.listeners.send_queue import SendQueue
from borzoi.listeners.sockets import SocketOptions, host_of, peer_text
from borzoi.memory.pool import MemoryPool, PooledBuffer
from borzoi.model.errors import StorageFailure
from borzoi.model.identifiers import client_id_of
from borzoi.model.system import TransportKind
from borzoi.shard.client_socket import ClientSocket

log = logging.getLogger(__name__)

#: Bytes of one read while no frame is incomplete.
RECEIVE_BYTES = 64 * 1024
#: A frame of up to this size stays where its first bytes were received.
RECEIVE_BUFFER_BYTES = 256 * 1024
#: While a large frame arrives, wake up for pieces of this size, not for every TCP segment.
LARGE_PIECE_BYTES = 128 * 1024
#: A client reads an answer of this size for longer than the loop stays awake.
LARGE_ANSWER_BYTES = 256 * 1024
#: Bytes read and discarded from a peer after the last answer has left.
DRAINED_BYTES_MAX = 64 * 1024 * 1024


class TcpConnection:
    """One accepted socket, its conversation, and what could not be sent yet."""

    __slots__ = (
        "_drained_bytes",
        "_finishing",
        "_listener",
        "_low_water",
        "_outgoing",
        "_reading",
        "_sock",
        "conversation",
        "draining",
        "progressed_at",
        "session",
    )

    def __init__(self, listener: "TcpListener", sock: socket.socket, session: Session) -> None:
        self._listener = listener
        self._sock = sock
        self.session = session
        self.conversation = Conversation(session, listener.binary, self, listener.pool)
        session.hang_up = self.conversation.hang_up
        #: Pieces of replies that are not sent yet, if there are any.
        self._outgoing: SendQueue | None = None
        self._finishing = False
        self._reading = True
        self._low_water = False
        #: The last answer has left and the session has ended; the peer has yet to close.
        self.draining = False
        self._drained_bytes = 0
        #: Loop time of the last byte that moved; stalled connections are closed.
        self.progressed_at = listener.loop.time()
        listener.loop.add_reader(sock.fileno(), self._on_readable)

    # Reading.

    def _on_readable(self) -> None:
        listener, conversation = self._listener, self.conversation
        rest = conversation.wanted
        try:
            if rest is None:
                count = self._sock.recv_into(listener.scratch)
                if count:
                    data = listener.scratch[:count]
                    if conversation.repeated is not None and conversation.repeats(data):
                        busy_poll = listener.busy_poll
                        if busy_poll.awake:
                            busy_poll.is_touched = True
                        else:
                            busy_poll.touch(monotonic())
                        return
                    conversation.received(data, listener)
                    rest = conversation.wanted
                    if rest is not None:
                        self._receive_rest(conversation, rest, is_there=count == RECEIVE_BYTES)
            else:
                count = self._sock.recv_into(rest)
                if count < len(rest):
                    conversation.wanted = rest[count:]  # a piece, of which there may be many
                else:
                    conversation.filled(count)
        except WOULD_BLOCK:
            return
        except Exception as fault:
            self._lose(fault)
            return
        if not count:
            if conversation.input_ended():
                self.pause_reading()  # EOF stays readable
            else:
                self._close()
            return
        busy_poll = listener.busy_poll
        if busy_poll.awake and not conversation.is_waiting:
            self.progressed_at = busy_poll.now
            busy_poll.is_touched = True
        else:
            self.progressed_at = now = monotonic()
            if conversation.is_waiting:
                busy_poll.rest()
            elif not self._low_water:  # the rest of a large frame comes by itself
                busy_poll.touch(now)
        rest = conversation.wanted
        if rest is not None and len(rest) > 2 * LARGE_PIECE_BYTES:
            if not self._low_water:
                self._gather(is_large=True)
            return
        if self._low_water:
            self._gather(is_large=False)
        # `inside_frame`, without a call for every request.
        is_inside = rest is not None or conversation.head or conversation.discard
        if is_inside and may_be_held_back(rest) and self._sock.fileno() >= 0:
            acknowledge(self._sock)

    def _receive_rest(
        self, conversation: Conversation, rest: memoryview, *, is_there: bool
    ) -> None:
        """A frame began. Its rest need not wait for another turn of the loop. That of a small one
        is there already, or is sent by a client near by while we acknowledge the first bytes; that
        of a large one arrived while the loop served other connections."""
        if not is_there and may_be_held_back(rest):
            acknowledge(self._sock)
        try:
            count = self._sock.recv_into(rest)
        except WOULD_BLOCK:
            return
        # EOF is reported again by the next read.
        if count:
            conversation.filled(count)

    def _gather(self, is_large: bool) -> None:
        """Let the kernel gather a large frame into large pieces. Turned off before the last piece,
        which may be small."""
        if self._sock.fileno() >= 0:
            self._low_water = is_large
            low_water = LARGE_PIECE_BYTES if is_large else 1
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)

    def pause_reading(self) -> None:
        if self._reading and self._sock.fileno() >= 0:
            self._reading = False
            self._listener.loop.remove_reader(self._sock.fileno())

    def resume_reading(self) -> None:
        # What was sent ahead may end in half a frame; its rest was not read before.
        self.progressed_at = now = monotonic()
        self._listener.busy_poll.touch(now)
        if not self._reading and self._sock.fileno() >= 0:
            self._reading = True
            self._listener.loop.add_reader(self._sock.fileno(), self._on_readable)

    # Writing.

    def send(self, reply: Reply) -> None:
        if self._outgoing is not None:
            self._outgoing.add(reply)
            return
        if not isinstance(reply, bytes):
            self._send_ranges(reply)
            return
        try:
            sent = self._sock.send(reply)
            if sent < len(reply):
                self._block(memoryview(reply)[sent:])
        except WOULD_BLOCK:
            self._block(reply)
        except Exception as fault:
            self._lose(fault)

    def _send_ranges(self, reply: RangesReply) -> None:
        outgoing = self._outgoing = SendQueue()
        try:
            outgoing.add(reply)
            outgoing.flush(self._sock, may_make=True)
        except WOULD_BLOCK:
            self._wait_for_room()
        except Exception as fault:
            self._lose(fault)
        else:
            if outgoing:
                self._wait_for_room()
            else:
                self._outgoing = None
                if reply.size >= LARGE_ANSWER_BYTES:
                    self._listener.busy_poll.expect_reading()

    def _block(self, piece: bytes | memoryview) -> None:
        self._outgoing = SendQueue((piece,))
        self._wait_for_room()

    def _wait_for_room(self) -> None:
        """The socket buffer is full: begin no request of this client until it drains."""
        self.conversation.blocked = True
        self.progressed_at = self._listener.loop.time()
        self._listener.loop.add_writer(self._sock.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        if self._outgoing is not None and self._outgoing.must_be_made:
            # Wait for others that came first.
            self._listener.loop.remove_writer(self._sock.fileno())
            self._listener.binary.turns.wait(self._turn_came)
        else:
            self._go_on_writing(may_make=False)

    def _turn_came(self) -> None:
        if self._sock.fileno() >= 0:
            self._listener.loop.add_writer(self._sock.fileno(), self._on_writable)
            self._go_on_writing(may_make=True)

    def _go_on_writing(self, *, may_make: bool) -> None:
        outgoing = self._outgoing
        if outgoing is None:
            return
        try:
            outgoing.flush(self._sock, may_make=may_make)
        except WOULD_BLOCK:
            self.progressed_at = self._listener.loop.time()
            return
        except Exception as fault:
            self._lose(fault)
            return
        if outgoing:
            self.progressed_at = self._listener.loop.time()
            return
        self._outgoing = None
        self._listener.loop.remove_writer(self._sock.fileno())
        # An answer that had to wait for room is a large one.
        self._listener.busy_poll.expect_reading()
        self._listener.busy_poll.touch(monotonic())
        if self._finishing:
            self._drain()
        else:
            self.conversation.unblocked()

    # Ending.

    def finish(self) -> None:
        self._finishing = True
        self.pause_reading()
        if not self._outgoing and not self.draining:
            self._drain()

    def _drain(self) -> None:
        """End the session, but not yet the connection: closing a socket with unread bytes resets
        it, and the peer would lose the last answer. So shut down our side and read until the peer
        has closed its own."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._close()
            return
        self.draining = True
        self.progressed_at = self._listener.loop.time()
        self._listener.loop.add_reader(self._sock.fileno(), self._on_leftovers)
        self._end_session()

    def _on_leftovers(self) -> None:
        try:
            count = self._sock.recv_into(self._listener.scratch)
        except WOULD_BLOCK:
            return
        except OSError:
            count = 0
        self._drained_bytes += count
        if not count or self._drained_bytes > DRAINED_BYTES_MAX:
            self._close()

    def _end_session(self) -> None:
        self.conversation.lost()
        self._listener.ended(self.session)

    def detach(self) -> Detached | None:
        session = self.session
        if self._outgoing or self._finishing or session.closing or session.stale:
            return None
        unread = self.conversation.detach()
        if unread is None:
            return None
        if session.socket is not None:
            session.socket.take_back()
        self._gather(is_large=False)
        self.pause_reading()
        self._listener.forget(self)
        # A new socket object: this connection must no longer be able to close the descriptor.
        return Detached(socket.socket(fileno=self._sock.detach()), session.record, unread)

    def give_up(self, reason: str) -> None:
        """Close it now, dropping pending requests and answers."""
        log.info("closing %s: %s", self.session.address, reason)
        self._close()

    @property
    def is_unfinished(self) -> bool:
        """Whether the peer has to act: finish a frame, read an answer, or close."""
        return self.conversation.inside_frame or bool(self._outgoing) or self.draining

    def stalled(self, before: float) -> bool:
        """Whether the peer has to act and nothing has moved since `before`."""
        return self.is_unfinished and self.progressed_at < before

    def end_if_reset(self) -> None:
        """Close if the socket has an error: the loop does not report one without data."""
        error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._lose(OSError(error, os.strerror(error)))

    def _lose(self, fault: Exception) -> None:
        """Close after a fault: the peer is gone, or the messages that it reads were deleted. Close
        after an internal error as well: the client would wait for its answer forever."""
        if not isinstance(fault, OSError | StorageFailure):
            log.exception("serving %s failed", self.session.address, exc_info=fault)
        elif not isinstance(fault, OSError) or fault.errno not in (errno.ECONNRESET, errno.EPIPE):
            log.info("lost %s: %s", self.session.address, fault)
        self._close()

    def _close(self) -> None:
        fileno = self._sock.fileno()
        if fileno < 0:
            return
        loop = self._listener.loop
        loop.remove_reader(fileno)
        loop.remove_writer(fileno)
        lent = self.session.socket
        if lent is not None and lent.numbers:
            # The connection would stay open as long as another shard has the socket.
            lent.take_back()
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        # Whatever still refers to the connection must not keep its answers in memory.
        self._outgoing = None
        if not self.draining:
            self._end_session()
        self._listener.forget(self)


class TcpListener:
    """Accepts connections and keeps them until they end."""

    transport = TransportKind.TCP

    def __init__(
        self,
        sock: socket.socket,
        *,
        binary: BinaryProtocol,
        pool: MemoryPool,
        admission: Admission,
        options: SocketOptions,
        on_connect: Callable[[Session], None],
        on_disconnect: Callable[[Session], None],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.binary = binary
        self.pool = pool
        self.busy_poll = BusyPoll(self.loop)
        self._receive_buffer = pool.acquire(RECEIVE_BUFFER_BYTES)
        self.scratch = self._receive_buffer.view[:RECEIVE_BYTES]
        self.connections: set[TcpConnection] = set()
        self._closed = False
        self._admission = admission
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._acceptor = Acceptor(
            sock, admission=admission, prepare=options.apply, welcome=self._welcome
        )
        self.address = self._acceptor.address

    def lend(self, size: int) -> PooledBuffer | None:
        """The receive buffer, if it has this size, and if there is another one to receive into from
        now on: a buffer must not have two owners."""
        lent = self._receive_buffer
        if size > lent.capacity:
            return None
        try:
            self._receive_buffer = self.pool.acquire(RECEIVE_BUFFER_BYTES)
        except MemoryError:
            return None
        self.scratch = self._receive_buffer.view[:RECEIVE_BYTES]
        return lent

    def _welcome(self, sock: socket.socket, peer: Peer) -> None:
        address = peer_text(peer)
        session = Session(
            client_id_of(address), address, self.transport, lambda: None, self.loop.time()
        )
        self._begin(sock, session)

    def _begin(self, sock: socket.socket, session: Session) -> TcpConnection:
        connection = self._connection(sock, session)
        self.connections.add(connection)
        return connection

    def _connection(self, sock: socket.socket, session: Session) -> TcpConnection:
        connection = TcpConnection(self, sock, session)
        session.socket = ClientSocket(sock)
        self.opened(session)
        return connection

    def opened(self, session: Session) -> None:
        """Start the session of a connection."""
        self._on_connect(session)

    def adopt(self, detached: Detached) -> TcpConnection | None:
        if not self._admission.admit(host_of(detached.record.address)):
            detached.sock.close()
            return None
        detached.sock.setblocking(False)
        connection = self._begin(detached.sock, Session.restored(detached.record))
        connection.conversation.feed(memoryview(detached.unread))
        return connection

    def ended(self, session: Session) -> None:
        """The session of a connection has ended."""
        self._on_disconnect(session)

    def forget(self, connection: TcpConnection) -> None:
        """Count out a socket that was closed or moved to another process."""
        if connection in self.connections:
            self.connections.discard(connection)
            self._acceptor.leave(host_of(connection.session.address))

    def give_up_stalled(self, before: float) -> None:
        """Also finds connections whose reset went unnoticed."""
        for connection in [one for one in self.connections if one.is_unfinished]:
            connection.end_if_reset()
        for connection in [one for one in self.connections if one.stalled(before)]:
            connection.give_up("it stopped in the middle of a frame")

    def stop_accepting(self) -> None:
        self._acceptor.stop()

    def say_goodbye(self, farewell: bytes) -> None:
        for connection in list(self.connections):
            connection.conversation.hang_up(farewell)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.stop_accepting()
        for connection in list(self.connections):
            connection.give_up("the server stops")
        self.pool.release(self._receive_buffer)
