"""No request waits for a delayed acknowledgement, and no answer either.

The client is a thread with a blocking socket and Nagle's algorithm on, as the published ones. An
acknowledgement that is delayed costs 40 ms and an exchange on loopback less than one, so half of
that tells the two apart on any machine.
"""

import asyncio
import socket
import ssl
import statistics
import time
from collections.abc import Callable

import pytest
from tests.support.certificates import trusting
from tests.support.embedded import EmbeddedServer
from tests.support.listening import tcp_listener, tls_listener, websocket_listener
from tests.support.polls import poll_of
from tests.support.sends import send_frame

from borzoi.listeners import acknowledging
from borzoi.listeners.acknowledging import SEGMENT_BYTES_MAX, acknowledge, may_be_held_back
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request
from borzoi.protocol.websocket.frames import Opcode, frame_head
from borzoi.security.certificates import self_signed_context

DELAYED_SECONDS = 0.040
SIZES = [1024, 4096, 16 * 1024, 50_000, 64 * 1024, 100_000, 256 * 1024]
#: Requests of each size: the first few are acknowledged at once by any kernel.
REPEATED = 15

pytestmark = pytest.mark.skipif(
    acknowledging.QUICKACK is None, reason="this kernel cannot be told to acknowledge"
)


def batch(size: int) -> bytes:
    return send_frame(bytes(size))


def poll(count: int) -> bytes:
    return encode_request(poll_of(count))


class NagleClient:
    """Leaves TCP_NODELAY off."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext | None) -> None:
        plain = socket.create_connection(address, timeout=60)
        self._sock = plain if context is None else context.wrap_socket(plain)
        self.exchange(encode_request(LoginUser("iggy", "iggy")))

    def exchange(self, *pieces: bytes) -> bytes:
        for piece in pieces:
            self._sock.sendall(piece)
        status, length = RESPONSE_PREFIX.unpack(self._exactly(RESPONSE_PREFIX.size))
        assert status == 0
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._sock.recv(count - len(data))
            assert more
            data += more
        return data

    def median_seconds(self, *pieces: bytes) -> float:
        taken = []
        for _ in range(REPEATED):
            begin = time.perf_counter()
            self.exchange(*pieces)
            taken.append(time.perf_counter() - begin)
        return statistics.median(taken)

    def close(self) -> None:
        self._sock.close()


async def stalls(
    address: tuple[str, int],
    context: ssl.SSLContext | None,
    cut: Callable[[bytes], int],
    kind: type[NagleClient] = NagleClient,
) -> dict[int, float]:
    """The sizes of requests, written in two pieces, that wait for a delayed acknowledgement."""

    def measure() -> dict[int, float]:
        client = kind(address, context)
        try:
            frames = [(size, batch(size)) for size in SIZES]
            medians = {
                size: client.median_seconds(frame[: cut(frame)], frame[cut(frame) :])
                for size, frame in frames
            }
        finally:
            client.close()
        return {size: taken for size, taken in medians.items() if taken > DELAYED_SECONDS / 2}

    return await asyncio.to_thread(measure)


CUTS = pytest.mark.parametrize(
    "cut",
    [lambda _: 8, lambda _: 5, lambda frame: len(frame) // 2, lambda frame: len(frame) - 10],
    ids=["prefix first", "half a prefix first", "halves", "most first"],
)


@CUTS
async def test_a_request_in_two_writes_is_not_held_back(
    server: EmbeddedServer, topic: None, cut: Callable[[bytes], int]
) -> None:
    async with tcp_listener(server) as listener:
        assert await stalls(listener.address, None, cut) == {}


@CUTS
async def test_a_request_in_two_writes_is_not_held_back_behind_tls(
    server: EmbeddedServer, topic: None, cut: Callable[[bytes], int]
) -> None:
    async with tls_listener(server, self_signed_context("localhost")) as listener:
        assert await stalls(listener.address, trusting(), cut) == {}


class NagleWebSocketClient(NagleClient):
    """Each request is one binary frame, which is cut wherever the pieces end."""

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext | None) -> None:
        plain = socket.create_connection(address, timeout=60)
        self._sock = plain if context is None else context.wrap_socket(plain)
        self._sock.sendall(
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert self._sock.recv(4096).startswith(b"HTTP/1.1 101")
        self.exchange(encode_request(LoginUser("iggy", "iggy")))

    def exchange(self, *pieces: bytes) -> bytes:
        head = bytearray(frame_head(Opcode.BINARY, sum(map(len, pieces))))
        head[1] |= 0x80  # masked, with zeros
        first, *rest = pieces
        for piece in (bytes(head) + bytes(4) + first, *rest):
            self._sock.sendall(piece)
        _, short = self._exactly(2)
        if short >= 126:
            self._exactly(2 if short == 126 else 8)
        status, length = RESPONSE_PREFIX.unpack(self._exactly(RESPONSE_PREFIX.size))
        assert status == 0
        return self._exactly(length)


@CUTS
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_a_request_in_two_writes_is_not_held_back_over_a_websocket(
    server: EmbeddedServer, topic: None, cut: Callable[[bytes], int], secure: bool
) -> None:
    context = self_signed_context("localhost") if secure else None
    theirs = trusting() if secure else None
    async with websocket_listener(server, context=context) as listener:
        assert await stalls(listener.address, theirs, cut, NagleWebSocketClient) == {}


async def test_an_answer_does_not_wait_for_the_client_to_acknowledge(
    server: EmbeddedServer, topic: None
) -> None:
    def measure(address: tuple[str, int]) -> list[float]:
        client = NagleClient(address, None)
        try:
            for _ in range(260):
                client.exchange(batch(1000))
            return [client.median_seconds(poll(count)) for count in (1, 10, 50, 100, 150, 260)]
        finally:
            client.close()

    async with tcp_listener(server) as listener:
        assert max(await asyncio.to_thread(measure, listener.address)) < DELAYED_SECONDS / 2


def test_only_less_than_a_segment_is_ever_held_back() -> None:
    assert may_be_held_back(None)
    assert may_be_held_back(memoryview(bytes(SEGMENT_BYTES_MAX - 1)))
    assert not may_be_held_back(memoryview(bytes(SEGMENT_BYTES_MAX)))


def test_a_kernel_without_the_option_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acknowledging, "QUICKACK", None)
    with socket.socket(socket.AF_UNIX) as sock:  # which would refuse it
        acknowledge(sock)
