"""The other transports: each compared with its base layer, or with TCP, in one run.

A WebSocket is compared with TCP to the same server. HTTP is compared with bare applications on the
same stack, QUIC with a bare server of the same library; there the processor time of the servers
counts, because the client, in Python too, is the slower half.
"""

import asyncio
import base64
import http.client
import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from qh3.asyncio.client import connect
from qh3.asyncio.protocol import QuicConnectionProtocol
from qh3.quic.configuration import QuicConfiguration
from tests.support.quic_client import QuicClient
from tests.support.server import RunningServer, running_server

from bench.comparing import Row, compare, cpu_seconds
from bench.load import (
    Measured,
    connected,
    poll_frame,
    poll_over_and_over,
    send_frame,
    send_over_and_over,
)
from bench.sides import bare, bare_process, prepared
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request

T = TypeVar("T")
EVERYTHING = {
    f"{transport}_{key}": value
    for transport in ("HTTP", "WEBSOCKET", "QUIC")
    for key, value in (("ENABLED", "true"), ("ADDRESS", "127.0.0.1:0"))
}

# ---- WebSocket ----------------------------------------------------------------------------------

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
#: The head of a frame with eight bytes.
EIGHT_BYTES = b"\x82\x08"
LARGE_HEAD_BYTES = 10


