"""A proxy that injects faults: drops, delays or silences connections."""

import socket
import threading
import time
from contextlib import suppress
from typing import Final

from borzoi.testing.loopback import LoopbackServer

RECEIVED_BYTES: Final = 256 * 1024


class Proxy(LoopbackServer):
    """Forwards connections to a server, with faults on demand.

    >>> with server.proxy() as proxy:                                       # doctest: +SKIP
    ...     with Client(proxy.url) as client:
    ...         proxy.drop()            # the client reconnects by itself
    """

    def __init__(self, target: tuple[str, int], *, credentials: str = "iggy:iggy") -> None:
        self._target = target
        self._guard = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._delay = 0.0
        self._may_pass = threading.Event()
        self._may_pass.set()
        self._refuses = False
        super().__init__(credentials)

    @property
    def connections(self) -> int:
        """How many connections were made so far."""
        return len(self._pairs)

    def drop(self) -> None:
        with self._guard:
            for pair in self._pairs:
                _cut(*pair)

    def refuse(self, refuses: bool = True) -> None:
        """Cut new connections at once, as if nothing listened, until this is turned off."""
        self._refuses = refuses

    def delay(self, seconds: float) -> None:
        """Delay every forwarded piece by this many seconds; 0 for no delay."""
        self._delay = seconds

    def silence(self) -> None:
        """Forward nothing until `speak`: connections stay, and nothing arrives."""
        self._may_pass.clear()

    def speak(self) -> None:
        """Forward again, starting with what was held back."""
        self._may_pass.set()

    def close(self) -> None:
        self.speak()
        super().close()

    def _accepted(self, near: socket.socket) -> None:
        if self._refuses:
            near.close()
            return
        try:
            far = socket.create_connection(self._target)
        except OSError:
            near.close()
            return
        for sock in (near, far):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._guard:
            self._pairs.append((near, far))
        self._start(self._forward, near, far)
        self._start(self._forward, far, near)

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(RECEIVED_BYTES):
                if self._delay:
                    time.sleep(self._delay)
                self._may_pass.wait()
                target.sendall(data)
        _cut(source, target)


def _cut(*socks: socket.socket) -> None:
    for sock in socks:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()
