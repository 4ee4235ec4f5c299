"""Accepting connections, within the limits.

A connection counts from the moment it is accepted: before its login or its handshake it costs a
descriptor like any other.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TypeAlias

from borzoi.listeners.admission import Admission

log = logging.getLogger(__name__)

#: Connections accepted in one turn of the loop, so that a flood does not starve established ones.
ACCEPTED_PER_TURN = 64
#: Delay before accepting again when the process is out of descriptors.
ACCEPT_AGAIN_SECONDS = 0.2

WOULD_BLOCK = (BlockingIOError, InterruptedError)

Peer: TypeAlias = tuple[str, int] | tuple[str, int, int, int]


class Acceptor:
    """Accepts, admits, prepares and hands over.

    The receiver of a socket calls `leave` when it is closed.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        admission: Admission,
        prepare: Callable[[socket.socket], None],
        welcome: Callable[[socket.socket, Peer], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._admission = admission
        self._prepare = prepare
        self._welcome = welcome
        host, port = sock.getsockname()[:2]
        self.address: tuple[str, int] = (host, port)
        self._loop.add_reader(sock.fileno(), self._on_acceptable)

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            try:
                sock, peer = self._sock.accept()
            except WOULD_BLOCK:
                return
            except ConnectionAbortedError:
                continue  # it disconnected in the backlog; others may follow
            except OSError as fault:
                # Out of descriptors: connections stay in the backlog until one is freed.
                log.warning("cannot accept a connection: %s", fault)
                self._loop.remove_reader(self._sock.fileno())
                self._loop.call_later(ACCEPT_AGAIN_SECONDS, self._accept_again)
                return
            self._take(sock, peer)

    def _accept_again(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock.fileno(), self._on_acceptable)

    def _take(self, sock: socket.socket, peer: Peer) -> None:
        if not self._admission.admit(peer[0]):
            sock.close()
            return
        try:
            sock.setblocking(False)
            self._prepare(sock)
        except OSError as fault:
            log.info("lost %s: %s", peer[0], fault)
            self._admission.leave(peer[0])
            sock.close()
            return
        self._welcome(sock, peer)

    def leave(self, host: str) -> None:
        """Count out a closed connection of the host."""
        self._admission.leave(host)

    def stop(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
