"""Shards for the benchmarks: each is a process with its own port, so the load picks the shard.

Their processes are copies of a template, as in a server (`server/template.py`). What a shard has to
know comes over the socket that plays the supervisor.
"""

import asyncio
import json
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvloop
from tests.support.shards import linked
from tests.support.starts import start_with

from bench.comparing import cpu_seconds
from borzoi.server.shard_serving import serve_shard
from borzoi.server.signals import let_through
from borzoi.server.template import Template
from borzoi.shard.links import Links, Peer

MESSAGE_BYTES_MAX = 64 * 1024
DESCRIPTORS_MAX = 64


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


class Told(msgspec.Struct):
    """The first message to a shard, with its memory file, and a socket and a memory file of each
    peer."""

    shard: int
    count: int
    peers: list[int]
    environment: dict[str, str]


def main(descriptor: int) -> int:
    """Serve as one shard; in a copy of the template."""
    sock = socket.socket(fileno=descriptor)
    packet, descriptors, _, _ = socket.recv_fds(sock, MESSAGE_BYTES_MAX, DESCRIPTORS_MAX)
    told = msgspec.json.decode(packet, type=Told)
    let_through()
    arena, *others = descriptors
    pairs = zip(others[::2], others[1::2], strict=True)
    peers = [
        Peer(shard, socket.socket(fileno=one), its_arena)
        for shard, (one, its_arena) in zip(told.peers, pairs, strict=True)
    ]
    links = Links(told.shard, told.count, arena, peers)
    directory = Path(told.environment["BORZOI_SYSTEM_PATH"])
    start = start_with(told.environment, directory)
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        return uvloop.run(serve_shard(start, directory, links, PipeControl(sock)))


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
        controls, pids = [], []
        # A template does not look for modules where it was started.
        os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[1]))
        template = Template("bench.linked_shards")
        for own in linked(count):
            ours, theirs = socket.socketpair()
            pids.append(template.copy(f"shard-{own.shard}", (theirs.fileno(),)))
            theirs.close()
            told = Told(own.shard, count, list(own.peers), environment)
            descriptors = [own.arena]
            for peer in own.peers.values():
                descriptors += [peer.socket.fileno(), peer.arena]
            socket.send_fds(ours, [msgspec.json.encode(told)], descriptors)
            own.close()
            controls.append(ours)
        template.close()
        lines = [one.makefile() for one in controls]
        try:
            addresses = [json.loads(one.readline())["tcp"] for one in lines]
            yield Running([(host, port) for host, port in addresses], pids)
            for control in controls:
                control.sendall(b".")
            for line in lines:
                line.readline()
        finally:
            for line, control in zip(lines, controls, strict=True):
                line.close()
                control.close()
            for pid in pids:
                os.waitpid(pid, 0)
