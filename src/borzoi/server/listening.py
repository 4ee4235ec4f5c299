"""Listeners from their settings."""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec

from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import BinaryProtocol
from borzoi.listeners.tcp import SocketOptions, TcpListener, listening_socket
from borzoi.listeners.tls import TlsListener
from borzoi.memory.pool import MemoryPool
from borzoi.model.errors import InvalidConfiguration
from borzoi.server.descriptor_limit import room_for_connections
from borzoi.server.settings import Settings, TcpSocketSection, TlsSection

SECOND_US = 1_000_000

#: A connection is silent for so long before the kernel asks whether its peer is there, ...
PROBED_AFTER_SECONDS = 60
#: ... and is closed after so many questions, so far apart, without an answer.
PROBE_SECONDS = 10
PROBES = 6


class Endpoint(msgspec.Struct, frozen=True):
    """A listener that accepts, what to call it, and the section its settings came from."""

    name: str
    section: str
    listener: TcpListener | TlsListener


async def listen(
    settings: Settings,
    *,
    binary: BinaryProtocol,
    pool: MemoryPool,
    on_connect: Callable[[Session], None],
    on_disconnect: Callable[[Session], None],
) -> list[Endpoint]:
    """Every enabled listener, accepting."""
    tcp = settings.tcp
    if not tcp.enabled:
        return []
    try:
        sock = listening_socket(tcp.address, dual_stack=tcp.ipv6)
    except OSError as fault:
        host, port = tcp.address
        raise InvalidConfiguration(
            f"tcp.address: cannot listen at {host}:{port}: {fault.strerror}"
        ) from fault
    if not tcp.socket.override_defaults:
        probe_silent_peers(sock)
    room = room_for_connections(tcp.max_connections)
    # Unless set, half of those there may be: one peer alone cannot keep everybody else out.
    chosen = tcp.max_connections_per_address
    admission = Admission(room, chosen or max(room // 2, 1), spares_this_machine=not chosen)
    if tcp.tls.enabled:
        secure = TlsListener(
            binary=binary,
            pool=pool,
            admission=admission,
            options=socket_options(tcp.socket),
            on_connect=on_connect,
            on_disconnect=on_disconnect,
        )
        await secure.start(sock, tls_context(tcp.tls, "tcp.tls"))
        return [Endpoint("tcp (TLS)", "tcp", secure)]
    plain = TcpListener(
        sock,
        binary=binary,
        pool=pool,
        admission=admission,
        options=socket_options(tcp.socket),
        on_connect=on_connect,
        on_disconnect=on_disconnect,
    )
    return [Endpoint("tcp", "tcp", plain)]


def probe_silent_peers(sock: socket.socket) -> None:
    """Find out about peers that went without a word (their power, a cable): within two minutes,
    where the kernel's own choice would be hours. Accepted sockets inherit it."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBED_AFTER_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)


def socket_options(section: TcpSocketSection) -> SocketOptions:
    if not section.override_defaults:
        return SocketOptions()
    return SocketOptions(
        recv_buffer_bytes=section.recv_buffer_size,
        send_buffer_bytes=section.send_buffer_size,
        keepalive=section.keepalive,
        nodelay=section.nodelay,
        # The kernel counts whole seconds: a part of one is one, not none.
        linger_seconds=-(-section.linger // SECOND_US) or None,
    )


def tls_context(section: TlsSection, path: str) -> ssl.SSLContext:
    """The certificate of the files; without them, one of our own for localhost when allowed."""
    # Imported here: without TLS nobody needs it, and it weighs 5 MB and a fifth of the start.
    from borzoi.security.certificates import self_signed_context, server_context

    if Path(section.cert_file).is_file() and Path(section.key_file).is_file():
        return server_context(section.cert_file, section.key_file)
    if section.self_signed:
        return self_signed_context("localhost")
    raise InvalidConfiguration(
        f"{path}: {section.cert_file} and {section.key_file} are not both there,"
        " and self_signed is false"
    )
