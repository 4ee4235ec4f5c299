"""The test broker: how long until it is ready, and how long a clean state takes.

The best of several rounds counts, because what else the machine does can only make them longer.
The processor time of a start is shown beside its duration for the same reason.
"""

import asyncio
import time
from collections.abc import Callable

from bench.comparing import cpu_seconds
from borzoi.client import Client
from borzoi.pytest_plugin import SessionServer
from borzoi.testing import Server

STARTS = 7
TESTS = 20
START_SECONDS_MAX = 0.300
CLEAN_SECONDS_MAX = 0.020


def seconds(act: Callable[[], None]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def in_a_process() -> tuple[float, float]:
    """How long a start takes, and how much of a processor."""
    server = Server()
    try:
        took = seconds(server.start)
        assert server._process is not None
        return took, cpu_seconds(server._process.pid)
    finally:
        server.__exit__(None, None, None)


async def in_the_loop() -> float:
    begun = time.perf_counter()
    async with Server():
        return time.perf_counter() - begun


def clean_states() -> list[float]:
    """What a test pays for: everything that the last one made goes, and a client connects."""
    broker = SessionServer()
    try:
        taken = []
        for _ in range(TESTS):
            with broker.connected() as client:
                for topic in ("orders/events", "orders/faults", "audit/log"):
                    client.ensure_topic(topic, partitions=2)
                    client.send_messages(topic, [b"x" * 100] * 100, partition=0)
                client.create_consumer_group("orders/events", "billing")
                client.create_user("someone", "secret")
            next_client = broker.connected()

            def clean(client: Client = next_client) -> None:
                broker.recover()
                client.connect()

            taken.append(seconds(clean))
            next_client.close()
        return taken
    finally:
        broker.close()


def told(row: str, found: float, most: float, more: str = "") -> bool:
    reached = found <= most
    print(
        f"| {row} | {found * 1000:.1f} ms | ≤ {most * 1000:.0f} ms{more}"
        f" |{' ok' if reached else ' MISSED'} |",
        flush=True,
    )
    return reached


def main() -> int:
    starts = [in_a_process() for _ in range(STARTS)]
    loops = [asyncio.run(in_the_loop()) for _ in range(STARTS)]
    cleans = clean_states()
    processor = min(used for _, used in starts) * 1000
    reached = [
        told(
            "Server, ready in a process",
            min(took for took, _ in starts),
            START_SECONDS_MAX,
            f" | {processor:.0f} ms of processor",
        ),
        told("Server, ready in the running loop", min(loops), START_SECONDS_MAX),
        told("clean state between two tests", min(cleans), CLEAN_SECONDS_MAX),
    ]
    return 0 if all(reached) else 1
