"""Creates listeners from their settings."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from borzoi.handlers.sessions import Session
from borzoi.listeners.admission import Admission
from borzoi.listeners.binary import BinaryProtocol
from borzoi.listeners.interface import ByteStreamArguments, Listener, SecureListener
from borzoi.listeners.on_demand import OnDemandListener, datagram_socket
from borzoi.listeners.process_metrics import ProcessSources, process_families
from borzoi.listeners.sockets import BACKLOG, SocketOptions, bound_socket
from borzoi.listeners.tcp import TcpListener
from borzoi.listeners.websocket.plain import WebSocketListener
from borzoi.memory.pool import MemoryPool
from borzoi.model.errors import InvalidConfiguration
from borzoi.model.value import Value
from borzoi.protocol.websocket.frames import FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, Limits
from borzoi.server.config import has_quic
from borzoi.server.descriptor_limit import room_for_connections
from borzoi.server.revoked_tokens import RevokedTokens
from borzoi.server.settings import Settings
from borzoi.server.token_rules import token_rules
from borzoi.server.transport_settings import (
    HttpSection,
    HttpTlsSection,
    QuicCertificateSection,
    QuicSection,
    TcpSection,
    TcpSocketSection,
    TlsSection,
    WebSocketSection,
)
from borzoi.telemetry.durations import Durations
from borzoi.telemetry.exposition import Family

SECOND_US = 1_000_000

#: Seconds of silence before the kernel sends keepalive probes, ...
PROBED_AFTER_SECONDS = 60
#: ... and the count and interval of unanswered probes after which it closes the connection.
PROBE_SECONDS = 10
PROBES = 6


class Endpoint(Value):
    """A listener, its name, and its section of the settings."""

    name: str
    section: str
    listener: Listener


class ListeningContext(Value):
    """The shared parts of a server's listeners."""

    binary: BinaryProtocol
    pool: MemoryPool
    revoked_tokens: RevokedTokens
    on_connect: Callable[[Session], None]
    on_disconnect: Callable[[Session], None]
    #: How late the event loop was, for the metrics.
    loop_lag: Durations
    #: Metrics of the parts below the listeners.
    more_metrics: Callable[[], Iterable[Family]] = tuple
    #: How many processes share the limit on connections, and which of them this one is.
    shards: int = 1
    shard: int = 0
    #: The metrics of the other processes.
    other_metrics: Callable[[], Awaitable[Sequence[Sequence[Family]]]] | None = None
    #: Told where the metrics of this process are read.
    publish: Callable[[Callable[[], list[Family]]], None] | None = None

    def byte_streams(self, admission: Admission) -> ByteStreamArguments:
        return ByteStreamArguments(
            binary=self.binary,
            pool=self.pool,
            admission=admission,
            on_connect=self.on_connect,
            on_disconnect=self.on_disconnect,
        )


def bind(settings: Settings) -> dict[str, socket.socket]:
    """Bind a socket for every enabled listener, by its section; none accepts yet.

    Called before anything that may take long or exhaust resources, so that a server whose address
    is taken does not start.
    """
    sockets: dict[str, socket.socket] = {}
    try:
        if settings.tcp.enabled:
            sockets["tcp"] = bound("tcp", settings.tcp.address, dual_stack=settings.tcp.ipv6)
        if settings.http.enabled:
            sockets["http"] = bound("http", settings.http.address, shared=False)
        if settings.websocket.enabled:
            sockets["websocket"] = bound("websocket", settings.websocket.address)
        if settings.quic.enabled and has_quic():
            sockets["quic"] = bound_for_quic(settings.quic)
    except BaseException:
        close_all(sockets.values())
        raise
    return sockets


