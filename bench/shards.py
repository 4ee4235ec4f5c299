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

With four processors or more, a table shows what more shards add.
"""

import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
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
from bench.server import together
from bench.sides import bare_process
from borzoi.model.namespace import Namespace, shard_of
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, PurgeTopic
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.contract import Request
from borzoi.protocol.framing import RESPONSE_PREFIX, encode_request

ROUNDS = 9
#: What two processes take more than one is small, and single rounds differ by a tenth.
CPU_ROUNDS = 25
#: Turns of each side in a round.
TURNS = 4
PARTITIONS = 64

LARGE_BYTES = len(send_frame(1000, 1000))
#: Sends of 1000 × 1000 B in a turn of one connection, and of each of several.
LARGE_SENDS = 30
SENDS_OF_EACH = 15

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


def joined(programs: Collection[Running]) -> Running:
    """Several programs that are measured together."""
    return Running(
        [address for program in programs for address in program.addresses],
        [pid for program in programs for pid in program.pids],
    )


def no_hidden_cost() -> Iterator[bool]:
    """Two connections, each to a partition of its own shard, compared with both on one shard.

    Two servers that know nothing of each other show what of it is due to two processes.
    """
    frames = [send_frame(1000, 1000, partition_id=owned_by(shard, 2)) for shard in (0, 1)]
    with ExitStack() as stack:
        two = stack.enter_context(running(2, TCP_SOCKET_MIGRATION="false"))
        one, *alone = [stack.enter_context(running(1)) for _ in range(3)]
        for server in (two, one, *alone):
            prepared(server)
        strangers = joined(alone)
        clients = {
            "one": (one, [client(one, 0), client(one, 0)]),
            "two": (two, [client(two, 0), client(two, 1)]),
            "strangers": (strangers, [client(strangers, 0), client(strangers, 1)]),
        }
        sides = {
            name: Side(server, partial(together, sockets, frames, SENDS_OF_EACH))
            for name, (server, sockets) in clients.items()
        }
        emptied = [clients["one"][1][0], clients["two"][1][0], *clients["strangers"][1]]
        written = len(sides) * 2 * SENDS_OF_EACH * LARGE_BYTES
        for placing in PLACINGS:
            with placing.place([*one.pids, *two.pids, *strangers.pids]):
                found = alternating(sides, emptied, written, CPU_ROUNDS)
            name = "send 1000 × 1000 B, 2 "
            yield placing.show(f"{name}shards", found["one"], found["two"], Goal(cpu=1.10))
            yield placing.show(f"{name}servers", found["one"], found["strangers"], NONE)


def price_of_a_process() -> Iterator[bool]:
    """The same for a program that does only what the system must do."""
    frame = send_frame(1000, 1000)
    with ExitStack() as stack:
        programs = [stack.enter_context(bare_process("send")) for _ in range(3)]
        one, *others = [Running([address], [pid]) for address, pid in programs]
        two = joined(others)
        clients = {
            "one": (one, [connected(one.addresses[0]) for _ in range(2)]),
            "two": (two, [connected(address) for address in two.addresses]),
        }
        sides = {
            name: Side(program, partial(together, sockets, [frame] * 2, SENDS_OF_EACH))
            for name, (program, sockets) in clients.items()
        }
        written = len(sides) * 2 * SENDS_OF_EACH * LARGE_BYTES
        for placing in PLACINGS:
            with placing.place([*one.pids, *two.pids]):
                found = alternating(sides, [], written, CPU_ROUNDS)
            name = "send 1000 × 1000 B, 2 bare programs"
            yield placing.show(name, found["one"], found["two"], NONE)


def scaling(count: int, *, load: Collection[int], shards: Collection[int]) -> bool:
    """As many connections as shards, each to a partition of its own shard, compared with the same
    connections to one shard."""
    frames = [send_frame(1000, 1000, partition_id=owned_by(shard, count)) for shard in range(count)]
    with running(count, TCP_SOCKET_MIGRATION="false") as many, running(1) as one:
        prepared(many)
        prepared(one)
        clients = {
            "one": (one, [client(one, 0) for _ in range(count)]),
            "many": (many, [client(many, shard) for shard in range(count)]),
        }
        sides = {
            name: Side(server, partial(together, sockets, frames, SENDS_OF_EACH))
            for name, (server, sockets) in clients.items()
        }
        emptied = [sockets[0] for _, sockets in clients.values()]
        written = len(sides) * count * SENDS_OF_EACH * LARGE_BYTES
        with apart([*one.pids, *many.pids], load=load, others=shards):
            found = alternating(sides, emptied, written)
    return shown(f"send 1000 × 1000 B, {count} shards", found["one"], found["many"], NONE)


def scaled() -> Iterator[bool]:
    """Half of the processors are for the shards, and half for the load."""
    usable = sorted(os.sched_getaffinity(0))
    half = len(usable) // 2
    count = 2
    while count <= half:
        yield scaling(count, load=usable[half:], shards=usable[:half])
        count *= 2


def main() -> int:
    print("| workload | right shard, CPU each | other | ratio | CPU ratio | goal | |")
    print("|---|---|---|---|---|---|---|")
    results = [
        *wrong_shard(),
        *moved_connection(),
        *no_hidden_cost(),
        *price_of_a_process(),
        *scaled(),
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
