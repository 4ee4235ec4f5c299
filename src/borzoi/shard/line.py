"""Envelopes over the socket to one peer: sent in order of urgency, received as they arrive.

What is sent in one turn of the event loop leaves in one system call at its end. An envelope that is
sent `at_once`, or answers the only one that arrived, leaves immediately.
Urgent envelopes go first; a large body goes in fragments, with other envelopes in between.
"""

import asyncio
import os
import socket
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from borzoi.model.errors import InvalidFormat
from borzoi.shard.envelopes import (
    DESCRIPTORS_MAX,
    HEAD,
    Bytes,
    Decoder,
    Envelope,
    encode_fragments,
)
from borzoi.shard.links import Peer

#: One read of the socket, and about one write.
PIECE_BYTES: Final = 256 * 1024
#: Up to this size joining head and body is cheaper than two buffers.
JOINED_BYTES_MAX: Final = 4096
#: Buffers of one write; the kernel's limit is 1024.
BUFFERS_MAX: Final = 256
ANCILLARY_BYTES: Final = socket.CMSG_SPACE(253 * array("i").itemsize)

WOULD_BLOCK: Final = (BlockingIOError, InterruptedError)
#: As plain numbers: an operation on the enumeration takes a microsecond.
TRUNCATED: Final = int(socket.MSG_CTRUNC)
CLOSE_ON_EXEC: Final = int(socket.MSG_CMSG_CLOEXEC)

_pack_head: Final = HEAD.pack


class _Outgoing(msgspec.Struct, eq=False):
    """The unsent fragments of one envelope that is large or has descriptors."""

    fragments: Iterator[tuple[bytes, Bytes]]
    descriptors: Sequence[int]


