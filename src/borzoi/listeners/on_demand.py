"""A listener that is created when its first client arrives.

QUIC and its certificate take a third of a start and 15 MB, HTTP a sixth and 4 MB, and many servers
see no such client. The socket is bound from the beginning: datagrams and connections wait in it
until the listener is ready.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Collection

from borzoi.listeners.interface import Connection, Listener

log = logging.getLogger(__name__)


def datagram_socket(
    address: tuple[str, int],
    *,
    recv_buffer_bytes: int | None = None,
    send_buffer_bytes: int | None = None,
) -> socket.socket:
    """Return a bound datagram socket; None keeps the kernel's default."""
    host, port = address
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        for option, size in (
            (socket.SO_RCVBUF, recv_buffer_bytes),
            (socket.SO_SNDBUF, send_buffer_bytes),
        ):
            if size is not None:
                sock.setsockopt(socket.SOL_SOCKET, option, size)
        sock.bind((host, port))
    except BaseException:
        sock.close()
        raise
    return sock


class OnDemandListener:
    """Stands in for the listener until it exists, and forwards everything afterwards."""

    def __init__(
        self, sock: socket.socket, make: Callable[[socket.socket], Awaitable[Listener]]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._make = make
        self._listener: Listener | None = None
        self._making: asyncio.Task[None] | None = None
        self._accepting = True
        host, port = sock.getsockname()[:2]
        self.address: tuple[str, int] = (host, port)
        self._loop.add_reader(sock.fileno(), self._on_client)

    def _on_client(self) -> None:
        self._loop.remove_reader(self._sock.fileno())
        self._making = self._loop.create_task(self._open())

    async def _open(self) -> None:
        try:
            self._listener = await self._make(self._sock)
        except Exception:
            log.exception("could not listen at %s:%d", *self.address)
        else:
            if not self._accepting:
                self._listener.stop_accepting()

    @property
    def connections(self) -> Collection[Connection]:
        return () if self._listener is None else self._listener.connections

    def give_up_stalled(self, before: float) -> None:
        if self._listener is not None:
            self._listener.give_up_stalled(before)

    def stop_accepting(self) -> None:
        self._accepting = False
        if self._listener is not None:
            self._listener.stop_accepting()
        elif self._making is None and self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()

    def say_goodbye(self, farewell: bytes) -> None:
        if self._listener is not None:
            self._listener.say_goodbye(farewell)

    def close(self) -> None:
        self.stop_accepting()
        if self._listener is not None:
            self._listener.close()
        elif self._making is not None:
            self._making.cancel()
            self._sock.close()
