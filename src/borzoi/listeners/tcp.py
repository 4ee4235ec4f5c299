"""TCP without a transport in between: raw sockets on the event loop.

`recv_into` puts large frames where they will stay, `sendfile` sends stored messages from the page
cache, and an answer leaves in the same turn in which its request was complete; none of that is
possible through asyncio's transports. TLS needs them (`listeners/tls.py`).
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable, Iterable

import msgspec

from borzoi.handlers.sessions import Session
from borzoi.listeners.accepting import WOULD_BLOCK, Acceptor, Peer
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import BinaryProtocol, RangesReply, Reply
from borzoi.listeners.connection import Conversation
from borzoi.listeners.lingering import Lingering
from borzoi.memory.pool import MemoryPool, PooledBuffer
from borzoi.model.identifiers import client_id_of
from borzoi.model.system import Transport
from borzoi.storage.media import File

log = logging.getLogger(__name__)

#: What one read asks for when no frame is under way: requests are taken from it before the next.
RECEIVE_BYTES = 64 * 1024
#: A frame of up to this size stays where its first bytes were received.
RECEIVE_BUFFER_BYTES = 256 * 1024
#: While a large frame arrives, wake up for pieces of this size, not for every segment.
LARGE_PIECE_BYTES = 128 * 1024
#: One turn moves at most this much of a poll, so that one reader does not own the loop.
SENDFILE_BYTES_MAX = 8 * 1024 * 1024
#: What is still read, and thrown away, from a peer that was told good-bye.
PARTING_BYTES_MAX = 64 * 1024 * 1024


class SocketOptions(msgspec.Struct, frozen=True):
    """What each accepted socket is told; None leaves the kernel's choice."""

    recv_buffer_bytes: int | None = None
    send_buffer_bytes: int | None = None
    keepalive: bool = False
    nodelay: bool = True
    linger_seconds: int | None = None

    def apply(self, sock: socket.socket) -> None:
        if self.recv_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.recv_buffer_bytes)
        if self.send_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer_bytes)
        if self.keepalive:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.nodelay:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.linger_seconds is not None:
            value = self.linger_seconds.to_bytes(4, "little")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0" + value)