class PeerLine:
    """The socket to a live peer."""

    def __init__(
        self,
        peer: Peer,
        *,
        on_envelope: Mapping[int, Callable[[Envelope], None]],
        on_drained: Callable[[], None],
        on_lost: Callable[[OSError | None], None],
    ) -> None:
        self.peer = peer
        self.is_open = True
        #: Unsent bytes of bodies.
        self.untaken_bytes = 0
        self._on_envelope = on_envelope
        self._on_drained = on_drained
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._sock = peer.socket
        self._decoder = Decoder()
        self._scratch = memoryview(bytearray(PIECE_BYTES))
        self._into = (self._scratch,)
        # Looked up once: every request takes both.
        self._send = self._sock.send
        self._receive = self._sock.recvmsg_into
        self._urgent: deque[bytes | _Outgoing] = deque()
        self._bulk: deque[bytes | _Outgoing] = deque()
        #: The buffers being written, and the descriptors that go with their first byte.
        self._buffers: list[Bytes] = []
        self._descriptors: list[int] = []
        self._is_scheduled = False
        self._is_blocked = False
        #: Whether what is sent now is all there is to send in this turn.
        self.is_last = False
        self._sock.setblocking(False)
        self._loop.add_reader(self._sock.fileno(), self._on_readable)

    # Sending.

    def send(self, envelope: Envelope, *, urgent: bool, at_once: bool = False) -> None:
        """Queue an envelope. The line owns its descriptors from now on, and closes them. With
        `at_once` it sends what is queued now, not at the end of the turn."""
        body, descriptors = envelope.body, envelope.descriptors
        if not self.is_open:
            close_all(descriptors)
            return
        size = len(body)
        outgoing: bytes | _Outgoing
        if size <= JOINED_BYTES_MAX and not descriptors:
            head = _pack_head(size, envelope.number, envelope.kind, envelope.subject, 0, 0)
            outgoing = head + body
        else:
            outgoing = _Outgoing(encode_fragments(envelope), descriptors)
        (self._urgent if urgent else self._bulk).append(outgoing)
        self.untaken_bytes += size
        if self._is_blocked:
            return
        if at_once:
            self._flush()
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def send_now(self, kind: int, subject: int, number: int, body: Bytes) -> None:
        """Send an envelope of at most `JOINED_BYTES_MAX`, without descriptors, before the turn of
        the loop ends. Most are alone: neither queued nor gathered."""
        if self._bulk or self._urgent or self._buffers or not self.is_open:
            self.send(Envelope(kind, subject, number, body), urgent=False, at_once=True)
            return
        packet = _pack_head(len(body), number, kind, subject, 0, 0) + body
        try:
            sent = self._send(packet)
        except WOULD_BLOCK:
            sent = 0
        except OSError as fault:
            self.lose(fault)
            return
        if sent < len(packet):
            self._buffers = [memoryview(packet)[sent:]]
            self._flush()

    def _flush(self) -> None:
        """Send until nothing is left or the socket would block."""
        self._is_scheduled = False
        try:
            while self.is_open and (self._buffers or self._urgent or self._bulk):
                if not self._buffers:
                    self._gather()
                self._write()
        except WOULD_BLOCK:
            if not self._is_blocked:
                self._is_blocked = True
                self._loop.add_writer(self._sock.fileno(), self._flush)
            return
        except OSError as fault:
            self.lose(fault)
            return
        if self._is_blocked and self.is_open:
            self._is_blocked = False
            self._loop.remove_writer(self._sock.fileno())
        if self.is_open:
            self._on_drained()

    def _gather(self) -> None:
        """Collect the buffers of the next write: urgent envelopes, then the rest."""
        buffers, size = self._buffers, 0
        for lane in (self._urgent, self._bulk):
            while lane and size < PIECE_BYTES and len(buffers) < BUFFERS_MAX:
                outgoing = lane[0]
                if isinstance(outgoing, bytes):
                    lane.popleft()
                    buffers.append(outgoing)
                    size += len(outgoing)
                    self.untaken_bytes -= len(outgoing) - HEAD.size
                    continue
                if len(self._descriptors) + len(outgoing.descriptors) > DESCRIPTORS_MAX:
                    return
                fragment = next(outgoing.fragments, None)
                if fragment is None:
                    lane.popleft()
                    continue
                self._descriptors += outgoing.descriptors
                outgoing.descriptors = ()
                buffers += fragment
                size += len(fragment[1])
                self.untaken_bytes -= len(fragment[1])

    def _write(self) -> None:
        buffers, descriptors = self._buffers, self._descriptors
        if len(buffers) == 1 and not descriptors:
            sent = self._sock.send(buffers[0])
        elif descriptors:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))
            sent = self._sock.sendmsg(buffers, [rights])
            close_all(descriptors)
            self._descriptors = []
        elif buffers:
            sent = self._sock.sendmsg(buffers)
        else:
            return
        done = 0
        while done < len(buffers) and sent >= len(buffers[done]):
            sent -= len(buffers[done])
            done += 1
        self._buffers = buffers[done:]
        if sent:
            self._buffers[0] = memoryview(self._buffers[0])[sent:]

    # Receiving.

    def _on_readable(self) -> None:
        try:
            count, ancillary, flags, _ = self._receive(self._into, ANCILLARY_BYTES, CLOSE_ON_EXEC)
        except WOULD_BLOCK:
            return
        except OSError as fault:
            self.lose(fault)
            return
        if not count:
            self.lose(None)
            return
        descriptors = _descriptors_in(ancillary) if ancillary else ()
        try:
            if flags & TRUNCATED:
                close_all(descriptors)
                raise InvalidFormat("descriptors were lost: this process has too many open")
            found = self._decoder.feed(self._scratch[:count], descriptors)
        except InvalidFormat as fault:
            self.lose(OSError(str(fault)))
            return
        # Send immediate answers now, without another turn of the loop.
        self._is_scheduled, was_scheduled = True, self._is_scheduled
        self.is_last = len(found) == 1
        for envelope in found:
            self._on_envelope[envelope.kind](envelope)
        self._is_scheduled, self.is_last = was_scheduled, False
        if self.is_open and not self._is_blocked and (self._urgent or self._bulk):
            self._flush()

    # The end.

    def lose(self, fault: OSError | None) -> None:
        """The peer has died: close everything, and report it once."""
        if self.close():
            self._on_lost(fault)

    def close(self) -> bool:
        """Close; return whether it was open."""
        if not self.is_open:
            return False
        self.is_open = False
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        for outgoing in (*self._urgent, *self._bulk):
            if isinstance(outgoing, _Outgoing):
                close_all(outgoing.descriptors)
        self._urgent.clear()
        self._bulk.clear()
        close_all(self._descriptors)
        self._descriptors = []
        self._buffers = []
        close_all(self._decoder.unclaimed())
        return True


def close_all(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _descriptors_in(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    found = array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return found.tolist()
