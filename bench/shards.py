"""Several shards compared with one: the cost of a request to the wrong shard.

The load picks the shard by its port (`bench/linked_shards.py`). Both sides take turns in each
round, each round has a ratio, and the median of the rounds counts (`bench/comparing.py` says why).
CPU is that of all shards together.

Client, receiving shard and owner are three processes. On two processors the scheduler may put any
two of them together, and what it chooses decides the ratio: a client beside the shard that reads
its megabyte takes turns with it, and an idle virtual processor takes 44 µs to wake up. So where
there is a goal, the load has the last processor and all shards share the others, on both sides:
the server has the same hardware whether the request comes to the right shard or to the wrong one.
The same rows left to the scheduler follow without a goal. Every round begins with an empty topic
and with pages ready (`make_pages_ready`): a write that waits for memory takes ten times as long.

`bench/shard_costs.py` has the rows that follow: what a second process costs.
"""

import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median

from bench.comparing import all_of, make_pages_ready
from bench.linked_shards import Running, running
from bench.load import (
    Measured,
    connected,
    poll_frame,
    poll_over_and_over,
    send_frame,
    send_over_and_over,
)
from bench.placing import apart
from borzoi.model.namespace import Namespace, shard_of
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, PurgeTopic
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request

ROUNDS = 9
#: Turns of each side in a round.
TURNS = 4
PARTITIONS = 64

LARGE_BYTES = len(send_frame(1000, 1000))
#: Sends of 1000 × 1000 B in a turn.
LARGE_SENDS = 30

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


@dataclass
class Side:
    """A server, and one turn of the load on it."""

    server: Running
    turn: Callable[[], Measured]


def alternating(
    sides: Mapping[str, Side],
    emptied: Collection[socket.socket],
    written_bytes: int,
    rounds: int = ROUNDS,
) -> dict[str, Sums]:
    """Rounds of turns. Topics are emptied before each round by the given clients; `written_bytes`
    is what all sides write in one turn."""
    order = list(sides)
    found = {name: Sums([], []) for name in order}
    for number in range(rounds + 1):
        for sock in emptied:
            asked(sock, PurgeTopic(0, 0))
        os.sync()
        make_pages_ready(TURNS * written_bytes)
        turns: dict[str, list[Measured]] = {name: [] for name in sides}
        used = dict.fromkeys(sides, 0.0)
        for turn in range(TURNS):
            # Each goes first as often as the other: who does finds what the other has left.
            for name in order if turn % 2 else order[::-1]:
                side = sides[name]
                before = side.server.cpu()
                turns[name].append(side.turn())
                used[name] += side.server.cpu() - before
        if number:  # the first one warms up
            for name, taken in turns.items():
                whole = all_of(taken)
                found[name].rate.append(whole.rate)
                found[name].cpu.append(used[name] / whole.requests)
    return found


@dataclass(frozen=True)
class Goal:
    """The smallest ratio of rates and the largest of processor time, where one is asked for."""

    rate: float | None = None
    cpu: float | None = None

    def is_reached(self, rate: float, cpu: float) -> bool:
        return (self.rate is None or rate >= self.rate) and (self.cpu is None or cpu <= self.cpu)

    def __str__(self) -> str:
        rate = [] if self.rate is None else [f"≥ {self.rate}"]
        cpu = [] if self.cpu is None else [f"CPU ≤ {self.cpu}"]
        return ", ".join(rate + cpu) or "-"


NONE = Goal()


def shown(name: str, local: Sums, other: Sums, goal: Goal) -> bool:
    rate = median(mine / yours for mine, yours in zip(other.rate, local.rate, strict=True))
    cpu = median(mine / yours for mine, yours in zip(other.cpu, local.cpu, strict=True))
    ok = goal.is_reached(rate, cpu)
    verdict = "-" if goal == NONE else "ok" if ok else "MISSED"
    print(
        f"| {name} | {median(local.rate):,.0f}/s, {median(local.cpu) * 1e6:,.0f} µs"
        f" | {median(other.rate):,.0f}/s, {median(other.cpu) * 1e6:,.0f} µs"
        f" | {rate:.2f} | {cpu:.2f} | {goal} | {verdict} |",
        flush=True,
    )
    return ok


