"""Where the time of a send goes, stage by stage, on the wire.

The server's own parts run here over real sockets, with a stopwatch around each of them; the load is
another process. A stage's figure is its median over all requests, in µs; what the stopwatches cost
(0.3 µs a call) is inside. "Outside" is everything between two requests that is not the server: the
client, the kernel between the two, and waking up.

    python -m bench stages
"""

import asyncio
import multiprocessing
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import uvloop
from tests.support.embedded import embedded_server
from tests.support.listening import tcp_listener

from bench.load import connected, mixed_send_frame, send_frame, send_over_and_over
from borzoi.listeners import binary
from borzoi.listeners.binary import BinaryProtocol
from borzoi.listeners.connection import Conversation
from borzoi.listeners.tcp import TcpConnection
from borzoi.partitions import appending
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.framing import encode_request
from borzoi.records import batch
from borzoi.records.accelerator import native
from borzoi.storage import log, log_files
from borzoi.storage.local import LocalFile

#: What is sent, and how often.
WORKLOADS = {
    "1 × 1000 B": (send_frame(1, 1000), 6000),
    "10 × 1000 B": (send_frame(10, 1000), 4000),
    "100 × 1000 B": (send_frame(100, 1000), 1500),
    "1000 × 1000 B": (send_frame(1000, 1000), 400),
    "1000 × 200-2000 B": (mixed_send_frame(1000, 2000), 400),
    "1000 × 100 B": (send_frame(1000, 100), 1500),
}

#: Stage, and the stages inside it that are shown on their own.
INSIDE = {
    "readable": ("frames",),
    "frames": ("dispatch", "answer"),
    "dispatch": ("check", "append"),
    "append": ("stamp", "log append"),
    "stamp": ("checksums",),
    "log append": ("write",),
}
ROWS = (
    ("receive: system calls and the loop's callback", "readable"),
    ("frames: prefix, buffer, first bytes", "frames"),
    ("dispatch: prepared request, session, planes", "dispatch", "append"),
    ("checks; with the accelerator the parts of the request as well", "check"),
    ("ids, offsets, timestamps; with the accelerator checksums as well", "stamp"),
    ("checksums, without the accelerator", "checksums"),
    ("write to the log", "write"),
    ("the rest of the log", "log append"),
    ("answer", "answer"),
    ("index entries, after the answer", "index entries"),
)


class Stopwatches:
    """Nanoseconds of each stage within the request that is under way, and all requests before."""

    def __init__(self) -> None:
        self.current: dict[str, int] = defaultdict(int)
        self.requests: list[dict[str, int]] = []
        self._last_answer = perf_counter_ns()

    def around(self, owner: Any, name: str, stage: str) -> Callable[[], None]:
        """Measure a function; what is returned takes the stopwatch away again."""
        function = getattr(owner, name)

        def measured(*args: Any, **kwargs: Any) -> Any:
            begun = perf_counter_ns()
            try:
                return function(*args, **kwargs)
            finally:
                self.current[stage] += perf_counter_ns() - begun
                if stage == "readable" and "answer" in self.current:
                    self._answered()

        setattr(owner, name, measured)
        return lambda: setattr(owner, name, function)

    def _answered(self) -> None:
        now = perf_counter_ns()
        self.current["period"] = now - self._last_answer
        self._last_answer = now
        self.requests.append(dict(self.current))
        self.current.clear()

    def own(self, request: dict[str, int], *stages: str) -> int:
        """Time of the stages without what is shown on its own."""
        return sum(
            request.get(stage, 0) - sum(request.get(inner, 0) for inner in INSIDE.get(stage, ()))
            for stage in stages
        )

    def medians(self) -> dict[str, float]:
        found = {
            row: statistics.median(self.own(request, *stages) for request in self.requests) / 1000
            for row, *stages in ROWS
        }
        found["server"] = statistics.median(one["readable"] for one in self.requests) / 1000
        period = statistics.median(one["period"] for one in self.requests) / 1000
        found["outside"] = period - found["server"]
        found["period"] = period
        return found


def load(address: tuple[str, int], frame: bytes, requests: int) -> None:
    sock = connected(address)
    sock.sendall(encode_request(LoginUser("iggy", "iggy")))
    sock.recv(1024)
    send_over_and_over(sock, frame, requests)


async def measured(frame: bytes, requests: int) -> dict[str, float]:
    stopwatches = Stopwatches()
    with tempfile.TemporaryDirectory() as directory:
        async with embedded_server(Path(directory)) as server, tcp_listener(server) as listener:
            root = server.root()
            await root.call(CreateStream("bench"))
            await root.call(CreateTopic(0, "topic", 1))
            accelerated = () if native is None else ((native, "split", "check"),)
            take_off = [
                stopwatches.around(*stage)
                for stage in (
                    *accelerated,
                    (TcpConnection, "_on_readable", "readable"),
                    (TcpConnection, "send", "answer"),
                    (Conversation, "received", "frames"),
                    (Conversation, "filled", "frames"),
                    (BinaryProtocol, "respond", "dispatch"),
                    (binary, "receive", "check"),
                    (binary, "receive_at", "check"),
                    (appending.Appender, "append", "append"),
                    (appending, "stamp", "stamp"),
                    (batch, "joined_digests", "checksums"),
                    (batch, "checksum", "checksums"),
                    (log.SegmentedLog, "append", "log append"),
                    (log_files, "index_entries", "index entries"),
                    (LocalFile, "write", "write"),
                )
            ]
            client = multiprocessing.get_context("spawn").Process(
                target=load, args=(listener.address, frame, requests)
            )
            client.start()
            while client.is_alive():
                await asyncio.sleep(0.05)
            for take in take_off:
                take()
    # The first ones open, learn and warm up.
    del stopwatches.requests[: requests // 10]
    return stopwatches.medians()


def main() -> int:
    found = [uvloop.run(measured(*workload)) for workload in WORKLOADS.values()]
    print(f"| stage, µs | {' | '.join(WORKLOADS)} |")
    print("|---" * (len(WORKLOADS) + 1) + "|")
    for row in found[0]:
        name = {"server": "**the server**", "period": "**one request**"}.get(row, row)
        print(f"| {name} | {' | '.join(f'{one[row]:.1f}' for one in found)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
