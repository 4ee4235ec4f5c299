"""Sends as published clients write them: the prefix first, then the rest, with Nagle's algorithm.

The client may also turn the algorithm off; both are measured, with batches of the sizes that people
use. The bare program acknowledges the first write at once, as the server does. Load and program
have a processor each, as if the load came from another machine. Small batches are measured on one
processor as well, where the bare program is at its best.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from tests.support.server import running_server

from bench.comparing import Row
from bench.load import Measured, connected, mixed_send_frame, send_frame, send_over_and_over
from bench.placing import placed
from bench.sides import bare_process, prepared

#: Bytes that one turn sends, about.
TURN_BYTES = 10_000_000
TURN_REQUESTS_MAX = 500

#: What is sent, and the ratio to the bare program that it must reach.
BATCHES = (
    ("1 × 200 B", send_frame(1, 200), 0.5),
    ("10 × 1000 B", send_frame(10, 1000), 0.75),
    ("50 × 1000 B", send_frame(50, 1000), 0.75),
    ("100 × 1000 B", send_frame(100, 1000), 0.75),
    ("1000 × 100 B", send_frame(1000, 100), 0.80),
    ("1000 × 200-2000 B", mixed_send_frame(1000, 2000), 0.85),
    ("1000 × 1000 B", send_frame(1000, 1000), 1.0),
)


#: The same on one processor. The bare program sleeps there, and wakes up for next to nothing.
SHARED = (
    ("10 × 1000 B", send_frame(10, 1000), 0.6),
    ("50 × 1000 B", send_frame(50, 1000), 0.6),
)


class How(NamedTuple):
    """How a client writes, and where it runs."""

    nagle: bool
    #: Whether it has the processor of the program.
    is_shared: bool


class Side(NamedTuple):
    """A program: its process, and a connection to it."""

    pid: int
    sock: socket.socket

    def turn(self, frame: bytes, requests: int, how: How) -> Measured:
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, not how.nagle)
        with placed(self.pid, is_shared=how.is_shared):
            return send_over_and_over(self.sock, frame, requests, two_writes=True)


def cases() -> Iterator[tuple[str, bytes, float, int, How]]:
    """Name, frame, goal, requests of a turn, and how they are written."""
    for nagle in (True, False):
        for is_shared, batches in ((False, BATCHES), (True, SHARED)):
            for name, frame, goal in batches:
                requests = min(TURN_REQUESTS_MAX, TURN_BYTES // len(frame))
                how = How(nagle=nagle, is_shared=is_shared)
                text = f"send {name} in two writes, Nagle {'on' if nagle else 'off'}"
                yield text + (", one processor" if is_shared else ""), frame, goal, requests, how


def rows(stack: ExitStack) -> list[Row]:
    server = stack.enter_context(running_server())
    address, pid = stack.enter_context(bare_process("send"))
    own, other = Side(server.process.pid, prepared(server)), Side(pid, connected(address))
    return [
        Row(
            name,
            goal,
            partial(other.turn, frame, requests, how),
            partial(own.turn, frame, requests, how),
            written_bytes=requests * len(frame),
        )
        for name, frame, goal, requests, how in cases()
    ]
