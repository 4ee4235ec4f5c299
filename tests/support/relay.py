"""A relay before a TCP server that can cut what goes through it, as a network does."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PIECE_BYTES = 65536


class Relay:
    """Carries bytes both ways; one pair of threads for each connection."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self._upstream = upstream
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._upstream)
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._sockets |= {client, server}
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                target.sendall(piece)
        self._end(source, target)

    def _end(self, *sockets: socket.socket) -> None:
        for one in sockets:
            with self._lock:
                self._sockets.discard(one)
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def cut(self) -> int:
        """End every connection there is; how many there were."""
        with self._lock:
            sockets = list(self._sockets)
        self._end(*sockets)
        return len(sockets) // 2

    def close(self) -> None:
        # Only a shutdown wakes the thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


@contextmanager
def relayed(upstream: tuple[str, int]) -> Iterator[Relay]:
    relay = Relay(upstream)
    try:
        yield relay
    finally:
        relay.close()
