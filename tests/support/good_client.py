"""A client that asks one small thing at a time, and how long it waits for the answers.

What the clock says depends on who else uses the machine. So the processor time of the server's
event loop is measured as well: what it did between a request and its answer. A server that makes a
client wait does something else meanwhile, and that is seen however slow the machine is. The kernel
counts it in steps of a tick, so it says little about times below 10 ms.
"""

import time
from pathlib import Path
from typing import NamedTuple

from tests.support.server import RunningServer
from tests.support.wire_client import WireClient

from borzoi.protocol.commands.system import Ping
from borzoi.protocol.framing import encode_request

PING = encode_request(Ping())


class Waited(NamedTuple):
    """The 99th percentile of an exchange, in seconds."""

    wall: float
    #: Processor time of the server's loop.
    work: float

    def __str__(self) -> str:
        return f"p99 {self.wall * 1000:.2f} ms, {self.work * 1000:.2f} ms of them work of the loop"


def measured(server: RunningServer, exchanges: int = 500, pause: float = 0.001) -> Waited:
    """What a client that is logged in waits for a ping."""
    walls, works = [], []
    pid = server.process.pid
    with WireClient(server.tcp_address) as client:
        client.login()
        for _ in range(exchanges):
            time.sleep(pause)
            worked, began = loop_seconds(pid), time.perf_counter()
            status, _ = client.exchange(PING)
            walls.append(time.perf_counter() - began)
            works.append(loop_seconds(pid) - worked)
            assert status == 0
    return Waited(percentile(walls), percentile(works))


def loop_seconds(pid: int) -> float:
    """Processor time of the first thread, which runs the loop."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def percentile(values: list[float], share: float = 0.99) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def resident_bytes(server: RunningServer) -> int:
    """Memory of the server, that of its pool included."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    kilobytes = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(kilobytes.split()[1]) * 1024