def masked(payload: bytes) -> bytes:
    """A binary frame as clients must send it. The mask is made of four different bytes."""
    mask = b"\x37\xfa\x21\x3d"
    size = len(payload)
    if size < 126:
        head = bytes([0x82, 0x80 | size])
    elif size < 65536:
        head = b"\x82\xfe" + size.to_bytes(2, "big")
    else:
        head = b"\x82\xff" + size.to_bytes(8, "big")
    repeated = mask * (size // 4 + 1)
    word = int.from_bytes(payload, "little") ^ int.from_bytes(repeated[:size], "little")
    return head + mask + word.to_bytes(size, "little")


def websocket(address: tuple[str, int]) -> socket.socket:
    """A WebSocket that is logged in."""
    sock = connected(address)
    sock.sendall(UPGRADE)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += sock.recv(1)
    assert b" 101 " in answer, answer
    sock.sendall(masked(encode_request(LoginUser("iggy", "iggy"))))
    sock.recv(65536)
    return sock


def websocket_sends(sock: socket.socket, frame: bytes, requests: int) -> Measured:
    """As `send_over_and_over`: one request after another, and every answer a plain success."""
    expected = EIGHT_BYTES + bytes(8)
    answer = memoryview(bytearray(len(expected)))
    latencies = []
    begun = time.perf_counter()
    for _ in range(requests):
        before = time.perf_counter()
        sock.sendall(frame)
        received = sock.recv_into(answer)
        while received < len(expected):
            received += sock.recv_into(answer[received:])
        latencies.append(time.perf_counter() - before)
        assert answer == expected, bytes(answer)
    return Measured(requests, time.perf_counter() - begun, latencies)


def websockets(stack: ExitStack, server: RunningServer) -> list[Row]:
    tcp, ws = prepared(server), websocket(server.addresses["websocket"])
    large = send_frame(1000, 1000)
    large_masked = masked(large)
    # What was just sent; all of them stay in the page cache.
    send_over_and_over(tcp, large, 100)
    polls = [poll_frame(number * 1000, 1000) for number in range(100)]
    polls_masked = [masked(frame) for frame in polls]
    return [
        Row(
            "WebSocket: send 1000 × 1000 B, beside TCP",
            0.55,
            lambda: send_over_and_over(tcp, large, 30),
            lambda: websocket_sends(ws, large_masked, 30),
            written_bytes=30 * len(large),
        ),
        Row(
            "WebSocket: poll 1000 × 1000 B, beside TCP",
            0.55,
            lambda: poll_over_and_over(tcp, polls, 100),
            lambda: poll_over_and_over(ws, polls_masked, 100, head_bytes=LARGE_HEAD_BYTES),
        ),
    ]


# ---- HTTP ---------------------------------------------------------------------------------------


def call(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a call."""
    lines = [f"{method} {path} HTTP/1.1", "host: bench"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    _, _, length = head.partition(b"content-length: ")
    return bool(end) and len(body) == int(length.split(b"\r\n")[0])


def calls(address: tuple[str, int], given: bytes, requests: int) -> Measured:
    """The same call over and over, on a connection of its own: servers close those that rest. The
    first answer says how long all of them are."""
    with connected(address) as sock:
        return _calls(sock, given, requests)


def _calls(sock: socket.socket, given: bytes, requests: int) -> Measured:
    sock.sendall(given)
    first = b""
    while not is_whole(first):
        first += sock.recv(65536)
    assert first.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 201 ")), first
    status, answer, latencies = first[:15], memoryview(bytearray(len(first))), []
    begun = time.perf_counter()
    for _ in range(requests):
        before = time.perf_counter()
        sock.sendall(given)
        received = sock.recv_into(answer)
        while 0 < received < len(first):
            received += sock.recv_into(answer[received:])
        latencies.append(time.perf_counter() - before)
        assert answer[:15] == status, bytes(answer)
    return Measured(requests, time.perf_counter() - begun, latencies)


def token_of(server: RunningServer) -> str:
    client = http.client.HTTPConnection(*server.addresses["http"])
    document = json.dumps({"username": "iggy", "password": "iggy"})
    client.request("POST", "/users/login", document, {"Content-Type": "application/json"})
    token: str = json.load(client.getresponse())["access_token"]["token"]
    client.close()
    return token


def send_document(count: int, payload_bytes: int) -> bytes:
    """A send as the published clients write it."""
    message = {"id": 0, "payload": base64.b64encode(b"x" * payload_bytes).decode()}
    where = {"kind": "partition_id", "value": base64.b64encode(bytes(4)).decode()}
    return json.dumps({"partitioning": where, "messages": [message] * count}).encode()


def web(stack: ExitStack, server: RunningServer) -> list[Row]:
    own = server.addresses["http"]
    ping, body = call("GET", "/ping"), send_document(100, 200)
    token = f"Bearer {token_of(server)}"
    send = call("POST", "/streams/bench/topics/topic/messages", body, authorization=token)
    decoded = call("POST", "/send", body)
    rows = []
    for name, kind, ping_goal, send_goal in (
        ("Starlette", "starlette", 0.75, 0.5),
        ("without a framework", "asgi", 0.0, 0.0),
    ):
        other = stack.enter_context(bare("web", kind))
        rows += [
            Row(
                f"HTTP: GET /ping, beside a bare route ({name})",
                ping_goal,
                partial(calls, other, ping, 500),
                partial(calls, own, ping, 500),
            ),
            Row(
                f"HTTP: send 100 × 200 B, beside a bare route that decodes ({name})",
                send_goal,
                partial(calls, other, decoded, 200),
                partial(calls, own, send, 200),
                written_bytes=200 * len(body),
            ),
        ]
    return rows


# ---- QUIC ---------------------------------------------------------------------------------------


class Background:
    """A loop that runs while other rows have their turns, so that no connection falls silent."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, waited: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(waited, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def opened_quic(host: str, port: int) -> AbstractAsyncContextManager[QuicConnectionProtocol]:
    configuration = QuicConfiguration(verify_mode=ssl.CERT_NONE, server_name="localhost")
    return connect(host, port, configuration=configuration)


class QuicSide:
    """A connection to one of the two servers."""

    def __init__(self, background: Background, address: tuple[str, int], pid: int) -> None:
        self._background, self._pid = background, pid
        self._opening = opened_quic(*address)
        self.client = QuicClient(background.run(self._entered()))

    async def _entered(self) -> QuicConnectionProtocol:
        return await self._opening.__aenter__()

    async def _left(self) -> None:
        await self._opening.__aexit__(None, None, None)

    def answers(self, frame: bytes, requests: int, size: int) -> Measured:
        """Streams in turn, by the processor time that the server takes for them."""
        before = cpu_seconds(self._pid)
        self._background.run(self._exchanged(frame, requests, size))
        return Measured(requests, cpu_seconds(self._pid) - before, [0.0])

    async def _exchanged(self, frame: bytes, requests: int, size: int) -> None:
        for _ in range(requests):
            answer = await self.client.exchange(frame)
            assert len(answer) == size, answer[:8]

    def call(self, request: Any) -> None:
        self._background.run(self.client.call(request))

    def close(self) -> None:
        self._background.run(self._left())


def quic(stack: ExitStack, server: RunningServer) -> list[Row]:
    background = stack.enter_context(closing(Background()))
    address, pid = stack.enter_context(bare_process("quic"))
    other = QuicSide(background, address, pid)
    own = QuicSide(background, server.addresses["quic"], server.process.pid)
    stack.callback(other.close)
    stack.callback(own.close)
    own.call(LoginUser("iggy", "iggy"))
    send, poll = send_frame(1000, 1000), poll_frame(0, 1000)
    size = RESPONSE_PREFIX.size + 16 + 1000 * 1064
    return [
        Row(
            "QUIC: send 1000 × 1000 B, by processor time",
            0.7,
            lambda: other.answers(send, 3, 8),
            lambda: own.answers(send, 3, 8),
            turns=3,
            written_bytes=3 * len(send),
        ),
        Row(
            "QUIC: poll 1000 × 1000 B, by processor time",
            0.7,
            lambda: other.answers(str(size - 8).encode(), 3, size),
            lambda: own.answers(poll, 3, size),
            turns=3,
        ),
    ]


# ---- lines --------------------------------------------------------------------------------------

UPLOADED_BYTES = 1_000_000_000
HELD_BYTES_MAX = 64_000_000


def lines(count: int) -> bytes:
    line = json.dumps({"payload": base64.b64encode(b"x" * 1000).decode()}).encode() + b"\n"
    return line * count


def resident_bytes(server: RunningServer, field: str) -> int:
    """`VmRSS` is what it holds, `VmHWM` the most that it held since `forget_peak`."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def forget_peak(server: RunningServer) -> None:
    Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")


def upload() -> bool:
    """A gigabyte as one call; what the server holds more than before it."""
    piece = lines(700)
    with running_server(EVERYTHING) as server:
        prepared(server).close()
        forget_peak(server)
        before = resident_bytes(server, "VmRSS")
        client = http.client.HTTPConnection(*server.addresses["http"])
        headers = {
            "Content-Type": "application/x-ndjson",
            "Authorization": f"Bearer {token_of(server)}",
            "Transfer-Encoding": "chunked",
        }
        count = UPLOADED_BYTES // len(piece)

        def pieces() -> Iterator[bytes]:
            for _ in range(count):
                yield piece

        begun, used = time.perf_counter(), cpu_seconds(server.process.pid)
        path = "/streams/bench/topics/topic/messages?partition_id=0"
        client.request("POST", path, pieces(), headers, encode_chunked=True)
        answer = json.load(client.getresponse())
        seconds, used = time.perf_counter() - begun, cpu_seconds(server.process.pid) - used
        assert answer == {"messages_count": 700 * count}, answer
        held = resident_bytes(server, "VmHWM") - before
        client.close()
    megabytes = count * len(piece) / 1e6
    ok = held <= HELD_BYTES_MAX
    print(
        f"| HTTP: {megabytes:,.0f} MB of lines in one call | | {megabytes / seconds:,.0f} MB/s,"
        f" {megabytes / used:,.0f} per second of processor | holds {held / 1e6:.0f} MB"
        f" | ≤ {HELD_BYTES_MAX / 1e6:.0f} | {'ok' if ok else 'MISSED'} |",
        flush=True,
    )
    return ok


SECTIONS: tuple[Callable[[ExitStack, RunningServer], list[Row]], ...] = (websockets, web, quic)


def main() -> int:
    print("| workload | beside | borzoi | ratio | goal | |")
    print("|---|---|---|---|---|---|")
    with ExitStack() as stack:
        server = stack.enter_context(running_server(EVERYTHING))
        rows = [row for section in SECTIONS for row in section(stack, server)]
        results = compare(rows)
    results.append(upload())
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
