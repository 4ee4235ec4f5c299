"""The server on the wire compared with bare programs that only make the necessary system calls.

Server and load are two processes on loopback; `comparing.py` explains how they are compared.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.support.server import RunningServer, running_server

from bench import many, published, writing
from bench.comparing import ROUNDS, Row, compare
from bench.load import (
    Measured,
    connected,
    poll_frame,
    poll_over_and_over,
    send_frame,
    send_on_all,
    send_over_and_over,
)
from bench.sides import bare, logged_in, prepared
from borzoi.records.accelerator import ACCELERATOR

KB = 1024


def together(
    sockets: list[socket.socket],
    frames: list[bytes],
    requests: int,
    processors: Sequence[int] | None = None,
) -> Measured:
    """The same load over several concurrent connections, each from its own thread, which may have
    a processor to run on."""
    runs: list[Measured] = []

    def send(number: int) -> None:
        if processors is not None:
            os.sched_setaffinity(0, {processors[number]})
        runs.append(send_over_and_over(sockets[number], frames[number], requests))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(len(sockets))]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Measured(requests * len(sockets), time.perf_counter() - begun, [0.0])


def sends(stack: ExitStack) -> list[Row]:
    server = stack.enter_context(running_server())
    bare_address = stack.enter_context(bare("send"))
    own, other = prepared(server), connected(bare_address)
    owns = [logged_in(server) for _ in range(4)]
    others = [connected(bare_address) for _ in range(4)]
    echo = connected(stack.enter_context(bare("echo")))
    large, small, single = send_frame(1000, 1000), send_frame(1000, 100), send_frame(1, 1000)
    frames = [send_frame(1000, 1000, partition_id=number) for number in range(4)]
    return [
        Row(
            "send 1000 × 1000 B, 1 connection",
            0.85,
            lambda: send_over_and_over(other, large, 30),
            lambda: send_over_and_over(own, large, 30),
            written_bytes=30 * len(large),
        ),
        Row(
            "send 1000 × 1000 B, 4 connections",
            0.80,
            lambda: together(others, frames, 10),
            lambda: together(owns, frames, 10),
            written_bytes=40 * len(large),
        ),
        Row(
            "send 1000 × 100 B, 1 connection",
            0.55,
            lambda: send_over_and_over(other, small, 100),
            lambda: send_over_and_over(own, small, 100),
            written_bytes=100 * len(small),
        ),
        Row(
            "send 1 × 1000 B per request",
            0.55,
            lambda: send_over_and_over(echo, single, 10_000),
            lambda: send_over_and_over(own, single, 10_000),
            # For the first tenths of a second the system may keep a client and a server that
            # sleeps on one processor, where neither has to be woken up across the other.
            turns=1,
            p99=4,
        ),
    ]


def polls(stack: ExitStack, name: str, settings: dict[str, str]) -> Row:
    """What was just sent, from a server with these settings. The bare program sends from the same
    files: how fast that goes depends on where in memory their pages happen to lie."""
    size = 1000 * (1000 + 64)
    server = stack.enter_context(running_server(settings))
    own = prepared(server)
    send_over_and_over(own, send_frame(1000, 1000), 100)
    logs = [path for path in server.directory.rglob("*.log") if path.stat().st_size >= size]
    other = connected(stack.enter_context(bare("sendfile", str(size), *map(str, sorted(logs)))))
    frames = [poll_frame(number * 1000, 1000) for number in range(100)]
    return Row(
        f"poll 1000 × 1000 B, {name}",
        0.85,
        lambda: poll_over_and_over(other, frames, 100),
        lambda: poll_over_and_over(own, frames, 100),
    )


def group_commit(stack: ExitStack) -> Row:
    server = stack.enter_context(running_server({"SYSTEM_PARTITION_ACKNOWLEDGE": "synced"}))
    one = prepared(server)
    many = [logged_in(server) for _ in range(32)]
    frame = send_frame(4, 960)
    return Row(
        "synced, 4 KiB: 32 connections beside one",
        6.0,
        lambda: send_over_and_over(one, frame, 20),
        lambda: send_on_all(many, frame, 10),
    )


def resident_bytes(server: RunningServer) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * KB


def connection_bytes(server: RunningServer, count: int) -> float:
    """What each of so many idle connections takes."""
    before = resident_bytes(server)
    sockets = [connected(server.tcp_address) for _ in range(count)]
    # The last one is answered when all before it have been accepted.
    send_over_and_over(sockets[-1], bytes.fromhex("0400000001000000"), 1)
    each = (resident_bytes(server) - before) / count
    for sock in sockets:
        sock.close()
    return each


def idle() -> list[bool]:
    """Memory of an idle server and of idle connections, and how soon it is ready."""
    ready = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        with running_server() as server:
            ready.append(time.perf_counter() - begun)
            before = resident_bytes(server)
    results = [min(ready) <= 0.7, before <= 60 * KB * KB]
    print(f"| ready after | | {min(ready):.2f} s | | ≤ 0.7 s | {_word(results[0])} |")
    print(f"| resident when idle | | {before / KB / KB:.0f} MiB | | ≤ 60 | {_word(results[1])} |")
    with running_server() as server:
        each = connection_bytes(server, 10_000)
    results.append(each <= 8 * KB)
    print(f"| 10,000 idle connections | | {each:,.0f} B each | | ≤ 8 KiB | {_word(results[2])} |")
    return results


def _word(ok: bool) -> str:
    return "ok" if ok else "MISSED"


def main() -> int:
    print(f"The accelerator is {ACCELERATOR.description}.\n")
    print("| workload | bare | borzoi | ratio | goal | |")
    print("|---|---|---|---|---|---|")
    with ExitStack() as stack:
        rows = [
            *sends(stack),
            polls(stack, "open segment", {}),
            polls(stack, "sealed segments", {"SYSTEM_SEGMENT_SIZE": "16 MiB"}),
            group_commit(stack),
            *writing.rows(stack),
            *many.rows(stack),
        ]
        results = compare(rows)
    results += idle()
    results += published.measure()
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
