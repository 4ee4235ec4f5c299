"""Readers that ask for everything, read a little and hang up: nothing of their answer stays."""

import asyncio
import base64
import os
import socket
from collections.abc import Callable

import pytest
from tests.support.attacked import MESSAGES, root, server_with_messages
from tests.support.certificates import trusting
from tests.support.good_client import resident_bytes
from tests.support.polls import poll_of
from tests.support.quic_client import quic_client
from tests.support.server import RunningServer

from borzoi.protocol.commands.tokens import (
    CreatePersonalAccessToken,
    LoginWithPersonalAccessToken,
    RawToken,
)
from borzoi.protocol.framing import encode_request
from borzoi.protocol.websocket.frames import Opcode, frame_head

pytestmark = pytest.mark.system

MEBIBYTE = 1 << 20
#: One answer that stays would be more than this.
GROWN_BYTES_MAX = 48 * MEBIBYTE
READ_BYTES = 1000
POLL = encode_request(poll_of(MESSAGES))
HangUp = Callable[[RunningServer, str], None]


def log_in_and_poll(
    sock: socket.socket, token: str, wrap: Callable[[bytes], bytes] = bytes
) -> None:
    """Both at once; the answer to the login is among what is read."""
    login = encode_request(LoginWithPersonalAccessToken(token))
    sock.sendall(wrap(login) + wrap(POLL))
    received = 0
    while received < READ_BYTES:
        received += len(sock.recv(READ_BYTES))


def over_tcp(server: RunningServer, token: str) -> None:
    with socket.create_connection(server.tcp_address, 60) as sock:
        log_in_and_poll(sock, token)


def over_tls(server: RunningServer, token: str) -> None:
    plain = socket.create_connection(server.tcp_address, 60)
    with trusting().wrap_socket(plain) as sock:
        log_in_and_poll(sock, token)


def masked(data: bytes) -> bytes:
    head = frame_head(Opcode.BINARY, len(data))
    return head[:1] + bytes([head[1] | 0x80]) + head[2:] + bytes(4) + data


def over_websocket(server: RunningServer, token: str) -> None:
    with socket.create_connection(server.addresses["websocket"], 60) as sock:
        key = base64.b64encode(os.urandom(16)).decode()
        sock.sendall(
            "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        assert sock.recv(4096).startswith(b"HTTP/1.1 101")
        log_in_and_poll(sock, token, masked)


def over_http(server: RunningServer, token: str) -> None:
    body = f'{{"token":"{token}"}}'
    login = (
        "POST /personal-access-tokens/login HTTP/1.1\r\nHost: x\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    with socket.create_connection(server.addresses["http"], 60) as sock:
        sock.sendall(login.encode())
        answer = b""
        while b"}" not in answer:
            answer += sock.recv(65536)
        bearer = answer.split(b'"token":"')[1].split(b'"')[0].decode()
        sock.sendall(
            f"GET /streams/s/topics/t/messages?partition_id=0&kind=first&count={MESSAGES}"
            f" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bearer}\r\n\r\n".encode()
        )
        received = b""
        while len(received) < READ_BYTES:
            received += sock.recv(READ_BYTES)
        assert received.startswith(b"HTTP/1.1 200"), received


def over_quic(server: RunningServer, token: str) -> None:
    async def poll() -> None:
        async with quic_client(server.addresses["quic"]) as client:
            await client.call(LoginWithPersonalAccessToken(token))
            reader, writer = await client.protocol.create_stream()
            writer.write(POLL)
            writer.write_eof()
            await reader.readexactly(READ_BYTES)
            # Without a goodbye: the server hears nothing more from here.
            client.protocol._transport.abort()  # type: ignore[union-attr]

    asyncio.run(poll())


TRANSPORTS: dict[str, tuple[HangUp, int, dict[str, str]]] = {
    "tcp": (over_tcp, 100, {}),
    "tls": (over_tls, 100, {"TCP_TLS_ENABLED": "true"}),
    "websocket": (
        over_websocket,
        100,
        {"WEBSOCKET_ENABLED": "true", "WEBSOCKET_ADDRESS": "127.0.0.1:0"},
    ),
    "http": (over_http, 40, {"HTTP_ENABLED": "true", "HTTP_ADDRESS": "127.0.0.1:0"}),
    "quic": (over_quic, 20, {"QUIC_ENABLED": "true", "QUIC_ADDRESS": "127.0.0.1:0"}),
}


def token_of(server: RunningServer) -> str:
    with root(server) as client:
        made = client.call(CreatePersonalAccessToken("abuse"))
    assert isinstance(made, RawToken)
    return made.token


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_who_hangs_up_leaves_nothing_in_memory(transport: str) -> None:
    hang_up, times, settings = TRANSPORTS[transport]
    with server_with_messages("zstd", settings) as server:
        token = token_of(server)
        hang_up(server, token)
        before = resident_bytes(server)
        for _ in range(times):
            hang_up(server, token)
        grown = resident_bytes(server) - before
        print(f"{transport}: {grown / MEBIBYTE:.1f} MiB more after {times} hang-ups")
        assert grown < GROWN_BYTES_MAX
