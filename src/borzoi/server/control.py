"""The connection of a shard to its supervisor."""

import asyncio
import os
import socket
from collections.abc import Mapping

from borzoi.server.control_messages import (
    Addresses,
    AddressesBound,
    AllReady,
    Begin,
    Close,
    Drained,
    PeerJoined,
    PeerLost,
    Ready,
    Stop,
    StopAsked,
    ToSupervisor,
    decode_to_shard,
    encode,
    receive,
    send,
)
from borzoi.shard.links import Links, Peer


class SupervisorGone(Exception):
    """The supervisor's connection ended before the first message."""


def begun(sock: socket.socket) -> tuple[Begin, Links]:
    """Receive the role of this process and its links to the others; waits for the supervisor."""
    begin, descriptors = _next(sock)
    assert isinstance(begin, Begin), "the first message is Begin"
    links = Links(begin.shard, begin.count, descriptors[0])
    for _ in range(begin.peers):
        message, descriptors = _next(sock)
        match message:
            case PeerJoined(shard):
                links.add(_peer(shard, descriptors))
            case PeerLost(shard):
                links.remove(shard)
            case _:
                raise AssertionError(f"{message} came before all peers")
    return begin, links


def _next(sock: socket.socket) -> tuple[object, list[int]]:
    packet, descriptors = receive(sock)
    if not packet:
        raise SupervisorGone
    return decode_to_shard(packet), descriptors


def _peer(shard: int, descriptors: list[int]) -> Peer:
    connection, arena = descriptors
    return Peer(shard, socket.socket(fileno=connection), arena)


class ShardControl:
    """The shard's side of the connection. If the supervisor dies, the shard stops."""

    def __init__(self, sock: socket.socket, *, first_start: bool) -> None:
        self._socket = sock
        #: Whether the whole server is starting; otherwise this shard replaces one that died.
        self.first_start = first_start
        self._links: Links | None = None
        #: Changes of peers that arrived before `report_to`.
        self._backlog: list[Peer | int] = []
        self._addresses: Addresses = {}
        self._bound = asyncio.Event()
        #: Also set by a stop, so that nothing waits for ever.
        self._start_decided = asyncio.Event()
        self._all_ready = False
        self._stop = asyncio.Event()
        self._close = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._readable)

    def attach(self, links: Links) -> None:
        """Report changes of peers to these links from now on."""
        self._links = links
        backlog, self._backlog = self._backlog, []
        for change in backlog:
            self._deliver(change)

    def ready(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """Report that every listener of this shard accepts."""
        self._send(Ready(dict(addresses)))

    async def bound(self) -> Mapping[str, tuple[str, int]]:
        """Return where shard 0 listens, by section of the settings."""
        await self._bound.wait()
        return self._addresses

    async def all_ready(self) -> bool:
        """Wait until every shard is ready; False if the server has to stop before that."""
        await self._start_decided.wait()
        return self._all_ready

    async def stopped(self) -> None:
        """Wait until the server has to stop."""
        await self._stop.wait()

    async def drained(self) -> None:
        """Report that nothing is pending here; return when that is true of every shard."""
        self._send(Drained())
        await self._close.wait()

    def ask_stop(self) -> None:
        """A signal reached this process: stop the whole server."""
        self._send(StopAsked())

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for change in self._backlog:
            if isinstance(change, Peer):
                change.close()

    def _send(self, message: ToSupervisor) -> None:
        try:
            send(self._socket, encode(message))
        except ConnectionError:
            self._supervisor_gone()

    def _readable(self) -> None:
        try:
            packet, descriptors = receive(self._socket, wait=False)
        except BlockingIOError:
            return
        except ConnectionError:
            packet, descriptors = b"", []
        if packet:
            self._received(packet, descriptors)
        else:
            self._loop.remove_reader(self._socket.fileno())
            self._supervisor_gone()

    def _received(self, packet: bytes, descriptors: list[int]) -> None:
        match decode_to_shard(packet):
            case PeerJoined(shard):
                self._deliver(_peer(shard, descriptors))
            case PeerLost(shard):
                self._deliver(shard)
            case AddressesBound(addresses):
                self._addresses = addresses
                self._bound.set()
            case AllReady():
                self._all_ready = True
                self._start_decided.set()
            case Stop():
                self._stop.set()
                self._start_decided.set()
            case Close():
                self._close.set()
            case Begin():
                for descriptor in descriptors:
                    os.close(descriptor)
                raise AssertionError("a shard begins once")

    def _deliver(self, change: Peer | int) -> None:
        if self._links is None:
            self._backlog.append(change)
        elif isinstance(change, Peer):
            # A replaced peer is reported lost first.
            self._links.on_peer_lost(change.shard)
            self._links.on_peer(change)
        else:
            self._links.on_peer_lost(change)

    def _supervisor_gone(self) -> None:
        self._stop.set()
        self._start_decided.set()
        self._close.set()
