import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.certificates import trusting
from tests.support.embedded import EmbeddedServer, embedded_server
from tests.support.listening import FrameClient, turns
from tests.support.starts import settings_with

from borzoi.listeners.sockets import SocketOptions, listening_socket
from borzoi.listeners.tcp import TcpConnection, TcpListener
from borzoi.listeners.tls import TlsListener
from borzoi.model.errors import InvalidConfiguration
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.framing import encode_request
from borzoi.security.certificates import self_signed
from borzoi.server.listening import (
    PROBED_AFTER_SECONDS,
    Endpoint,
    ListeningContext,
    bind,
    close_all,
    listen,
    socket_options,
    tls_context,
)
from borzoi.server.settings import Settings
from borzoi.server.transport_settings import TlsSection
from borzoi.telemetry.durations import Durations


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    async with embedded_server(tmp_path) as running:
        yield running


def settings_of(folder: Path, **variables: str) -> Settings:
    only_tcp = {
        "TCP_ADDRESS": "127.0.0.1:0",
        "HTTP_ENABLED": "false",
        "WEBSOCKET_ENABLED": "false",
        "QUIC_ENABLED": "false",
    }
    return settings_with(folder, **(only_tcp | variables))


async def listening(server: EmbeddedServer, settings: Settings) -> list[Endpoint]:
    return await listen(
        settings,
        ListeningContext(
            binary=server.binary,
            pool=server.opened.pool,
            revoked_tokens=server.opened.revoked_tokens,
            on_connect=server.services.sessions.add,
            on_disconnect=lambda session: None,
            loop_lag=Durations(),
        ),
        bind(settings),
    )


def test_bound_sockets_have_their_address_and_refuse_until_a_server_listens(tmp_path: Path) -> None:
    sockets = bind(settings_of(tmp_path, HTTP_ENABLED="true", HTTP_ADDRESS="127.0.0.1:0"))
    try:
        assert list(sockets) == ["tcp", "http"]
        for sock in sockets.values():
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(sock.getsockname())
        sockets["http"].listen()
        taken = f"127.0.0.1:{sockets['http'].getsockname()[1]}"
        with pytest.raises(InvalidConfiguration, match=r"http\.address: cannot listen"):
            bind(settings_of(tmp_path, HTTP_ENABLED="true", HTTP_ADDRESS=taken))
    finally:
        close_all(sockets.values())


async def test_a_plain_listener_answers(server: EmbeddedServer, tmp_path: Path) -> None:
    (endpoint,) = await listening(server, settings_of(tmp_path))
    assert isinstance(endpoint.listener, TcpListener)
    async with await FrameClient.connect(endpoint.listener.address) as client:
        assert await client.exchange(encode_request(Ping())) == (0, b"")
    endpoint.listener.close()


async def test_a_listener_with_tls_answers(server: EmbeddedServer, tmp_path: Path) -> None:
    (endpoint,) = await listening(server, settings_of(tmp_path, TCP_TLS_ENABLED="true"))
    assert isinstance(endpoint.listener, TlsListener)
    assert (endpoint.name, endpoint.section) == ("tcp (TLS)", "tcp")
    async with await FrameClient.connect(endpoint.listener.address, context=trusting()) as client:
        assert await client.exchange(encode_request(Ping())) == (0, b"")
    endpoint.listener.close()
    await turns(5)


async def test_what_is_switched_off_does_not_listen(server: EmbeddedServer, tmp_path: Path) -> None:
    assert await listening(server, settings_of(tmp_path, TCP_ENABLED="false")) == []


async def test_an_address_that_cannot_be_had_is_told_with_its_key(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfiguration, match=r"tcp\.address: cannot listen at 192\.0\.2\.1"):
        await listening(server, settings_of(tmp_path, TCP_ADDRESS="192.0.2.1:8090"))