def listening_socket(address: tuple[str, int], *, dual_stack: bool = False) -> socket.socket:
    """A socket that listens at the address, shareable by the shards of one server."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual_stack else 1)
        sock.bind((host, port))
        sock.listen(1024)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def peer_text(peer: Peer) -> str:
    """The peer's address as clients know it: it is what their id is the hash of."""
    host, port = peer[0], peer[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Rest(msgspec.Struct):
    """What is left to send of a range. Holding it keeps the file open."""

    file: File
    position: int
    length: int


class TcpConnection:
    """One accepted socket, its conversation, and what could not be sent yet."""

    __slots__ = (
        "_finishing",
        "_listener",
        "_low_water",
        "_outgoing",
        "_parting_bytes",
        "_reading",
        "_sock",
        "conversation",
        "parting",
        "progressed_at",
        "session",
    )

    def __init__(self, listener: "TcpListener", sock: socket.socket, session: Session) -> None:
        self._listener = listener
        self._sock = sock
        self.session = session
        self.conversation = Conversation(session, listener.binary, self, listener.pool)
        #: Pieces of replies that the socket did not take yet.
        self._outgoing: list[bytes | memoryview | _Rest] = []
        self._finishing = False
        self._reading = True
        self._low_water = False
        #: The last answer has left, the session is over; we wait for the peer to close as well.
        self.parting = False
        self._parting_bytes = 0
        #: Monotonic seconds of the last byte that moved; a frame that stands still is given up.
        self.progressed_at = session.pinged_at
        listener.loop.add_reader(sock.fileno(), self._on_readable)

    # Reading.

    def _on_readable(self) -> None:
        conversation = self.conversation
        target = conversation.wanted
        try:
            if target is not None:
                count = self._sock.recv_into(target)
                if count:
                    conversation.filled(count)
            else:
                scratch = self._listener.scratch
                count = self._sock.recv_into(scratch)
                if count:
                    self._received(conversation, scratch[:count])
        except WOULD_BLOCK:
            return
        except OSError as fault:
            self._lose(fault)
            return
        except Exception:
            self._fail()
            return
        if not count:
            if conversation.input_ended():
                self.pause_reading()  # the end of the input stays readable
            else:
                self._lose(None)
            return
        self._listener.lingering.touch()
        if conversation.inside_frame or self._low_water:
            self._tune(conversation)

    def _received(self, conversation: Conversation, data: memoryview) -> None:
        """Something begins. The rest of a frame that is not large has as a rule arrived while its
        first bytes were looked at, and need not wait for another turn of the loop."""
        listener = self._listener
        if conversation.received(data, listener.lent_buffer()):
            listener.change_buffers()
        rest = conversation.wanted
        if rest is not None and len(rest) <= 2 * LARGE_PIECE_BYTES:
            try:
                count = self._sock.recv_into(rest)
            except WOULD_BLOCK:
                return
            # The end of the input is found again by the next read.
            if count:
                conversation.filled(count)

    def _tune(self, conversation: Conversation) -> None:
        """Ask the kernel to gather a large frame into large pieces, and to stop doing so before the
        last piece, which may be small."""
        wanted = conversation.wanted
        self.progressed_at = self._listener.loop.time()
        large = wanted is not None and len(wanted) > 2 * LARGE_PIECE_BYTES
        if large != self._low_water and self._sock.fileno() >= 0:
            self._low_water = large
            low_water = LARGE_PIECE_BYTES if large else 1
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)

    def pause_reading(self) -> None:
        if self._reading and self._sock.fileno() >= 0:
            self._reading = False
            self._listener.loop.remove_reader(self._sock.fileno())

    def resume_reading(self) -> None:
        # What was sent ahead may end in half a frame, and the rest of it was not asked for before.
        self.progressed_at = self._listener.loop.time()
        if not self._reading and self._sock.fileno() >= 0:
            self._reading = True
            self._listener.loop.add_reader(self._sock.fileno(), self._on_readable)

    # Writing.

    def send(self, reply: Reply) -> None:
        if self._outgoing:
            self._queue(reply)
            return
        try:
            if isinstance(reply, bytes):
                sent = self._sock.send(reply)
                if sent < len(reply):
                    self._block([memoryview(reply)[sent:]])
            else:
                self._queue(reply)
                self._flush()
                if self._outgoing:
                    self._block([])
        except WOULD_BLOCK:
            self._block([reply] if isinstance(reply, bytes) else [])
        except OSError as fault:
            self._lose(fault)
        except Exception:
            self._fail()

    def _queue(self, reply: Reply) -> None:
        if isinstance(reply, RangesReply):
            self._outgoing.append(reply.head)
            self._outgoing.extend(_Rest(*part) for part in reply.ranges)
            self._outgoing.extend(reply.tail)
        else:
            self._outgoing.append(reply)

    def _block(self, pieces: Iterable[bytes | memoryview]) -> None:
        """The peer does not take more: nothing new is begun for it until it does."""
        self._outgoing.extend(pieces)
        self.conversation.blocked = True
        self.progressed_at = self._listener.loop.time()
        self._listener.loop.add_writer(self._sock.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        try:
            self._flush()
        except WOULD_BLOCK:
            self.progressed_at = self._listener.loop.time()
            return
        except OSError as fault:
            self._lose(fault)
            return
        except Exception:
            self._fail()
            return
        if self._outgoing:
            self.progressed_at = self._listener.loop.time()
            return
        self._listener.loop.remove_writer(self._sock.fileno())
        if self._finishing:
            self._part()
        else:
            self.conversation.unblocked()

    def _flush(self) -> None:
        """Send pieces until there are none, until it is somebody else's turn, or until the socket
        would block (which it raises)."""
        outgoing = self._outgoing
        room = SENDFILE_BYTES_MAX
        while outgoing and room > 0:
            piece = outgoing[0]
            if isinstance(piece, _Rest):
                sent = os.sendfile(
                    self._sock.fileno(),
                    piece.file.fileno(),
                    piece.position,
                    min(piece.length, room),
                )
                if not sent:
                    raise OSError(errno.EIO, "a stored range ended early")
                room -= sent
                piece.position += sent
                piece.length -= sent
                if piece.length:
                    continue
            else:
                more = socket.MSG_MORE if len(outgoing) > 1 else 0
                sent = self._sock.send(piece, more)
                if sent < len(piece):
                    outgoing[0] = memoryview(piece)[sent:]
                    continue
            outgoing.pop(0)

    # Ending.

    def finish(self) -> None:
        self._finishing = True
        self.pause_reading()
        if not self._outgoing and not self.parting:
            self._part()

    def _part(self) -> None:
        """The session is over, but a socket that is closed with unread bytes takes back what it
        sent last: so say that nothing more comes, and read on until the peer has heard it."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._close()
            return
        self.parting = True
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
        self._parting_bytes += count
        if not count or self._parting_bytes > PARTING_BYTES_MAX:
            self._close()

    def _end_session(self) -> None:
        self.conversation.lost()
        self._listener.ended(self.session)

    def give_up(self, reason: str) -> None:
        """End it now; whatever was under way is lost."""
        log.info("closing %s: %s", self.session.address, reason)
        self._close()

    @property
    def is_unfinished(self) -> bool:
        """Whether something was begun that the peer has to go on with."""
        return self.conversation.inside_frame or bool(self._outgoing) or self.parting

    def stalled(self, before: float) -> bool:
        """Whether something begun has not moved since the moment."""
        return self.is_unfinished and self.progressed_at < before

    def end_if_reset(self) -> None:
        """The loop does not call the reader of a socket that has nothing to read but an error."""
        error = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._lose(OSError(error, os.strerror(error)))

    def _lose(self, fault: OSError | None) -> None:
        if fault is not None and fault.errno not in (errno.ECONNRESET, errno.EPIPE):
            log.info("lost %s: %s", self.session.address, fault)
        self._close()

    def _fail(self) -> None:
        """A fault of ours inside a callback of the loop. It would be logged and forgotten, and the
        client would wait for ever for an answer that is lost."""
        log.exception("serving %s failed", self.session.address)
        self._close()

    def _close(self) -> None:
        fileno = self._sock.fileno()
        if fileno < 0:
            return
        loop = self._listener.loop
        loop.remove_reader(fileno)
        loop.remove_writer(fileno)
        self._sock.close()
        if not self.parting:
            self._end_session()
        self._listener.forget(self)


class TcpListener:
    """Accepts connections and keeps them until they end."""

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
        self.lingering = Lingering(self.loop)
        self._receiving = pool.acquire(RECEIVE_BUFFER_BYTES)
        self._spare: PooledBuffer | None = None
        self.scratch = self._receiving.view[:RECEIVE_BYTES]
        self.connections: set[TcpConnection] = set()
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._acceptor = Acceptor(
            sock, admission=admission, prepare=options.apply, welcome=self._welcome
        )
        self.address = self._acceptor.address

    def lent_buffer(self) -> PooledBuffer | None:
        """The buffer that was received into, for who needs to keep it; none while there is no
        memory for another one to receive into, because a buffer must not have two owners."""
        if self._spare is None:
            try:
                self._spare = self.pool.acquire(RECEIVE_BUFFER_BYTES)
            except MemoryError:
                return None
        return self._receiving

    def change_buffers(self) -> None:
        """Somebody has kept the buffer that was lent."""
        assert self._spare is not None
        self._receiving, self._spare = self._spare, None
        self.scratch = self._receiving.view[:RECEIVE_BYTES]

    def _welcome(self, sock: socket.socket, peer: Peer) -> None:
        address = peer_text(peer)
        session = Session(
            client_id_of(address), address, Transport.TCP, lambda: None, self.loop.time()
        )
        connection = TcpConnection(self, sock, session)
        session.hang_up = connection.conversation.hang_up
        self.connections.add(connection)
        self._on_connect(session)

    def ended(self, session: Session) -> None:
        """Nobody speaks through the session any more."""
        self._on_disconnect(session)

    def forget(self, connection: TcpConnection) -> None:
        """The socket is closed: there is room for another one."""
        if connection in self.connections:
            self.connections.discard(connection)
            self._acceptor.leave(host_of(connection.session.address))

    def give_up_stalled(self, before: float) -> None:
        """Close connections that began something and stopped in the middle of it, and those of
        peers that are gone."""
        for connection in [one for one in self.connections if one.is_unfinished]:
            connection.end_if_reset()
        for connection in [one for one in self.connections if one.stalled(before)]:
            connection.give_up("it stopped in the middle of a frame")

    def stop_accepting(self) -> None:
        self._acceptor.stop()

    def say_goodbye(self, farewell: bytes) -> None:
        """Tell every client that the server stops, and close; who waits for an answer gets that
        instead, so that nobody takes the one for the other."""
        for connection in list(self.connections):
            connection.conversation.hang_up(farewell)

    def close(self) -> None:
        """Close what is still open, whatever it is in the middle of."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.give_up("the server stops")
        for buffer in (self._receiving, self._spare):
            if buffer is not None:
                self.pool.release(buffer)


def host_of(address: str) -> str:
    """The host of ``host:port`` or ``[host]:port``."""
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")
