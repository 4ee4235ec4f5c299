"""What shards cost before anybody uses them: time until the server is ready, and memory.

Memory is what the kernel calls the proportional set size, over all processes of the server: a page
that several of them share counts once.
"""

import os
import time
from pathlib import Path

from tests.support.server import RunningServer, running_server

from bench.comparing import ROUNDS

MIB = 1 << 20
SHARDS = (1, 2, 3, 4)
READY_SECONDS = 0.7
READY_SECONDS_MORE = 0.1
MEMORY_BYTES = 60 * MIB
MEMORY_BYTES_MORE = 40 * MIB


def processes_of(server: RunningServer) -> list[int]:
    pid = server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def memory_bytes(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(rollup.split("\nPss:")[1].split()[0]) * 1024


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(shards: int) -> tuple[float, float, int]:
    """Seconds until ready, seconds of processors for that, and bytes when idle; the best round."""
    ready, worked, memory = [], [], []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        with running_server({"SYSTEM_SHARDING_CPU_ALLOCATION": str(shards)}) as server:
            ready.append(time.perf_counter() - begun)
            processes = processes_of(server)
            worked.append(sum(map(processor_seconds, processes)))
            memory.append(sum(map(memory_bytes, processes)))
    return min(ready), min(worked), min(memory)


def main() -> int:
    cores = len(os.sched_getaffinity(0))
    print(f"This machine has {cores} processors.\n")
    print("| shards | ready after | goal | processor time | memory | goal | |")
    print("|---|---|---|---|---|---|---|")
    missed = 0
    for shards in SHARDS:
        ready, worked, memory = measured(shards)
        ready_max = READY_SECONDS + READY_SECONDS_MORE * (shards - 1)
        memory_max = MEMORY_BYTES + MEMORY_BYTES_MORE * (shards - 1)
        # More shards than processors start one after another.
        ok = (ready <= ready_max or shards > cores) and memory <= memory_max
        missed += not ok
        print(
            f"| {shards} | {ready:.2f} s | {ready_max:.1f} s | {worked:.2f} s"
            f" | {memory / MIB:.0f} MiB | {memory_max // MIB} | {'ok' if ok else 'MISSED'} |",
            flush=True,
        )
    return missed
