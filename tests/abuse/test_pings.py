"""Bursts of requests before a login: others do not wait for them."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.support.attackers import attacking
from tests.support.embedded import embedded_server
from tests.support.good_client import measured, percentile
from tests.support.listening import tcp_listener
from tests.support.server import running_server

from borzoi.listeners.shares import FRAMES_BEFORE_LOGIN

pytestmark = pytest.mark.system

CONNECTIONS = 20
TURNS = 2000


async def test_a_turn_of_the_loop_answers_few_requests_of_strangers(tmp_path: Path) -> None:
    """A client that asks one thing waits for one turn or two, and this is what is in a turn. All
    that one read brings would be 8,192 requests, of each connection."""
    async with embedded_server(tmp_path / "data") as server, tcp_listener(server) as listener:
        requests = 0
        frames: list[float] = []
        works: list[float] = []
        respond = server.binary.respond

        def counted(*arguments: object) -> object:
            nonlocal requests
            requests += 1
            return respond(*arguments)  # type: ignore[arg-type]

        server.binary.respond = counted  # type: ignore[assignment, method-assign]
        attack = attacking("pings", listener.address, CONNECTIONS)
        await asyncio.to_thread(attack.__enter__)
        try:
            while len(frames) < TURNS or not requests:
                before, began = requests, time.thread_time()
                await asyncio.sleep(0)
                works.append(time.thread_time() - began)
                frames.append(requests - before)
        finally:
            await asyncio.to_thread(attack.__exit__, None, None, None)
    print(f"a turn: p99 {percentile(frames):.0f} requests, {percentile(works) * 1000:.2f} ms")
    # Each connection may have its first share in the same turn, and the line a few more.
    assert max(frames) <= 4 * CONNECTIONS * FRAMES_BEFORE_LOGIN


def test_a_good_client_is_served_beside_bursts_of_pings() -> None:
    with running_server() as server:
        alone = measured(server)
        with attacking("pings", server.tcp_address, CONNECTIONS):
            beside = measured(server)
        print(f"alone {alone}; beside 20 connections with bursts of pings {beside}")
        # It was seconds; what remains depends on who else uses the machine. The bench has figures.
        assert beside.work < 0.05
