"""Several shards compared with one: the cost of a request to the wrong shard.

Each shard is a process with its own port, so the load picks the shard. Server and load share
the machine; only ratios of runs that alternate mean something. Both sides take turns in each round,
each round has a ratio, and the median of the rounds counts (`bench/comparing.py` says why). CPU is
that of all shards together.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import uvloop
from tests.support.server import running_server
from tests.support.shards import linked
from tests.support.starts import start_with

from bench.comparing import all_of, cpu_seconds
from bench.load import (
    Measured,
    connected,
    poll_frame,
    poll_over_and_over,
    send_frame,
    send_over_and_over,
)
from bench.server import together
from borzoi.model.namespace import Namespace, shard_of
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, PurgeTopic
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request
from borzoi.server.shard_serving import serve_shard
from borzoi.shard.links import Links, Peer

ROUNDS = 5
#: Turns of each side in a round.
TURNS = 4
PARTITIONS = 8


# ---- the shards ---------------------------------------------------------------------------------


class PipeControl:
    """A supervisor that only starts and stops: lines of JSON over one socket."""

    first_start = True

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def ready(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        self._sock.sendall(json.dumps(dict(addresses)).encode() + b"\n")

    async def bound(self) -> Mapping[str, tuple[str, int]]:
        return {}

    async def all_ready(self) -> bool:
        return True

    async def stopped(self) -> None:
        await self._told()

    async def drained(self) -> None:
        """As the supervisor does it: none closes its links before all know that this is a stop."""
        self._sock.sendall(b"drained\n")
        await self._told()

    async def _told(self) -> None:
        self._sock.setblocking(False)
        await asyncio.get_running_loop().sock_recv(self._sock, 1)

    def attach(self, links: Links) -> None: ...


def child(text: str) -> int:
    told = json.loads(text)
    peers = [Peer(shard, socket.socket(fileno=one), arena) for shard, one, arena in told["peers"]]
    links = Links(told["shard"], told["count"], told["arena"], peers)
    environment = told["environment"]
    directory = Path(environment["BORZOI_SYSTEM_PATH"])
    start = start_with(environment, directory)
    control = PipeControl(socket.socket(fileno=told["control"]))
    return uvloop.run(serve_shard(start, directory, links, control))


@dataclass
class Running:
    addresses: list[tuple[str, int]]
    processes: list[subprocess.Popen[bytes]]

    def cpu(self) -> float:
        return sum(cpu_seconds(process.pid) for process in self.processes)


@contextmanager
def running(count: int, **settings: str) -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="borzoi-bench-") as folder:
        environment = {
            "BORZOI_SYSTEM_PATH": folder,
            "BORZOI_TCP_ADDRESS": "127.0.0.1:0",
            "BORZOI_HTTP_ENABLED": "false",
            "BORZOI_QUIC_ENABLED": "false",
            "BORZOI_WEBSOCKET_ENABLED": "false",
            **{f"BORZOI_{name}": value for name, value in settings.items()},
        }
        controls, processes = [], []
        for own in linked(count):
            ours, theirs = socket.socketpair()
            passed = [own.arena, theirs.fileno()]
            peers = []
            for peer in own.peers.values():
                peers.append((peer.shard, peer.socket.fileno(), peer.arena))
                passed += [peer.socket.fileno(), peer.arena]
            told = {
                "shard": own.shard,
                "count": count,
                "arena": own.arena,
                "peers": peers,
                "control": theirs.fileno(),
                "environment": environment,
            }
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "bench.shards", json.dumps(told)],
                    pass_fds=passed,
                    stdout=subprocess.DEVNULL,
                )
            )
            controls.append(ours)
            theirs.close()
            own.close()
        lines = [one.makefile() for one in controls]
        try:
            addresses = [json.loads(one.readline())["tcp"] for one in lines]
            yield Running([(host, port) for host, port in addresses], processes)
            for control in controls:
                control.sendall(b".")
            for line in lines:
                line.readline()
        finally:
            for line, control in zip(lines, controls, strict=True):
                line.close()
                control.close()
            for process in processes:
                process.wait(30)


# ---- the load -----------------------------------------------------------------------------------


def asked(sock: socket.socket, request: Request) -> None:
    sock.sendall(encode_request(request))
    head = sock.recv(RESPONSE_PREFIX.size, socket.MSG_WAITALL)
    status, length = RESPONSE_PREFIX.unpack(head)
    assert status == 0, status
    if length:
        sock.recv(length, socket.MSG_WAITALL)


def client(server: Running, shard: int) -> socket.socket:
    sock = connected(server.addresses[shard])
    asked(sock, LoginUser("iggy", "iggy"))
    return sock


def prepared(server: Running) -> None:
    sock = client(server, 0)
    asked(sock, CreateStream("bench"))
    asked(sock, CreateTopic(0, "bench", PARTITIONS))
    sock.close()


@dataclass
class Sums:
    """What one side did in each round: its rate, and the CPU of a request."""

    rate: list[float]
    cpu: list[float]


def alternating(
    sides: Mapping[str, tuple[Running, Callable[[], Measured]]], emptied: socket.socket | None
) -> dict[str, Sums]:
    """Rounds of turns; the topic is emptied before each round if there is a client to do it."""
    found = {name: Sums([], []) for name in sides}
    for number in range(ROUNDS + 1):
        if emptied is not None:
            # New pages of the page cache may take ten times as long: use the same ones.
            asked(emptied, PurgeTopic(0, 0))
        turns: dict[str, list[Measured]] = {name: [] for name in sides}
        used = dict.fromkeys(sides, 0.0)
        for _ in range(TURNS):
            for name, (server, run) in sides.items():
                before = server.cpu()
                turns[name].append(run())
                used[name] += server.cpu() - before
        if number:  # the first one warms up
            for name, taken in turns.items():
                whole = all_of(taken)
                found[name].rate.append(whole.rate)
                found[name].cpu.append(used[name] / whole.requests)
    return found


def both(
    server: Running,
    work: Callable[[socket.socket], Measured],
    right: socket.socket,
    other: socket.socket,
    *,
    emptied: socket.socket | None,
) -> tuple[Sums, Sums]:
    """The same work on a connection to the right shard and on another."""
    sides = {"right": (server, partial(work, right)), "other": (server, partial(work, other))}
    found = alternating(sides, emptied)
    return found["right"], found["other"]


def shown(name: str, local: Sums, other: Sums, goal: float, cpu_goal: float | None) -> bool:
    ratio = median(mine / yours for mine, yours in zip(other.rate, local.rate, strict=True))
    cpu = median(mine / yours for mine, yours in zip(other.cpu, local.cpu, strict=True))
    ok = ratio >= goal and (cpu_goal is None or cpu <= cpu_goal)
    goals = f"≥ {goal}" + ("" if cpu_goal is None else f", CPU ≤ {cpu_goal}")
    print(
        f"| {name} | {median(local.rate):,.0f}/s, {median(local.cpu) * 1e6:,.0f} µs"
        f" | {median(other.rate):,.0f}/s, {median(other.cpu) * 1e6:,.0f} µs"
        f" | {ratio:.2f} | {cpu:.2f} | {goals} |"
        f" {'ok' if ok else 'MISSED'} |",
        flush=True,
    )
    return ok


def owned_by(shard: int, count: int) -> int:
    return next(p for p in range(PARTITIONS) if shard_of(Namespace(0, 0, p), count) == shard)


def wrong_shard() -> list[bool]:
    results = []
    partition = owned_by(1, 2)
    large = send_frame(1000, 1000, partition_id=partition)
    single = send_frame(1, 1000, partition_id=partition)
    with running(2, TCP_SOCKET_MIGRATION="false") as server:
        prepared(server)
        right, wrong = client(server, 1), client(server, 0)
        for name, frame, requests, goal, cpu_goal in (
            ("send 1000 × 1000 B", large, 15, 0.80, 1.35),
            ("send 1 × 1000 B", single, 750, 0.0, None),
        ):
            send = partial(send_over_and_over, frame=frame, requests=requests)
            found = both(server, send, right, wrong, emptied=right)
            results.append(shown(f"{name}, wrong shard", *found, goal, cpu_goal))
        send_over_and_over(right, large, 100)
        frames = [poll_frame(n * 1000, 1000, partition_id=partition) for n in range(100)]
        poll = partial(poll_over_and_over, frames=frames, requests=100)
        found = both(server, poll, right, wrong, emptied=None)
        results.append(shown("poll 1000 × 1000 B, wrong shard", *found, 0.85, None))
    with running(2) as server:
        prepared(server)
        right, moved, other = client(server, 1), client(server, 0), client(server, 0)
        send_over_and_over(moved, large, 2)
        send = partial(send_over_and_over, frame=large, requests=15)
        found = both(server, send, right, moved, emptied=other)
        results.append(shown("send 1000 × 1000 B, moved", *found, 0.95, None))
    return results


def no_hidden_cost() -> list[bool]:
    """Two connections, each to a partition of its own shard, compared with both on one process.

    Two servers that know nothing of each other show what of it is due to two processes.
    """
    frames = [send_frame(1000, 1000, partition_id=owned_by(shard, 2)) for shard in (0, 1)]
    with ExitStack() as stack:
        two = stack.enter_context(running(2, TCP_SOCKET_MIGRATION="false"))
        servers = [stack.enter_context(running_server()) for _ in range(3)]
        one, *apart = [Running([server.tcp_address], [server.process]) for server in servers]
        for server in (two, one, *apart):
            prepared(server)
        strangers = Running(
            [server.addresses[0] for server in apart], [server.processes[0] for server in apart]
        )
        sides = {
            "one": (one, [client(one, 0), client(one, 0)]),
            "two": (two, [client(two, 0), client(two, 1)]),
            "strangers": (strangers, [client(strangers, 0), client(strangers, 1)]),
        }
        found = alternating(
            {
                name: (server, partial(together, clients, frames, 10))
                for name, (server, clients) in sides.items()
            },
            emptied=None,
        )
    return [
        shown("send 1000 × 1000 B, 2 shards", found["one"], found["two"], 0.0, 1.10),
        shown("send 1000 × 1000 B, 2 servers", found["one"], found["strangers"], 0.0, None),
    ]


def main() -> int:
    print("| workload | right shard, CPU each | other | ratio | CPU ratio | goal | |")
    print("|---|---|---|---|---|---|---|")
    results = [*wrong_shard(), *no_hidden_cost()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", ".")
    sys.exit(child(sys.argv[1]) if len(sys.argv) > 1 else main())
