"""This version's server compared with another version's, in turns, with the load of `bench.server`.

The other version is named by the Python of its environment, for example that of a checkout of an
older commit: ``python -m bench.versions ../older/.venv/bin/python``. A row is lost when it falls
below 0.97 of what the other version reaches.

To show so little, three servers take turns: one of the other version and two of this one. Each goes
first, second and third as often as the others, and each follows each of the others as often. The
two of this version show how far apart equal servers are ("itself"); both count in the ratio. All
rows are repeated with new processes, because the addresses and the pages that a process happens to
get decide a few hundredths.
"""

import asyncio
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle, permutations
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.support.server import RunningServer, running_server

from bench import many, published, writing
from bench.comparing import MIB, all_of, cpu_seconds, make_pages_ready
from bench.load import (
    Measured,
    exchange_on_all,
    is_whole,
    poll_frame,
    poll_on_all,
    poll_over_and_over,
    send_frame,
    send_on_all,
    send_over_and_over,
)
from bench.published import Published
from bench.server import connection_bytes, resident_bytes, together
from bench.shards import asked
from bench.sides import logged_in, prepared
from borzoi.protocol.commands.topics import PurgeTopic

#: How often all servers are started, and the rounds of each row with the same processes.
STARTS = 3
ROUNDS = 4
#: Starts of each version to measure how soon it is ready.
IDLE_STARTS = 11
#: What no row may fall below.
GOAL = 0.97

#: The sides, in this order.
OTHER, THIS, AGAIN = range(3)
#: Who goes first, second and third in the turns of a round.
ORDERS = tuple(permutations((OTHER, THIS, AGAIN)))


class Workload(NamedTuple):
    """One turn of load on one server."""

    name: str
    turn: Callable[[], Measured]
    #: By one turn.
    written_bytes: int = 0


class Side(NamedTuple):
    """A server, and what is done to it."""

    server: RunningServer
    workloads: list[Workload]
    #: What a round of a workload begins with.
    begin: Callable[[], None]


