"""Which processes serve as the shards of a running server, and which of them has a connection."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.server import RunningServer
from tests.support.wire_client import WireClient

#: Only to end what hangs.
PATIENCE_SECONDS = 60.0


def shard_processes(server: RunningServer) -> dict[int, int]:
    """The process of each shard that is there, as its command line tells."""
    pid = server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = {}
    for child in map(int, children):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except FileNotFoundError:
            continue
        if name := next((word for word in words if re.fullmatch(rb"shard-\d+", word)), None):
            found[int(name.removeprefix(b"shard-"))] = child
    return found


def shard_of(server: RunningServer, client: WireClient) -> int | None:
    """The shard that holds the other end of the connection; None while no shard has it."""
    sockets = _server_sockets(client.address[1])
    for shard, process in shard_processes(server).items():
        folder = Path(f"/proc/{process}/fd")
        for descriptor in folder.iterdir():
            try:
                target = os.readlink(descriptor)
            except FileNotFoundError:
                continue
            if target in sockets:
                return shard
    return None


def _server_sockets(client_port: int) -> set[str]:
    """The names of the sockets whose peer has this port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {
        f"socket:[{row[9]}]" for row in rows if int(row[2].rpartition(":")[2], 16) == client_port
    }


def wait_for(server: RunningServer, condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, server.output[-5000:]
        time.sleep(0.005)
