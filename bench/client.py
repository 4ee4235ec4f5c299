"""The client compared with a bare socket and with the published Python client (Rust core).

Ratios of one run against the same server. Rows with a rate as their goal count messages a second.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import uvloop
from tests.support.server import directory_in_memory, running_server

from bench.comparing import Row, compare
from bench.load import Measured, connected, send_over_and_over
from borzoi.client import AsyncClient, Client
from borzoi.client.sending import encode, send_parts
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.partitioning import Partitioning
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request

MESSAGES = 1000
#: Requests of one turn.
REQUESTS = 40
#: Batches that are there to be polled.
STORED = 100
SIZES = (1000, 100)

RATE_GOALS = {
    "poll and iterate, 100 B (async)": 1_000_000.0,
    "background producer, 100 B": 400_000.0,
}


class Subjects:
    """One connection of each kind to one server."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.url = "borzoi://iggy:iggy@{}:{}?heartbeat_interval=0".format(*address)
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.bare = connected(address)
        self.bare.sendall(encode_request(LoginUser("iggy", "iggy")))
        assert self.bare.recv(100)[:4] == bytes(4)
        self.client = AsyncClient(self.url)
        self.runner.run(self.client.connect())
        self.payloads = {size: [b"x" * size] * MESSAGES for size in SIZES}

    def close(self) -> None:
        self.runner.run(self.client.close())
        self.runner.close()
        self.bare.close()


def topics(url: str) -> None:
    with Client(url) as client:
        for size in SIZES:
            for name in ("bare", "async", "stored", "producer"):
                client.ensure_topic(f"bench/{name}-{size}")
            for _ in range(STORED):
                client.send_messages(f"bench/stored-{size}", [b"x" * size] * MESSAGES, partition=0)


def purge(subjects: Subjects, name: str) -> None:
    """Neither side pays for what it wrote before."""
    subjects.runner.run(subjects.client.purge_topic(f"bench/{name}"))


def timed(requests: int, act: Callable[[], None]) -> Measured:
    begun = time.perf_counter()
    act()
    return Measured(requests, time.perf_counter() - begun, [0.0])


def bare_send(subjects: Subjects, size: int) -> Measured:
    encoded = encode(subjects.payloads[size], now=1)
    target = ("bench", f"bare-{size}", Partitioning.partition(0))
    frame = b"".join(send_parts(*target, encoded))
    purge(subjects, f"bare-{size}")
    return send_over_and_over(subjects.bare, frame, REQUESTS)


def async_send(subjects: Subjects, size: int) -> Measured:
    payloads, client = subjects.payloads[size], subjects.client

    async def send() -> None:
        for _ in range(REQUESTS):
            await client.send_messages(f"bench/async-{size}", payloads, partition=0)

    purge(subjects, f"async-{size}")
    return timed(REQUESTS, lambda: subjects.runner.run(send()))


def bare_poll(subjects: Subjects, size: int) -> Measured:
    frames = [
        encode_request(
            PollMessages(
                Consumer(ConsumerKind.CONSUMER, 0),
                "bench",
                f"stored-{size}",
                0,
                PollingStrategy.offset(number * MESSAGES),
                MESSAGES,
            )
        )
        for number in range(STORED)
    ]
    buffer = memoryview(bytearray(8 << 20))

    def poll() -> None:
        for number in range(REQUESTS):
            subjects.bare.sendall(frames[number % STORED])
            filled, wanted = 0, RESPONSE_PREFIX.size
            while filled < wanted:
                filled += subjects.bare.recv_into(buffer[filled:])
                if filled >= RESPONSE_PREFIX.size:
                    wanted = RESPONSE_PREFIX.size + RESPONSE_PREFIX.unpack_from(buffer)[1]

    return timed(REQUESTS, poll)


