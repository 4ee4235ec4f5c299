"""What a second process costs: two shards compared with one that has the same load.

Both connections of the load send to their own shard, so shards have nothing to do for each other.
What the second one costs by being a process shows in two servers that know nothing of each other,
and in two bare programs. What it costs by being a shard is the difference between two shards and
two servers.

Where all shards share one processor, one shard has it to itself and two have to take turns. So the
last rows give each shard a processor, as `cpu_allocation` binds them, and the two threads of the
load one each. Then a shard shares its processor with a client on both sides of the comparison. The
threads change places every other turn, because it costs a shard less to receive from its own
processor.

With four processors or more, a table shows what more shards add.
"""

import os
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle, zip_longest

from bench.linked_shards import Running, running
from bench.load import Measured, connected, send_frame
from bench.placing import apart
from bench.server import together
from bench.shards import (
    LARGE_BYTES,
    NONE,
    PLACINGS,
    Goal,
    Side,
    Sums,
    alternating,
    client,
    owned_by,
    prepared,
    shown,
)
from bench.sides import bare_process

#: What two processes take more than one is small, and single rounds differ by a tenth.
CPU_ROUNDS = 25
#: Sends of 1000 × 1000 B in a turn of each connection.
SENDS_OF_EACH = 15

NAME = "send 1000 × 1000 B, 2 "


def joined(programs: Collection[Running]) -> Running:
    """Several programs that are measured together."""
    return Running(
        [address for program in programs for address in program.addresses],
        [pid for program in programs for pid in program.pids],
    )


#: A server, and a connection of the load for each partition that it gets.
Loaded = tuple[Running, list[socket.socket]]


def compared(
    sides: Mapping[str, Loaded],
    frames: list[bytes],
    emptied: Collection[socket.socket],
    processors: Sequence[Sequence[int] | None] = (None,),
) -> dict[str, Sums]:
    """The same load on all sides; `processors` are those of its threads, turn after turn."""
    turns = {
        name: Side(server, partial(_turn, sockets, frames, cycle(processors)))
        for name, (server, sockets) in sides.items()
    }
    written = len(sides) * 2 * SENDS_OF_EACH * LARGE_BYTES
    return alternating(turns, emptied, written, CPU_ROUNDS)


def _turn(
    sockets: list[socket.socket], frames: list[bytes], places: Iterator[Sequence[int] | None]
) -> Measured:
    return together(sockets, frames, SENDS_OF_EACH, next(places))


def two_shards() -> Iterator[bool]:
    """Two connections, each to a partition of its own shard, compared with both on one shard, and
    with two servers that know nothing of each other."""
    frames = [send_frame(1000, 1000, partition_id=owned_by(shard, 2)) for shard in (0, 1)]
    with ExitStack() as stack:
        two = stack.enter_context(running(2, TCP_SOCKET_MIGRATION="false"))
        one, *alone = [stack.enter_context(running(1)) for _ in range(3)]
        for server in (two, one, *alone):
            prepared(server)
        strangers = joined(alone)
        sides = {
            "one": (one, [client(one, 0), client(one, 0)]),
            "two": (two, [client(two, 0), client(two, 1)]),
            "strangers": (strangers, [client(strangers, 0), client(strangers, 1)]),
        }
        emptied = [sides["one"][1][0], sides["two"][1][0], *sides["strangers"][1]]
        for placing in PLACINGS:
            with placing.place([pid for server, _ in sides.values() for pid in server.pids]):
                found = compared(sides, frames, emptied)
            yield placing.show(f"{NAME}shards", found["one"], found["two"], Goal(cpu=1.10))
            yield placing.show(f"{NAME}servers", found["one"], found["strangers"], NONE)
            beside = f"{NAME}shards beside 2 servers"
            yield placing.show(beside, found["strangers"], found["two"], Goal(cpu=1.10))
        usable = sorted(os.sched_getaffinity(0))[:2]
        if len(usable) < 2:
            return
        with each_on_its_own(usable, [one.pids, two.pids, strangers.pids]):
            # Each client beside its shard in two turns, and on the other processor in two.
            places = [usable, usable, usable[::-1], usable[::-1]]
            found = compared(sides, frames, emptied, places)
        yield shown(f"{NAME}shards, a processor each", found["one"], found["two"], NONE)
        yield shown(f"{NAME}servers, a processor each", found["one"], found["strangers"], NONE)


@contextmanager
def each_on_its_own(processors: Sequence[int], servers: Sequence[Sequence[int]]) -> Iterator[None]:
    """Bind the first process of each server to the first processor, the second to the second."""
    with ExitStack() as stack:
        for processor, pids in zip(processors, zip_longest(*servers), strict=True):
            programs = [pid for pid in pids if pid is not None]
            stack.enter_context(apart(programs, load=processors, others=[processor]))
        yield


def price_of_a_process() -> Iterator[bool]:
    """The same for a program that does only what the system must do."""
    frame = send_frame(1000, 1000)
    with ExitStack() as stack:
        programs = [stack.enter_context(bare_process("send")) for _ in range(3)]
        one, *others = [Running([address], [pid]) for address, pid in programs]
        two = joined(others)
        sides = {
            "one": (one, [connected(one.addresses[0]) for _ in range(2)]),
            "two": (two, [connected(address) for address in two.addresses]),
        }
        for placing in PLACINGS:
            with placing.place([*one.pids, *two.pids]):
                found = compared(sides, [frame] * 2, [])
            yield placing.show(f"{NAME}bare programs", found["one"], found["two"], NONE)


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


def costs() -> Iterator[bool]:
    yield from two_shards()
    yield from price_of_a_process()
    yield from scaled()
