"""The base of small servers for tests, which listen on a free port of this machine."""

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Self


class LoopbackServer(ABC):
    """Accepts connections until it is closed. Each connection has its own threads."""

    def __init__(self, credentials: str = "iggy:iggy") -> None:
        self._credentials = credentials
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return host, port

    @property
    def url(self) -> str:
        """A connection string for clients of this server."""
        host, port = self.address
        return f"borzoi://{self._credentials}@{host}:{port}"

    def drop(self) -> None:
        """Cut every open connection; new ones are accepted as before."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cut everything and stop listening."""
        # Only a shutdown wakes the thread that accepts.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        self.drop()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self._accepted(connection)

    @abstractmethod
    def _accepted(self, connection: socket.socket) -> None:
        """Start the threads of a new connection."""
