"""TCP, plain and inside TLS, with blocking calls.

A plain socket stays in blocking mode, and the kernel enforces the timeout. A frame is then sent
with one system call, and a large answer received with one. `settimeout` would make the socket
non-blocking: every piece would take a poll and a call of its own.
"""

import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from borzoi.client.options import Address, Options
from borzoi.client.receiving import AnswerReceiver
from borzoi.client.transports.faults import anew, cannot_connect, late, lost, server_hostname
from borzoi.client.transports.interface import Wire
from borzoi.client.transports.tcp import readable, unsent
from borzoi.client.transports.tls import context_of
from borzoi.model.errors import BorzoiError, ClientClosed
from borzoi.protocol.buffers import Buffer
from borzoi.protocol.framing import ResponseFrame

#: A system call blocks this long at most. Changing the timeout is a system call too, so it stays
#: the same until less time than this remains.
WAIT_SECONDS_MAX: Final = 1.0

#: The C struct `timeval`.
TIMEVAL: Final = struct.Struct("@ll")


class KernelTimeout:
    """How long the blocking calls of one direction may take."""

    __slots__ = ("_option", "_seconds", "_sock")

    def __init__(self, sock: socket.socket, option: int) -> None:
        self._sock = sock
        self._option = option
        self._seconds = 0.0

    def limit(self, seconds: float) -> None:
        """Let the next call block for `seconds`, at most for `WAIT_SECONDS_MAX`."""
        wanted = min(seconds, WAIT_SECONDS_MAX)
        if wanted != self._seconds:
            # Zero would disable the timeout.
            microseconds = max(round(wanted * 1_000_000), 1)
            timeval = TIMEVAL.pack(*divmod(microseconds, 1_000_000))
            self._sock.setsockopt(socket.SOL_SOCKET, self._option, timeval)
            self._seconds = wanted


class _Ticket:
    """A request that was sent, and its answer once received."""

    __slots__ = ("answer", "fault")

    def __init__(self) -> None:
        self.answer: ResponseFrame | None = None
        self.fault: BaseException | None = None


