"""Load for the wire benchmarks: frames made once, sent over and over, answers awaited in turn."""

import contextlib
import selectors
import socket
import time
from dataclasses import dataclass

from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.messages import PollMessages, SendMessages
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request
from borzoi.records.message import Message, encode_messages


@dataclass(frozen=True)
class Measured:
    """What one run of a load gave."""

    requests: int
    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def connected(address: tuple[str, int]) -> socket.socket:
    sock = socket.create_connection(address)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def send_frame(count: int, payload_bytes: int, *, partition_id: int = 0) -> bytes:
    messages = [Message(b"x" * payload_bytes) for _ in range(count)]
    indexes, body = encode_messages(messages)
    return encode_request(
        SendMessages(
            0, 0, Partitioning.partition(partition_id), count, memoryview(indexes), memoryview(body)
        )
    )


def poll_frame(offset: int, count: int, *, partition_id: int = 0) -> bytes:
    consumer = Consumer(ConsumerKind.CONSUMER, 1)
    strategy = PollingStrategy.offset(offset)
    return encode_request(PollMessages(consumer, 0, 0, partition_id, strategy, count))


def send_over_and_over(sock: socket.socket, frame: bytes, requests: int) -> Measured:
    """One request after another; every answer must be a plain success."""
    answer = bytearray(8)
    latencies = []
    begun = time.perf_counter()
    for _ in range(requests):
        before = time.perf_counter()
        sock.sendall(frame)
        received = sock.recv_into(answer)
        while received < 8:
            received += sock.recv_into(memoryview(answer)[received:])
        latencies.append(time.perf_counter() - before)
        assert answer == b"\0" * 8, answer
    return Measured(requests, time.perf_counter() - begun, latencies)


def send_on_all(socks: list[socket.socket], frame: bytes, requests: int) -> Measured:
    """Each connection sends its next small request as soon as its last one was answered."""
    left = dict.fromkeys(socks, requests)
    begun = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for sock in socks:
            selector.register(sock, selectors.EVENT_READ)
            sock.sendall(frame)
        while left:
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                sock = key.fileobj
                answer = sock.recv(8)
                assert answer == b"\0" * 8, answer
                left[sock] -= 1
                if left[sock]:
                    sock.sendall(frame)
                else:
                    selector.unregister(sock)
                    del left[sock]
    return Measured(requests * len(socks), time.perf_counter() - begun, [0.0])


def poll_over_and_over(sock: socket.socket, frames: list[bytes], requests: int) -> Measured:
    """Polls in turn; the answers are received and thrown away.

    The load never sleeps: how often a client that sleeps is woken while its megabyte arrives is
    chance, and made the rates of one and the same server differ by four.
    """
    buffer = memoryview(bytearray(8 << 20))
    latencies = []
    begun = time.perf_counter()
    for number in range(requests):
        before = time.perf_counter()
        sock.sendall(frames[number % len(frames)])
        sock.setblocking(False)
        filled = _received(sock, buffer, 0, RESPONSE_PREFIX.size)
        status, length = RESPONSE_PREFIX.unpack_from(buffer)
        assert status == 0, status
        _received(sock, buffer, filled, RESPONSE_PREFIX.size + length)
        sock.setblocking(True)
        latencies.append(time.perf_counter() - before)
    return Measured(requests, time.perf_counter() - begun, latencies)


def _received(sock: socket.socket, buffer: memoryview, filled: int, wanted: int) -> int:
    """Receive until `wanted` bytes are there, or more."""
    while filled < wanted:
        with contextlib.suppress(BlockingIOError):
            filled += sock.recv_into(buffer[filled:])
    return filled
