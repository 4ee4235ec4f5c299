"""Shards for the benchmarks: each is a process with its own port, so the load picks the shard.

python -m bench.linked_shards JSON    one shard; what it has to know is in the JSON
"""

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from tests.support.shards import linked
from tests.support.starts import start_with

from bench.comparing import cpu_seconds
from borzoi.server.shard_serving import serve_shard
from borzoi.shard.links import Links, Peer


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
    pids: list[int]

    def cpu(self) -> float:
        return sum(map(cpu_seconds, self.pids))


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
                    [sys.executable, "-m", "bench.linked_shards", json.dumps(told)],
                    pass_fds=passed,
                    cwd=Path(__file__).parents[1],
                    stdout=subprocess.DEVNULL,
                )
            )
            controls.append(ours)
            theirs.close()
            own.close()
        lines = [one.makefile() for one in controls]
        try:
            addresses = [json.loads(one.readline())["tcp"] for one in lines]
            pids = [process.pid for process in processes]
            yield Running([(host, port) for host, port in addresses], pids)
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


if __name__ == "__main__":
    sys.exit(child(sys.argv[1]))