# ---- where it runs ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placing:
    """Where shards and load run; nothing is asked for where the scheduler decides."""

    name: str
    place: Callable[[list[int]], AbstractContextManager[None]]
    has_goals: bool

    def show(self, name: str, local: Sums, other: Sums, goal: Goal) -> bool:
        return shown(name + self.name, local, other, goal if self.has_goals else NONE)


def load_on_last(programs: list[int]) -> AbstractContextManager[None]:
    usable = os.sched_getaffinity(0)
    last = {max(usable)}
    return apart(programs, load=last, others=usable - last or last)


PLACINGS = (
    Placing("", load_on_last, has_goals=True),
    Placing(", left to the scheduler", lambda _: nullcontext(), has_goals=False),
)


# ---- what is compared ---------------------------------------------------------------------------


def owned_by(shard: int, count: int) -> int:
    return next(p for p in range(PARTITIONS) if shard_of(Namespace(0, 0, p), count) == shard)


def both(
    server: Running,
    work: Callable[[socket.socket], Measured],
    right: socket.socket,
    other: socket.socket,
    *,
    emptied: Collection[socket.socket],
    written_bytes: int,
) -> tuple[Sums, Sums]:
    """The same work on a connection to the right shard and on another."""
    sides = {
        "right": Side(server, partial(work, right)),
        "other": Side(server, partial(work, other)),
    }
    found = alternating(sides, emptied, 2 * written_bytes)
    return found["right"], found["other"]


def sends_to_the_wrong_shard(
    server: Running, right: socket.socket, wrong: socket.socket, partition: int, placing: Placing
) -> Iterator[bool]:
    for name, count, requests, goal in (
        ("send 1000 × 1000 B, wrong shard", 1000, LARGE_SENDS, Goal(0.80, 1.35)),
        ("send 1 × 1000 B, wrong shard", 1, 1500, NONE),
    ):
        frame = send_frame(count, 1000, partition_id=partition)
        send = partial(send_over_and_over, frame=frame, requests=requests)
        written = requests * len(frame)
        with placing.place(server.pids):
            found = both(server, send, right, wrong, emptied=[right], written_bytes=written)
        yield placing.show(name, *found, goal)


def polls_from_the_wrong_shard(
    server: Running, right: socket.socket, wrong: socket.socket, partition: int, placing: Placing
) -> bool:
    asked(right, PurgeTopic(0, 0))
    send_over_and_over(right, send_frame(1000, 1000, partition_id=partition), 100)
    frames = [poll_frame(n * 1000, 1000, partition_id=partition) for n in range(100)]
    poll = partial(poll_over_and_over, frames=frames, requests=100)
    with placing.place(server.pids):
        found = both(server, poll, right, wrong, emptied=[], written_bytes=0)
    return placing.show("poll 1000 × 1000 B, wrong shard", *found, Goal(0.85))


def wrong_shard() -> Iterator[bool]:
    partition = owned_by(1, 2)
    with running(2, TCP_SOCKET_MIGRATION="false") as server:
        prepared(server)
        right, wrong = client(server, 1), client(server, 0)
        for placing in PLACINGS:
            yield from sends_to_the_wrong_shard(server, right, wrong, partition, placing)
            yield polls_from_the_wrong_shard(server, right, wrong, partition, placing)


def moved_connection() -> Iterator[bool]:
    """A connection that came to the wrong shard and was handed over to the right one."""
    frame = send_frame(1000, 1000, partition_id=owned_by(1, 2))
    send = partial(send_over_and_over, frame=frame, requests=LARGE_SENDS)
    with running(2) as server:
        prepared(server)
        right, moved, other = client(server, 1), client(server, 0), client(server, 0)
        send_over_and_over(moved, frame, 2)
        for placing in PLACINGS:
            written = LARGE_SENDS * LARGE_BYTES
            with placing.place(server.pids):
                found = both(server, send, right, moved, emptied=[other], written_bytes=written)
            yield placing.show("send 1000 × 1000 B, moved", *found, Goal(0.95))


def main() -> int:
    print("| workload | right shard, CPU each | other | ratio | CPU ratio | goal | |")
    print("|---|---|---|---|---|---|---|")
    # Imported here, because that module imports this one.
    from bench.shard_costs import costs

    return 0 if all([*wrong_shard(), *moved_connection(), *costs()]) else 1


if __name__ == "__main__":
    sys.exit(main())