async def test_the_number_of_connections_comes_from_the_settings(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    settings = settings_of(tmp_path, TCP_MAX_CONNECTIONS_PER_ADDRESS="1")
    (endpoint,) = await listening(server, settings)
    async with (
        await FrameClient.connect(endpoint.listener.address) as first,
        await FrameClient.connect(endpoint.listener.address) as second,
    ):
        assert await first.exchange(encode_request(Ping())) == (0, b"")
        assert await second.rest() == b""
    endpoint.listener.close()


async def test_one_address_cannot_take_every_place(server: EmbeddedServer, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, TCP_MAX_CONNECTIONS="4", TCP_MAX_CONNECTIONS_PER_ADDRESS="2")
    (endpoint,) = await listening(server, settings)
    host, port = endpoint.listener.address
    async with (
        await FrameClient.connect((host, port)) as first,
        await FrameClient.connect((host, port)) as second,
        await FrameClient.connect((host, port)) as third,
    ):
        for client in (first, second):
            assert await client.exchange(encode_request(Ping())) == (0, b"")
        assert await third.rest() == b""
        elsewhere = socket.create_connection((host, port), source_address=("127.0.0.2", 0))
        async with FrameClient(*await asyncio.open_connection(sock=elsewhere)) as other:
            assert await other.exchange(encode_request(Ping())) == (0, b"")
    endpoint.listener.close()


async def test_unless_it_is_set_this_machine_may_take_every_place(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    (endpoint,) = await listening(server, settings_of(tmp_path, TCP_MAX_CONNECTIONS="2"))
    address = endpoint.listener.address
    async with (
        await FrameClient.connect(address) as first,
        await FrameClient.connect(address) as second,
        await FrameClient.connect(address) as third,
    ):
        for client in (first, second):
            assert await client.exchange(encode_request(Ping())) == (0, b"")
        assert await third.rest() == b""
    endpoint.listener.close()


@pytest.mark.parametrize(("override", "probed"), [("false", 1), ("true", 0)])
async def test_silent_peers_are_probed_unless_the_settings_say_otherwise(
    server: EmbeddedServer, tmp_path: Path, override: str, probed: int
) -> None:
    settings = settings_of(tmp_path, TCP_SOCKET_OVERRIDE_DEFAULTS=override)
    (endpoint,) = await listening(server, settings)
    async with await FrameClient.connect(endpoint.listener.address) as client:
        assert await client.exchange(encode_request(Ping())) == (0, b"")
        (connection,) = endpoint.listener.connections
        assert isinstance(connection, TcpConnection)
        accepted = connection._sock
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == probed
        if probed:
            idle = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            assert idle == PROBED_AFTER_SECONDS
    endpoint.listener.close()


def test_socket_options_count_only_when_they_override(tmp_path: Path) -> None:
    said = {"TCP_SOCKET_KEEPALIVE": "true", "TCP_SOCKET_LINGER": "3 s"}
    assert socket_options(settings_of(tmp_path, **said).tcp.socket) == SocketOptions()
    said["TCP_SOCKET_OVERRIDE_DEFAULTS"] = "true"
    options = socket_options(settings_of(tmp_path, **said).tcp.socket)
    assert (options.keepalive, options.linger_seconds) == (True, 3)
    assert options.recv_buffer_bytes == 100_000


@pytest.mark.parametrize(
    ("said", "seconds"), [("0 s", None), ("1 ms", 1), ("1 s", 1), ("1500 ms", 2), ("1 d", 86_400)]
)
def test_lingering_takes_whole_seconds_and_never_less_than_was_asked_for(
    said: str, seconds: int | None, tmp_path: Path
) -> None:
    asked = settings_of(tmp_path, TCP_SOCKET_OVERRIDE_DEFAULTS="true", TCP_SOCKET_LINGER=said)
    options = socket_options(asked.tcp.socket)
    assert options.linger_seconds == seconds
    with socket.socket() as sock:
        options.apply(sock)


def test_the_largest_buffers_that_are_allowed_can_be_had(tmp_path: Path) -> None:
    asked = settings_of(
        tmp_path,
        TCP_SOCKET_OVERRIDE_DEFAULTS="true",
        TCP_SOCKET_RECV_BUFFER_SIZE="1 GiB",
        TCP_SOCKET_SEND_BUFFER_SIZE="1 GiB",
    )
    with socket.socket() as sock:
        socket_options(asked.tcp.socket).apply(sock)


def test_a_certificate_comes_from_its_files_or_is_our_own_when_allowed(tmp_path: Path) -> None:
    made = self_signed("localhost")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    missing = TlsSection(enabled=True, self_signed=False, cert_file=str(cert), key_file=str(key))
    with pytest.raises(InvalidConfiguration, match=r"tcp\.tls"):
        tls_context(missing, "tcp.tls")
    own = TlsSection(enabled=True, self_signed=True, cert_file=str(cert), key_file=str(key))
    assert isinstance(tls_context(own, "tcp.tls"), ssl.SSLContext)
    cert.write_bytes(made.certificate)
    key.write_bytes(made.key)
    assert isinstance(tls_context(missing, "tcp.tls"), ssl.SSLContext)


def test_a_listening_socket_may_be_shared_between_processes_of_one_server() -> None:
    with listening_socket(("127.0.0.1", 0)) as one, listening_socket(one.getsockname()) as two:
        assert one.getsockname() == two.getsockname()
