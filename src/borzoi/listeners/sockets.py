"""Sockets before any transport speaks over them: options, listening, addresses as text."""

import socket

from borzoi.listeners.accepting import Peer
from borzoi.model.value import Value


class SocketOptions(Value):
    """Options set on each accepted socket; None keeps the kernel's default."""

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


#: How many connections the kernel queues before we accept them.
BACKLOG = 1024


def listening_socket(
    address: tuple[str, int], *, dual_stack: bool = False, shared: bool = True
) -> socket.socket:
    """Return a listening socket; the shards of one server can share the address."""
    sock = bound_socket(address, dual_stack=dual_stack, shared=shared)
    try:
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def bound_socket(
    address: tuple[str, int], *, dual_stack: bool = False, shared: bool = True
) -> socket.socket:
    """Return a bound socket that does not listen yet; the kernel refuses connections to it."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual_stack else 1)
        sock.bind((host, port))
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def peer_text(peer: Peer) -> str:
    """The peer's address as clients write it; the client id is its hash."""
    host, port = peer[0], peer[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """The host of ``host:port`` or ``[host]:port``."""
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]")


def reason_of(fault: OSError) -> str:
    """Describe an exception; some of the event loop have only their name."""
    return str(fault) or type(fault).__name__
