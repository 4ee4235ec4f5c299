"""Load for the wire benchmarks: frames made once, sent over and over, answers awaited in turn."""

import contextlib
import random
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat

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


#: Where published clients cut a request: the length and the code are a write of their own.
FIRST_WRITE_BYTES = 8


def connected(address: tuple[str, int]) -> socket.socket:
    sock = socket.create_connection(address)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def send_frame(count: int, payload_bytes: int, *, partition_id: int = 0) -> bytes:
    return _send_frame([payload_bytes] * count, partition_id)


def mixed_send_frame(count: int, payload_bytes_max: int, *, partition_id: int = 0) -> bytes:
    return _send_frame(mixed_sizes(count, payload_bytes_max), partition_id)


def mixed_sizes(count: int, largest: int) -> list[int]:
    """From a tenth of the largest on; always the same ones."""
    draw = random.Random(count)
    return [draw.randint(largest // 10, largest) for _ in range(count)]


def _send_frame(sizes: list[int], partition_id: int) -> bytes:
    indexes, body = encode_messages([Message(b"x" * size) for size in sizes])
    return encode_request(
        SendMessages(
            0,
            0,
            Partitioning.partition(partition_id),
            len(sizes),
            memoryview(indexes),
            memoryview(body),
        )
    )


def poll_frame(offset: int, count: int, *, partition_id: int = 0) -> bytes:
    consumer = Consumer(ConsumerKind.CONSUMER, 1)
    strategy = PollingStrategy.offset(offset)
    return encode_request(PollMessages(consumer, 0, 0, partition_id, strategy, count))


def send_over_and_over(
    sock: socket.socket, frame: bytes, requests: int, *, two_writes: bool = False
) -> Measured:
    """One request after another; every answer must be a plain success."""
    cut = FIRST_WRITE_BYTES if two_writes else len(frame)
    first, rest = frame[:cut], frame[cut:]
    answer = bytearray(8)
    latencies = []
    begun = time.perf_counter()
    for _ in range(requests):
        before = time.perf_counter()
        sock.sendall(first)
        if rest:
            sock.sendall(rest)
        received = sock.recv_into(answer)
        while received < 8:
            received += sock.recv_into(memoryview(answer)[received:])
        latencies.append(time.perf_counter() - before)
        assert answer == b"\0" * 8, answer
    return Measured(requests, time.perf_counter() - begun, latencies)


def send_on_all(socks: list[socket.socket], frame: bytes, requests: int) -> Measured:
    """Each connection sends its next small request as soon as its last one was answered."""
    frames = dict.fromkeys(socks, repeat(frame))
    return exchange_on_all(frames, requests, lambda answer: answer == bytes(8))


def poll_on_all(socks: list[socket.socket], frame: bytes, requests: int) -> Measured:
    """The same with polls, whose answers are small enough to come in one piece."""
    return exchange_on_all(dict.fromkeys(socks, repeat(frame)), requests, is_whole)


def is_whole(answer: bytes) -> bool:
    """Whether this is one successful response frame."""
    status, length = RESPONSE_PREFIX.unpack_from(answer)
    return bool(status == 0 and len(answer) == RESPONSE_PREFIX.size + length)


def exchange_on_all(
    frames: Mapping[socket.socket, Iterator[bytes]],
    requests: int,
    is_right: Callable[[bytes], bool],
) -> Measured:
    """All connections at once from one thread, so the load costs the same for every server."""
    left = dict.fromkeys(frames, requests)
    latencies = []
    clock = time.perf_counter
    begun = clock()
    asked = dict.fromkeys(frames, begun)
    with selectors.DefaultSelector() as selector:
        for sock, ahead in frames.items():
            selector.register(sock, selectors.EVENT_READ)
            asked[sock] = clock()
            sock.sendall(next(ahead))
        while left:
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                sock = key.fileobj
                answer = sock.recv(65536)
                now = clock()
                assert is_right(answer), answer
                latencies.append(now - asked[sock])
                left[sock] -= 1
                if left[sock]:
                    asked[sock] = now
                    sock.sendall(next(frames[sock]))
                else:
                    selector.unregister(sock)
                    del left[sock]
    return Measured(requests * len(frames), clock() - begun, latencies)


def poll_over_and_over(
    sock: socket.socket, frames: list[bytes], requests: int, *, head_bytes: int = 0
) -> Measured:
    """Polls in turn; the answers are received and thrown away. `head_bytes` is what a transport
    puts before each.

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
        filled = _received(sock, buffer, 0, head_bytes + RESPONSE_PREFIX.size)
        status, length = RESPONSE_PREFIX.unpack_from(buffer, head_bytes)
        assert status == 0, status
        _received(sock, buffer, filled, head_bytes + RESPONSE_PREFIX.size + length)
        sock.setblocking(True)
        latencies.append(time.perf_counter() - before)
    return Measured(requests, time.perf_counter() - begun, latencies)


def _received(sock: socket.socket, buffer: memoryview, filled: int, wanted: int) -> int:
    """Receive until `wanted` bytes are there, or more."""
    while filled < wanted:
        with contextlib.suppress(BlockingIOError):
            filled += sock.recv_into(buffer[filled:])
    return filled
