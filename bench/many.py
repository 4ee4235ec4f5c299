"""Many connections with small requests, as most services have: requests by the clock.

The load is one thread that never waits for a single connection. Beside the server runs a bare
uvloop protocol that answers 8 bytes to anything. All consumers poll the same message, which the
server reads once. In the last rows each polls one of its own, again and again, reads on from there,
or polls another one each time, which is read from the file.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import cycle

from tests.support.server import running_server

from bench.comparing import Row
from bench.load import (
    connected,
    exchange_on_all,
    is_whole,
    poll_frame,
    poll_on_all,
    send_frame,
    send_on_all,
)
from bench.sides import bare, logged_in, prepared

CONNECTIONS = (1, 4, 32, 256)
#: Requests of one turn over all connections together.
TURN_REQUESTS = 2048
MESSAGE_BYTES = 200
GOAL = 0.65
#: Messages between the places of two consumers that share nothing.
APART = 50
CONSUMERS = 32
#: What they read.
MESSAGES = CONSUMERS * APART
SPREAD = 3.0
CPU_US_OF_SEND = 45.0
CPU_US_OF_POLL = 40.0


def rows(stack: ExitStack) -> list[Row]:
    server = stack.enter_context(running_server())
    echo_address = stack.enter_context(bare("echo"))
    owns = [prepared(server), *[logged_in(server) for _ in range(max(CONNECTIONS) - 1)]]
    others = [connected(echo_address) for _ in range(max(CONNECTIONS))]
    send, poll = send_frame(1, MESSAGE_BYTES), poll_frame(0, 1)
    send_on_all(owns[:1], send, 1)  # for the polls
    found = []
    for name, frame, load, cpu in (
        ("send", send, send_on_all, CPU_US_OF_SEND),
        ("poll", poll, poll_on_all, CPU_US_OF_POLL),
    ):
        for count in CONNECTIONS:
            found.append(
                Row(
                    f"{name} 1 × {MESSAGE_BYTES} B, {count} connections",
                    GOAL if count >= 32 else 0.5,
                    partial(send_on_all, others[:count], frame, TURN_REQUESTS // count),
                    partial(load, owns[:count], frame, TURN_REQUESTS // count),
                    turns=10,
                    spread=SPREAD if count == 32 else None,
                    pid=server.process.pid,
                    cpu_us=cpu if count == 32 else None,
                )
            )
    send_on_all(owns[:1], send, MESSAGES)
    for where, polled in places():
        frames = {sock: cycle(each) for sock, each in zip(owns, polled, strict=False)}
        count = len(polled)
        found.append(
            Row(
                f"poll 1 × {MESSAGE_BYTES} B, {count} connections, {where}",
                0.45,
                partial(send_on_all, others[:count], poll, TURN_REQUESTS // count),
                partial(exchange_on_all, frames, TURN_REQUESTS // count, is_whole),
                turns=10,
            )
        )
    return found


def places() -> Iterator[tuple[str, list[list[bytes]]]]:
    """Where consumers read that share nothing: what it is called, and the polls of each of them,
    over and over."""
    for where, step in (
        ("each in its own place", 0),
        ("each reading on", 1),
        ("each elsewhere each time", 3 * APART),
    ):
        yield where, [_polls(at * APART, step, MESSAGES) for at in range(CONSUMERS)]


def _polls(start: int, step: int, end: int) -> list[bytes]:
    """The polls of one connection: the first at `start`, the next `step` further."""
    return [poll_frame((start + number * step) % end, 1) for number in range(APART)]
