"""The published Python client, whose core is the Rust SDK, with its defaults.

It makes its frames anew for each request and leaves Nagle's algorithm on, which frames that were
made once hide. The two sides are one server without the accelerator and one with it.
"""

import asyncio
import importlib.util
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from tests.support.server import RunningServer, running_server

from bench.comparing import Row, compare
from bench.load import Measured, mixed_sizes
from borzoi.records.accelerator import ACCELERATOR

#: Name, sizes of the messages, requests of one turn.
BATCHES: tuple[tuple[str, list[int], int], ...] = (
    ("1 × 200 B", [200], 200),
    ("10 × 1000 B", [1000] * 10, 100),
    ("100 × 1000 B", [1000] * 100, 50),
    ("1000 × 1000 B", [1000] * 1000, 10),
    ("1000 × 100 B", [100] * 1000, 20),
    ("1000 × 200-2000 B", mixed_sizes(1000, 2000), 10),
)
#: Messages of a poll, requests of one turn.
POLLS = ((1, 200), (100, 50), (1000, 10))
#: The accelerator must not make anything slower, noise aside.
GOAL = 0.9


def row(name: str, plain: Callable[[], Measured], own: Callable[[], Measured]) -> Row:
    return Row(name, GOAL, plain, own, p50=True)


class Published:
    """A connected client, and the loop that it lives on."""

    def __init__(self, server: RunningServer, loop: asyncio.AbstractEventLoop) -> None:
        import apache_iggy

        self._library, self._loop = apache_iggy, loop
        self._client = loop.run_until_complete(self._connected("{}:{}".format(*server.tcp_address)))

    async def _connected(self, address: str) -> Any:
        client = self._library.IggyClient(address)
        await client.connect()
        await client.login_user("iggy", "iggy")
        await client.create_stream("bench")
        await client.create_topic("bench", "topic", partitions_count=1)
        return client

    def send(self, sizes: list[int], requests: int) -> Measured:
        payloads = [b"x" * size for size in sizes]
        return self._loop.run_until_complete(self._send(payloads, requests))

    async def _send(self, payloads: list[bytes], requests: int) -> Measured:
        make = self._library.SendMessage
        latencies = []
        for _ in range(requests):
            messages = [make(payload) for payload in payloads]  # a message can be sent once
            begin = time.perf_counter()
            await self._client.send_messages("bench", "topic", 0, messages)
            latencies.append(time.perf_counter() - begin)
        return Measured(requests, sum(latencies), latencies)

    def poll(self, count: int, requests: int) -> Measured:
        return self._loop.run_until_complete(self._poll(count, requests))

    async def _poll(self, count: int, requests: int) -> Measured:
        strategy = self._library.PollingStrategy.Offset(value=0)
        latencies = []
        for _ in range(requests):
            begin = time.perf_counter()
            polled = await self._client.poll_messages("bench", "topic", 0, strategy, count, False)
            latencies.append(time.perf_counter() - begin)
            assert len(polled) == count
        return Measured(requests, sum(latencies), latencies)


def measure() -> list[bool]:
    if importlib.util.find_spec("apache_iggy") is None:
        print("\nThe published client is not installed: uv sync --group interop")
        return []
    if ACCELERATOR.native is None:
        print("\nThe rows of the published client need the accelerator on one of their sides.")
        return []
    print("\n| apache-iggy 0.8.0, one connection | in Python | accelerated | ratio | goal | |")
    print("|---|---|---|---|---|---|")
    loop = asyncio.new_event_loop()
    with ExitStack() as stack:
        plain = Published(stack.enter_context(running_server({"ACCELERATOR": "off"})), loop)
        own = Published(stack.enter_context(running_server({"ACCELERATOR": "on"})), loop)
        rows = [
            row(f"send {name}", partial(plain.send, sizes, n), partial(own.send, sizes, n))
            for name, sizes, n in BATCHES
        ]
        rows += [
            row(f"poll {polls[0]}", partial(plain.poll, *polls), partial(own.poll, *polls))
            for polls in POLLS
        ]
        results = compare(rows)
    loop.close()
    return results
