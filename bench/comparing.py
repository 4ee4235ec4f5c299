"""Compares two programs that do the same.

In each of five rounds the two take turns of some tens of milliseconds, and the rounds of all rows
take turns too: neighbours on the host make a processor half as fast for seconds. Both sides of a
round have met the same machine, so each round has a ratio, and the median of the five counts. The
best round of each side would compare moments in which the machine was not the same.
"""

import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bench.load import Measured

ROUNDS = 5
#: Turns of each side in a round.
TURNS = 10
MIB = 1 << 20


def make_pages_ready(written_bytes: int) -> None:
    """Use as much of the page cache as the next run will, and give it back.

    A virtual machine gives free memory back to its host. Who writes to such a page first waits for
    the host, ten times as long as for the rest of the write, and whose turn it is then is chance.
    """
    piece = bytes(MIB)
    with tempfile.TemporaryFile() as file:
        for _ in range(written_bytes * 5 // 4 // len(piece)):
            os.write(file.fileno(), piece)


def all_of(turns: Iterable[Measured]) -> Measured:
    """The turns of one side in a round."""
    taken = list(turns)
    return Measured(
        sum(turn.requests for turn in taken),
        sum(turn.seconds for turn in taken),
        [latency for turn in taken for latency in turn.latencies],
    )


def cpu_seconds(pid: int | None) -> float:
    """What the threads of a process have used so far, by the scheduler's own clock: the ticks of
    `stat` are as long as a whole turn."""
    if pid is None:
        return 0.0
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


@dataclass
class Row:
    """A workload: what the bare program and the server make of it, and what is asked for."""

    name: str
    goal: float
    bare_turn: Callable[[], Measured]
    own_turn: Callable[[], Measured]
    turns: int = TURNS
    #: How many times as long as the bare program's the slowest hundredth may take.
    p99: float | None = None
    #: Whether to show the medians as well.
    p50: bool = False
    #: How many times as long as its own median the slowest hundredth may take.
    spread: float | None = None
    #: The server's process, and the most processor time it may take for a request, in µs.
    pid: int | None = None
    cpu_us: float | None = None
    #: By one turn.
    written_bytes: int = 0
    bare_rounds: list[Measured] = field(default_factory=list)
    own_rounds: list[Measured] = field(default_factory=list)
    own_cpu: list[float] = field(default_factory=list)

    def take_round(self) -> None:
        # Flush first: above a limit of dirty pages the kernel makes writers wait.
        os.sync()
        make_pages_ready(2 * self.turns * self.written_bytes)
        bare: list[Measured] = []
        own: list[Measured] = []
        sides = [(bare, self.bare_turn), (own, self.own_turn)]
        before = cpu_seconds(self.pid)
        for turn in range(len(self.own_rounds), len(self.own_rounds) + self.turns):
            # Each goes first as often as the other: who does finds what the other has left.
            for taken, take_turn in sides if turn % 2 else sides[::-1]:
                taken.append(take_turn())
        used = cpu_seconds(self.pid) - before
        self.bare_rounds.append(all_of(bare))
        self.own_rounds.append(all_of(own))
        self.own_cpu.append(used / self.own_rounds[-1].requests)

    def told(self) -> bool:
        """Print the rates of the round with the median ratio; whether the goal is reached."""
        rounds = (
            (own.rate, bare.rate)
            for bare, own in zip(self.bare_rounds, self.own_rounds, strict=True)
        )
        ordered = sorted(rounds, key=lambda rates: rates[0] / rates[1])
        own, bare = ordered[len(ordered) // 2]
        ok = own / bare >= self.goal
        text = f"| {self.name} | {bare:,.0f}/s | {own:,.0f}/s | {own / bare:.2f} | ≥ {self.goal} |"
        if self.p99 is not None:
            slow = min(each.percentile(0.99) for each in self.own_rounds)
            other = min(each.percentile(0.99) for each in self.bare_rounds)
            ok = ok and slow <= self.p99 * other
            text += f" p99 {slow * 1e6:.0f} µs = {slow / other:.1f} × (≤ {self.p99}) |"
        if self.p50:
            medians = [
                min(each.percentile(0.5) for each in rounds) * 1e3
                for rounds in (self.bare_rounds, self.own_rounds)
            ]
            text += f" p50 {medians[0]:.2f} and {medians[1]:.2f} ms |"
        if self.spread is not None:
            wide = min(each.percentile(0.99) / each.percentile(0.5) for each in self.own_rounds)
            ok = ok and wide <= self.spread
            text += f" p99 {wide:.1f} × p50 (≤ {self.spread}) |"
        if self.cpu_us is not None:
            taken = min(self.own_cpu) * 1e6
            ok = ok and taken <= self.cpu_us
            text += f" {taken:.0f} µs of processor (≤ {self.cpu_us}) |"
        print(text + (" ok |" if ok else " MISSED |"), flush=True)
        return ok


def compare(rows: list[Row]) -> list[bool]:
    for _ in range(ROUNDS):
        for row in rows:
            row.take_round()
    return [row.told() for row in rows]