def close_all(sockets: Iterable[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


async def listen(
    settings: Settings, around: ListeningContext, sockets: Mapping[str, socket.socket]
) -> list[Endpoint]:
    """Create every listener that has a socket; all accept."""
    # One limit over all transports: each connection costs a descriptor, whatever it speaks.
    tcp = settings.tcp
    room = room_for_connections(-(-tcp.max_connections // around.shards))
    # By default half of the limit: one peer alone cannot lock the others out.
    chosen = tcp.max_connections_per_address
    admission = Admission(room, chosen or max(room // 2, 1), spares_this_machine=not chosen)
    endpoints: list[Endpoint] = []
    sources = ProcessSources(
        pool=around.pool,
        admission=admission,
        syncs=around.binary.dispatcher.services.syncs,
        loop_lag=around.loop_lag,
        connections=lambda: {one.section: len(one.listener.connections) for one in endpoints},
        more=around.more_metrics,
        shard=around.shard,
    )
    if around.publish is not None:
        around.publish(partial(process_families, around.binary.dispatcher, sources))
    try:
        for section, sock in sockets.items():
            _begin_listening(section, sock)
        if "tcp" in sockets:
            endpoints.append(await _tcp(sockets["tcp"], tcp, around, admission))
        if "http" in sockets:
            http = settings.http
            endpoints.append(_http(sockets["http"], http, around, sources))
        if "websocket" in sockets:
            websocket = settings.websocket
            endpoints.append(await _websocket(sockets["websocket"], websocket, around, admission))
        if "quic" in sockets:
            endpoints.append(_quic(sockets["quic"], settings.quic, around, admission))
    except BaseException:
        for endpoint in endpoints:
            endpoint.listener.close()
        close_all(sockets.values())
        raise
    return endpoints


async def _tcp(
    sock: socket.socket, tcp: TcpSection, around: ListeningContext, admission: Admission
) -> Endpoint:
    if not tcp.socket.override_defaults:
        probe_silent_peers(sock)
    options = socket_options(tcp.socket)
    if tcp.tls.enabled:
        # Imported here: a start without TLS needs no part of it.
        from borzoi.listeners.tls import TlsListener

        secure = TlsListener(options=options, **around.byte_streams(admission))
        return await _secured("tcp", secure, sock, tcp.tls)
    plain = TcpListener(sock, options=options, **around.byte_streams(admission))
    return Endpoint("tcp", "tcp", plain)


async def _secured(
    section: str, listener: SecureListener, sock: socket.socket, tls: TlsSection
) -> Endpoint:
    await listener.start(sock, tls_context(tls, f"{section}.tls"))
    return Endpoint(f"{section} (TLS)", section, listener)


def _loaded_http() -> Callable[..., Listener]:
    # Imported here: HTTP takes a sixth of a start and megabytes.
    from borzoi.server.web import http_listener

    return http_listener


def _http(
    bound_sock: socket.socket,
    http: HttpSection,
    around: ListeningContext,
    process: ProcessSources,
) -> Endpoint:
    """Keys and certificates are read now, so that the start fails if they are invalid."""
    rules = token_rules(http.jwt)
    context = tls_context(http.tls, "http.tls") if http.tls.enabled else None
    probe_silent_peers(bound_sock)

    async def make(sock: socket.socket) -> Listener:
        # The loop goes on while HTTP is loaded.
        http_listener = await asyncio.to_thread(_loaded_http)
        return http_listener(
            sock,
            http,
            around.binary,
            rules,
            around.revoked_tokens,
            process,
            others=around.other_metrics,
            context=context,
        )

    name = "http" if context is None else "http (TLS)"
    return Endpoint(name, "http", OnDemandListener(bound_sock, make))


async def _websocket(
    sock: socket.socket, websocket: WebSocketSection, around: ListeningContext, admission: Admission
) -> Endpoint:
    limits = Limits(
        websocket.max_message_size or MESSAGE_BYTES_MAX,
        websocket.max_frame_size or FRAME_BYTES_MAX,
        websocket.accept_unmasked_frames,
    )
    probe_silent_peers(sock)
    if websocket.tls.enabled:
        from borzoi.listeners.websocket.secure import SecureWebSocketListener

        secure = SecureWebSocketListener(limits=limits, **around.byte_streams(admission))
        return await _secured("websocket", secure, sock, websocket.tls)
    plain = WebSocketListener(sock, limits=limits, **around.byte_streams(admission))
    return Endpoint("websocket", "websocket", plain)


def _quic(
    bound_sock: socket.socket, quic: QuicSection, around: ListeningContext, admission: Admission
) -> Endpoint:
    async def make(sock: socket.socket) -> Listener:
        # Imported here: the library is an extra and takes megabytes.
        from borzoi.listeners.quic import QuicListener, QuicOptions

        listener = QuicListener(
            binary=around.binary,
            admission=admission,
            options=QuicOptions(
                *certificate_of(quic.certificate),
                receive_window=quic.receive_window,
                datagram_bytes_max=min(max(quic.initial_mtu, 1200), 65_000),
                idle_seconds=quic.max_idle_timeout / SECOND_US or 30.0,
                keep_alive_seconds=quic.keep_alive_interval / SECOND_US,
            ),
            on_connect=around.on_connect,
            on_disconnect=around.on_disconnect,
        )
        await listener.start(sock)
        return listener

    return Endpoint("quic", "quic", OnDemandListener(bound_sock, make))


def bound_for_quic(quic: QuicSection) -> socket.socket:
    host, port = quic.address
    override = quic.socket.override_defaults
    try:
        return datagram_socket(
            quic.address,
            recv_buffer_bytes=quic.socket.recv_buffer_size if override else None,
            send_buffer_bytes=quic.socket.send_buffer_size if override else None,
        )
    except OSError as fault:
        raise InvalidConfiguration(
            f"quic.address: cannot listen at {host}:{port}: {fault.strerror}"
        ) from fault


def certificate_of(section: QuicCertificateSection) -> tuple[bytes, bytes]:
    """Return certificate and key in PEM: self-signed, or from the files."""
    from borzoi.security.certificates import self_signed

    if section.self_signed:
        pair = self_signed("localhost")
        return pair.certificate, pair.key
    try:
        return Path(section.cert_file).read_bytes(), Path(section.key_file).read_bytes()
    except OSError as fault:
        raise InvalidConfiguration(f"quic.certificate: {fault}") from fault


def _begin_listening(section: str, sock: socket.socket) -> None:
    """Start to listen. Fails if two servers have bound the same address."""
    if sock.type != socket.SOCK_STREAM:
        return
    try:
        sock.listen(BACKLOG)
    except OSError as fault:
        host, port = sock.getsockname()[:2]
        raise InvalidConfiguration(
            f"{section}.address: cannot listen at {host}:{port}: {fault.strerror}"
        ) from fault


def bound(
    section: str, address: tuple[str, int], *, dual_stack: bool = False, shared: bool = True
) -> socket.socket:
    """Return a socket bound to the address of the section."""
    try:
        return bound_socket(address, dual_stack=dual_stack, shared=shared)
    except OSError as fault:
        host, port = address
        raise InvalidConfiguration(
            f"{section}.address: cannot listen at {host}:{port}: {fault.strerror}"
        ) from fault


def probe_silent_peers(sock: socket.socket) -> None:
    """Detect dead peers (power loss, a cable) within two minutes; the kernel's default takes hours.
    Accepted sockets inherit the options."""
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
        # The kernel counts whole seconds: round up, because 0 has another meaning.
        linger_seconds=-(-section.linger // SECOND_US) or None,
    )


def tls_context(section: TlsSection | HttpTlsSection, path: str) -> ssl.SSLContext:
    """Return a context with the certificate files or, if allowed, a self-signed certificate."""
    # Imported here: only TLS needs it, and it costs 5 MB and a fifth of the start.
    from borzoi.security.certificates import self_signed_context, server_context

    if Path(section.cert_file).is_file() and Path(section.key_file).is_file():
        return server_context(section.cert_file, section.key_file)
    if isinstance(section, TlsSection) and section.self_signed:
        return self_signed_context("localhost")
    reason = ", and self_signed is false" if isinstance(section, TlsSection) else ""
    raise InvalidConfiguration(
        f"{path}: {section.cert_file} and {section.key_file} do not both exist{reason}"
    )
