"""The server on the wire beside bare programs that do only what the system must do.

Two processes, loopback, page cache. The best of five rounds counts for both; in each round the bare
program and the server take turns of some tens of milliseconds, so that what else the machine does
hurts both alike.
"""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.load import (
    Measured,
    connected,
    poll_frame,
    poll_over_and_over,
    send_frame,
    send_on_all,
    send_over_and_over,
)
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.testing.server import RunningServer, running_server
from borzoi.testing.wire_client import WireClient

ROUNDS = 5
#: Turns of each side in a round: neighbours on the host make a processor half as fast from one
#: second to the next.
TURNS = 10
KB = 1024


@contextmanager
def bare(*arguments: str) -> Iterator[tuple[str, int]]:
    """A bare program; its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.bare", *arguments],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    )
    assert process.stdout is not None
    try:
        yield "127.0.0.1", int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def logged_in(server: RunningServer) -> socket.socket:
    client = WireClient(server.tcp_address)
    client.login()
    return client._sock


def prepared(server: RunningServer, partitions: int = 4) -> socket.socket:
    """A connection to a server with one topic."""
    with WireClient(server.tcp_address) as client:
        client.login()
        client.call(CreateStream("bench"))
        client.call(CreateTopic(0, "topic", partitions))
    return logged_in(server)


def all_of(turns: list[Measured]) -> Measured:
    """The turns of one side in a round."""
    return Measured(
        sum(turn.requests for turn in turns),
        sum(turn.seconds for turn in turns),
        [latency for turn in turns for latency in turn.latencies],
    )


def best_rate(runs: list[Measured]) -> float:
    return max(run.rate for run in runs)


def make_pages_ready(written_bytes: int) -> None:
    """Use as much of the page cache as the next run will, and give it back.

    A virtual machine gives free memory back to its host. Who writes to such a page first waits for
    the host, ten times as long as for the rest of the write, and whose turn it is then is chance.
    """
    piece = bytes(KB * KB)
    with tempfile.TemporaryFile() as file:
        for _ in range(written_bytes * 5 // 4 // len(piece)):
            os.write(file.fileno(), piece)


def compared(
    name: str,
    goal: float,
    bare_turn: Callable[[], Measured],
    own_turn: Callable[[], Measured],
    *,
    turns: int = TURNS,
    p99: float | None = None,
    written_bytes: int = 0,
) -> bool:
    """One row: rates, their ratio, and whether the goal is met; `written_bytes` is what one turn
    writes."""
    bare_runs, own_runs = [], []
    for _ in range(ROUNDS):
        # Nobody pays for what was written before: above a limit the kernel makes writers wait.
        os.sync()
        make_pages_ready(2 * turns * written_bytes)
        taken = [(bare_turn(), own_turn()) for _ in range(turns)]
        bare_runs.append(all_of([bare for bare, _ in taken]))
        own_runs.append(all_of([own for _, own in taken]))
    ratio = best_rate(own_runs) / best_rate(bare_runs)
    ok = ratio >= goal
    text = f"| {name} | {best_rate(bare_runs):,.0f}/s | {best_rate(own_runs):,.0f}/s |"
    text += f" {ratio:.2f} | ≥ {goal} |"
    if p99 is not None:
        own = min(run.percentile(0.99) for run in own_runs)
        other = min(run.percentile(0.99) for run in bare_runs)
        ok = ok and own <= p99 * other
        text += f" p99 {own * 1e6:.0f} µs = {own / other:.1f} × (≤ {p99}) |"
    print(text + (" ok |" if ok else " MISSED |"), flush=True)
    return ok


def together(sockets: list[socket.socket], frames: list[bytes], requests: int) -> Measured:
    """The same load over several connections at once, each from a thread of its own."""
    runs: list[Measured] = []
    threads = [
        threading.Thread(
            target=lambda one=sock, frame=frame: runs.append(
                send_over_and_over(one, frame, requests)
            )
        )
        for sock, frame in zip(sockets, frames, strict=True)
    ]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Measured(requests * len(sockets), time.perf_counter() - begun, [0.0])


def sends() -> list[bool]:
    results = []
    with running_server() as server, bare("send") as bare_address, bare("echo") as echo_address:
        own, other = prepared(server), connected(bare_address)
        large, small = send_frame(1000, 1000), send_frame(1000, 100)
        results.append(
            compared(
                "send 1000 × 1000 B, 1 connection",
                0.85,
                lambda: send_over_and_over(other, large, 30),
                lambda: send_over_and_over(own, large, 30),
                written_bytes=30 * len(large),
            )
        )
        owns = [logged_in(server) for _ in range(4)]
        others = [connected(bare_address) for _ in range(4)]
        frames = [send_frame(1000, 1000, partition_id=number) for number in range(4)]
        results.append(
            compared(
                "send 1000 × 1000 B, 4 connections",
                0.80,
                lambda: together(others, frames, 10),
                lambda: together(owns, frames, 10),
                written_bytes=40 * len(large),
            )
        )
        results.append(
            compared(
                "send 1000 × 100 B, 1 connection",
                0.55,
                lambda: send_over_and_over(other, small, 100),
                lambda: send_over_and_over(own, small, 100),
                written_bytes=100 * len(small),
            )
        )
        single, echo = send_frame(1, 1000), connected(echo_address)
        results.append(
            compared(
                "send 1 × 1000 B per request",
                0.55,
                lambda: send_over_and_over(echo, single, 10_000),
                lambda: send_over_and_over(own, single, 10_000),
                # For the first tenths of a second the system may keep a client and a server that
                # sleeps on one processor, where neither has to be woken up across the other.
                turns=1,
                p99=4,
            )
        )
    return results


def polls() -> list[bool]:
    """The open segment, then the same in sealed ones."""
    results = []
    size = 1000 * (1000 + 64)
    for name, settings in (
        ("open segment", {}),
        ("sealed segments", {"SYSTEM_SEGMENT_SIZE": "16 MiB"}),
    ):
        with running_server(settings) as server, tempfile.NamedTemporaryFile() as file:
            own = prepared(server)
            send_over_and_over(own, send_frame(1000, 1000), 100)
            for _ in range(100):  # as much as is polled, so that no cache holds more of it
                file.write(bytes(size + 16))
            file.flush()
            with bare("sendfile", file.name, str(size + 16)) as address:
                other = connected(address)
                frames = [poll_frame(number * 1000, 1000) for number in range(100)]
                results.append(
                    compared(
                        f"poll 1000 × 1000 B, {name}",
                        0.85,
                        lambda other=other, frames=frames: poll_over_and_over(other, frames, 100),
                        lambda own=own, frames=frames: poll_over_and_over(own, frames, 100),
                    )
                )
    return results


def group_commit() -> bool:
    with running_server({"SYSTEM_PARTITION_ACKNOWLEDGE": "synced"}) as server:
        one = prepared(server)
        many = [logged_in(server) for _ in range(32)]
        frame = send_frame(4, 960)
        return compared(
            "synced, 4 KiB: 32 connections beside one",
            6.0,
            lambda: send_over_and_over(one, frame, 20),
            lambda: send_on_all(many, frame, 10),
        )


def resident_bytes(server: RunningServer) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * KB


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
        first = resident_bytes(server)
        sockets = [connected(server.tcp_address) for _ in range(10_000)]
        # The last one is answered when all before it have been accepted.
        send_over_and_over(sockets[-1], bytes.fromhex("0400000001000000"), 1)
        each = (resident_bytes(server) - first) / len(sockets)
        for sock in sockets:
            sock.close()
    results.append(each <= 8 * KB)
    print(f"| 10,000 idle connections | | {each:,.0f} B each | | ≤ 8 KiB | {_word(results[2])} |")
    return results


def _word(ok: bool) -> str:
    return "ok" if ok else "MISSED"


def main() -> int:
    print("| workload | bare | borzoi | ratio | goal | |")
    print("|---|---|---|---|---|---|")
    results = [*sends(), *polls(), group_commit(), *idle()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