class Compared:
    """What the rounds of one row gave: ratios of this version to the other one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._other_rate: list[float] = []
        self._rate: list[float] = []
        self._cpu: list[float] = []
        self._itself: list[float] = []

    def take_round(self, sides: list[Side], number: int) -> None:
        """A turn of this row, the one of this number, for each order of the sides."""
        for side in sides:
            side.begin()
        # Flush first: above a limit of dirty pages the kernel makes writers wait.
        os.sync()
        written = sides[OTHER].workloads[number].written_bytes
        make_pages_ready(len(ORDERS) * len(sides) * written)
        turns: list[list[Measured]] = [[] for _ in sides]
        used = [0.0 for _ in sides]
        for order in ORDERS:
            for which in order:
                pid = sides[which].server.process.pid
                before = cpu_seconds(pid)
                turns[which].append(sides[which].workloads[number].turn())
                used[which] += cpu_seconds(pid) - before
        other, this, again = (all_of(taken).rate for taken in turns)
        self._other_rate.append(other)
        self._rate.append((this + again) / 2 / other)
        self._cpu.append((used[THIS] + used[AGAIN]) / 2 / used[OTHER])
        self._itself.append(again / this)

    def told(self) -> bool:
        """Print the medians; whether the row is not lost."""
        rate, cpu, itself = median(self._rate), median(self._cpu), median(self._itself)
        is_kept = rate >= GOAL
        print(
            f"| {self.name} | {median(self._other_rate):,.0f}/s | {rate:.2f} | {cpu:.2f}"
            f" | {itself:.2f} | ≥ {GOAL} | {'ok' if is_kept else 'MISSED'} |"
        )
        return is_kept


# ---- the workloads of `bench.server` ------------------------------------------------------------


def nothing() -> None:
    """A round that needs no preparation."""


def sends(server: RunningServer) -> Side:
    one = prepared(server)
    four = [logged_in(server) for _ in range(4)]
    frames = [send_frame(1000, 1000, partition_id=number) for number in range(4)]
    found = []
    for name, frame, requests in (
        ("send 1000 × 1000 B, 1 connection", frames[0], 30),
        ("send 1000 × 100 B, 1 connection", send_frame(1000, 100), 100),
        ("send 1 × 1000 B per request", send_frame(1, 1000), 1000),
    ):
        turn = partial(send_over_and_over, one, frame, requests)
        found.append(Workload(name, turn, requests * len(frame)))
    turn = partial(together, four, frames, 10)
    found.append(Workload("send 1000 × 1000 B, 4 connections", turn, 40 * len(frames[0])))
    own = writing.Side(server.process.pid, logged_in(server))
    found += [
        Workload(name, partial(own.turn, frame, requests, how), requests * len(frame))
        for name, frame, _, requests, how in writing.cases()
    ]
    return Side(server, found, partial(asked, one, PurgeTopic(0, 0)))


def polls(server: RunningServer, name: str) -> Side:
    one = prepared(server)
    send_over_and_over(one, send_frame(1000, 1000), 100)
    frames = [poll_frame(number * 1000, 1000) for number in range(100)]
    turn = partial(poll_over_and_over, one, frames, 100)
    return Side(server, [Workload(f"poll 1000 × 1000 B, {name}", turn)], nothing)


def synced(server: RunningServer) -> Side:
    prepared(server)
    connections = [logged_in(server) for _ in range(32)]
    turn = partial(send_on_all, connections, send_frame(4, 960), 10)
    return Side(server, [Workload("synced, 4 KiB, 32 connections", turn)], nothing)


def small(server: RunningServer) -> Side:
    """Many connections; see `bench/many.py`."""
    owns = [prepared(server), *[logged_in(server) for _ in range(max(many.CONNECTIONS) - 1)]]
    send, poll = send_frame(1, many.MESSAGE_BYTES), poll_frame(0, 1)
    send_on_all(owns[:1], send, many.MESSAGES)  # for the polls
    found = []
    for name, frame, load in (("send", send, send_on_all), ("poll", poll, poll_on_all)):
        for count in many.CONNECTIONS:
            turn = partial(load, owns[:count], frame, many.TURN_REQUESTS // count)
            found.append(Workload(f"{name} 1 × {many.MESSAGE_BYTES} B, {count} connections", turn))
    for where, polled in many.places():
        frames = {sock: cycle(each) for sock, each in zip(owns, polled, strict=False)}
        turn = partial(exchange_on_all, frames, many.TURN_REQUESTS // len(polled), is_whole)
        name = f"poll 1 × {many.MESSAGE_BYTES} B, {len(polled)} connections, {where}"
        found.append(Workload(name, turn))
    return Side(server, found, nothing)


def through_published(loop: asyncio.AbstractEventLoop, server: RunningServer) -> Side:
    client = Published(server, loop)
    found = [
        Workload(f"apache-iggy, send {name}", partial(client.send, sizes, requests))
        for name, sizes, requests in published.BATCHES
    ]
    found += [
        Workload(f"apache-iggy, poll {count}", partial(client.poll, count, requests))
        for count, requests in published.POLLS
    ]
    return Side(server, found, nothing)


# ---- the comparison -----------------------------------------------------------------------------


@contextmanager
def three(
    python: str, settings: dict[str, str], side: Callable[[RunningServer], Side]
) -> Iterator[list[Side]]:
    with ExitStack() as stack:
        yield [
            side(stack.enter_context(running_server(settings, python=each)))
            for each in (python, sys.executable, sys.executable)
        ]


def compared(python: str) -> list[Compared]:
    loop = asyncio.new_event_loop()
    groups: list[tuple[dict[str, str], Callable[[RunningServer], Side]]] = [
        ({}, sends),
        ({}, partial(polls, name="open segment")),
        ({"SYSTEM_SEGMENT_SIZE": "16 MiB"}, partial(polls, name="sealed segments")),
        ({"SYSTEM_PARTITION_ACKNOWLEDGE": "synced"}, synced),
        ({}, small),
    ]
    if importlib.util.find_spec("apache_iggy") is not None:
        groups.append(({}, partial(through_published, loop)))
    found: dict[str, Compared] = {}
    for _ in range(STARTS):
        for settings, side in groups:
            with three(python, settings, side) as sides:
                names = [workload.name for workload in sides[OTHER].workloads]
                for _ in range(ROUNDS):
                    for number, name in enumerate(names):
                        found.setdefault(name, Compared(name)).take_round(sides, number)
    loop.close()
    return list(found.values())


def idle(python: str) -> list[bool]:
    """How soon each version is ready, its memory when idle, and that of an idle connection."""
    measured: dict[str, dict[str, list[float]]] = {
        name: {python: [], sys.executable: []}
        for name in ("ready after, s", "idle, MiB", "idle connection, B")
    }
    for _ in range(IDLE_STARTS):
        for each in (python, sys.executable):
            begun = time.perf_counter()
            with running_server(python=each) as server:
                measured["ready after, s"][each].append(time.perf_counter() - begun)
                measured["idle, MiB"][each].append(resident_bytes(server) / MIB)
                measured["idle connection, B"][each].append(connection_bytes(server, 1000))
    results = []
    for name, taken in measured.items():
        theirs, ours = median(taken[python]), median(taken[sys.executable])
        results.append(theirs / ours >= GOAL)
        print(
            f"| {name} | {theirs:,.2f} | {theirs / ours:.2f} | - | - | ≥ {GOAL}"
            f" | {'ok' if results[-1] else 'MISSED'} |"
        )
    return results


def main(python: str) -> int:
    rows = compared(python)
    print("| workload | other version | ratio | CPU | itself | goal | |")
    print("|---|---|---|---|---|---|---|")
    results = [row.told() for row in rows]
    return 0 if all(results + idle(python)) else 1


if __name__ == "__main__":
    # Servers run in folders of their own, where a relative path would lead elsewhere.
    sys.exit(main(str(Path(sys.argv[1]).absolute())))