def async_poll(subjects: Subjects, size: int) -> Measured:
    client = subjects.client

    async def poll() -> None:
        total = 0
        for number in range(REQUESTS):
            polled = await client.poll_messages(
                f"bench/stored-{size}",
                partition=0,
                start=number % STORED * MESSAGES,
                count=MESSAGES,
            )
            for message in polled:
                total += len(message.payload)
        assert total == REQUESTS * MESSAGES * size

    return timed(REQUESTS, lambda: subjects.runner.run(poll()))


def background(subjects: Subjects, size: int) -> Measured:
    client, payload, count = subjects.client, b"x" * size, 50 * MESSAGES

    async def produce() -> None:
        async with client.producer(
            f"bench/producer-{size}", background=True, linger=0.001, batch_messages=MESSAGES
        ) as producer:
            for _ in range(count):
                await producer.send(payload, partition=0)

    purge(subjects, f"producer-{size}")
    return timed(count, lambda: subjects.runner.run(produce()))


# ---- the published client, in a process of its own ----------------------------------------------

PUBLISHED = Path(__file__).with_name("published_client.py")


def published(url_address: tuple[str, int]) -> dict[str, float]:
    """Requests a second of the published client, by row; none where it is not installed."""
    done = subprocess.run(
        [sys.executable, PUBLISHED, "{}:{}".format(*url_address), str(REQUESTS)],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    if done.returncode:
        print(f"apache-iggy is not there: {done.stderr.strip().splitlines()[-1]}")
        return {}
    lines = (line.split() for line in done.stdout.splitlines())
    return {f"{what} {size}": float(rate) for what, size, rate in lines}


def beside_published(subjects: Subjects, address: tuple[str, int]) -> bool:
    """Rounds of both in turn; ours has to be ahead in each row."""
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    for _ in range(3):
        for row, rate in published(address).items():
            theirs.setdefault(row, []).append(rate)
        for size in SIZES:
            ours.setdefault(f"send {size}", []).append(async_send(subjects, size).rate)
            ours.setdefault(f"poll {size}", []).append(async_poll(subjects, size).rate)
    ok = True
    for row, rates in theirs.items():
        mine, other = statistics.median(ours[row]), statistics.median(rates)
        ahead = mine > other
        ok &= ahead
        print(
            f"| {row} B × {MESSAGES} | apache-iggy {other:,.0f}/s | ours {mine:,.0f}/s"
            f" | {mine / other:.2f} | > 1 |{' ok' if ahead else ' MISSED'} |",
            flush=True,
        )
    return ok


def rates(subjects: Subjects) -> bool:
    """Rows whose goal is a number of messages a second; the best of five counts."""
    ok = True
    measured = {
        "poll and iterate, 100 B (async)": [
            async_poll(subjects, 100).rate * MESSAGES for _ in range(5)
        ],
        "background producer, 100 B": [background(subjects, 100).rate for _ in range(5)],
    }
    for row, found in measured.items():
        reached = max(found) >= RATE_GOALS[row]
        ok &= reached
        print(
            f"| {row} | {max(found):,.0f} messages/s | ≥ {RATE_GOALS[row]:,.0f}"
            f" |{' ok' if reached else ' MISSED'} |",
            flush=True,
        )
    return ok


def main() -> int:
    with directory_in_memory() as directory, running_server(directory=directory) as server:
        subjects = Subjects(server.tcp_address)
        topics(subjects.url)
        try:
            rows = [
                Row(
                    "send 1000 × 1000 B",
                    0.80,
                    lambda: bare_send(subjects, 1000),
                    lambda: async_send(subjects, 1000),
                ),
                Row(
                    "poll and iterate 1000 × 1000 B",
                    0.70,
                    lambda: bare_poll(subjects, 1000),
                    lambda: async_poll(subjects, 1000),
                ),
            ]
            reached = [
                *compare(rows),
                rates(subjects),
                beside_published(subjects, server.tcp_address),
            ]
        finally:
            subjects.close()
    return 0 if all(reached) else 1