class TcpTransport:
    """A connection with blocking calls.

    A thread sends under one lock and receives under another. The thread
    that receives also takes the answers of the threads waiting behind it, so requests of several
    threads overlap without a thread of our own.
    """

    def __init__(self, sock: socket.socket, address: Address, wire: Wire) -> None:
        self._sock = sock
        self._address = address
        self._wire = wire
        self._sent: deque[_Ticket] = deque()
        self._fault: BorzoiError | None = None
        self._is_opened = False
        self._is_plain = not isinstance(sock, ssl.SSLSocket)
        if self._is_plain:
            sock.settimeout(None)
        self._send_timeout = KernelTimeout(sock, socket.SO_SNDTIMEO)
        self._receive_timeout = KernelTimeout(sock, socket.SO_RCVTIMEO)
        self._poller = readable(sock.fileno())
        self._sending = threading.Lock()
        # A TLS connection has one state for both directions.
        self._receiving = threading.Lock() if self._is_plain else self._sending

    @classmethod
    def connect(
        cls, address: Address, options: Options, wire: Wire | None = None
    ) -> "TcpTransport":
        """A connection to the address; `CannotConnect` when there is none in time."""
        until = time.monotonic() + options.connect_timeout
        context = context_of(options.tls) if options.tls else None
        try:
            sock = socket.create_connection((address.host, address.port), options.connect_timeout)
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if context is not None:
                    sock = context.wrap_socket(
                        sock, server_hostname=server_hostname(address, options)
                    )
            except BaseException:
                sock.close()
                raise
            transport = cls(sock, address, AnswerReceiver(address) if wire is None else wire)
            try:
                transport._open(until)
            except BaseException:
                transport.close()
                raise
        except (OSError, ssl.SSLError) as fault:
            raise cannot_connect(address, fault) from fault
        return transport

    def _open(self, until: float) -> None:
        if self._wire.opening:
            self._send([self._wire.opening], until)
            while not self._wire.is_open:
                self._receive(until)
        self._is_opened = True

    @property
    def is_open(self) -> bool:
        if self._fault is None and self._is_plain and self._has_ended():
            self._end(lost(self._address))
        return self._fault is None

    def exchange(self, parts: Sequence[Buffer], timeout: float) -> ResponseFrame:
        until = time.monotonic() + timeout
        ticket = _Ticket()
        try:
            with self._held(self._sending, until):
                if self._fault is not None:
                    raise anew(self._fault)
                try:
                    parts = self._wire.outgoing(parts)
                except BorzoiError as unsaid:
                    # Nothing was sent, and the connection is unchanged.
                    ticket.fault = unsaid
                else:
                    self._sent.append(ticket)
                    self._send(parts, until)
            with self._held(self._receiving, until):
                while ticket.answer is None and ticket.fault is None:
                    self._receive(until)
        except TimeoutError:
            self._end(lost(self._address, late(self._address, timeout)))
            raise late(self._address, timeout) from None
        except OSError as fault:
            self._end(lost(self._address, fault))
            raise anew(self._fault or lost(self._address)) from fault
        except BaseException:
            self._end(lost(self._address))
            raise
        if ticket.answer is None:
            assert ticket.fault is not None
            raise ticket.fault
        return ticket.answer

    def close(self) -> None:
        self._end(ClientClosed("the client was closed"))

    def _has_ended(self) -> bool:
        """Whether the server closed an idle connection, or announced it: nothing else can be
        readable then. While another thread sends, the connection is not idle."""
        if not self._sending.acquire(blocking=False):
            return False
        try:
            return not self._sent and bool(self._poller.poll(0))
        finally:
            self._sending.release()

    @contextmanager
    def _held(self, lock: threading.Lock, until: float) -> Iterator[None]:
        if not lock.acquire(timeout=self._left(until)):
            raise TimeoutError
        try:
            yield
        finally:
            lock.release()

    def _send(self, parts: Sequence[Buffer], until: float) -> None:
        if not self._is_plain:
            self._sock.settimeout(self._left(until))
            self._sock.sendall(b"".join(parts))
            return
        rest = parts
        while rest:
            self._send_timeout.limit(self._left(until))
            with suppress(BlockingIOError):
                rest = unsent(rest, self._sock.sendmsg(rest))

    def _receive(self, until: float) -> None:
        """Receive what has arrived, or the rest of an answer that has begun; maybe nothing yet."""
        space, missing = self._wire.space(), self._wire.missing
        try:
            if self._is_plain:
                self._receive_timeout.limit(self._left(until))
                count = self._sock.recv_into(space, missing, socket.MSG_WAITALL if missing else 0)
            else:
                self._sock.settimeout(self._left(until))
                count = self._sock.recv_into(space)
        except BlockingIOError:
            return  # the timeout of the kernel; the next call checks ours
        if not count:
            raise anew(self._fault or lost(self._address))
        answers = self._wire.received(count)
        if self._wire.unasked:
            self._say(self._wire.take_unasked(), until)
        for answer in answers:
            try:
                ticket = self._sent.popleft()
            except IndexError:
                # Servers send this unasked before they close.
                raise lost(self._address) from None
            ticket.answer = answer
        if self._is_opened and not self._wire.is_open:
            self._end(lost(self._address))

    def _say(self, unasked: bytes, until: float) -> None:
        """Send what the protocol itself requires while this thread receives."""
        if self._receiving is self._sending:
            self._send([unasked], until)
            return
        with self._held(self._sending, until):
            self._send([unasked], until)

    def _left(self, until: float) -> float:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _end(self, fault: BorzoiError) -> None:
        """Close the connection once; every pending call raises the first reason."""
        if self._fault is None:
            self._fault = fault
            # Wakes a thread blocked in a receive; closing alone would not.
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
            self._sock.close()
        while self._sent:
            with suppress(IndexError):
                self._sent.popleft().fault = anew(self._fault)
