"""Sends as published clients write them: the prefix first, then the rest, with Nagle's algorithm.

The client may also turn the algorithm off; both are measured, with batches of the sizes that people
use. The bare program acknowledges the first write at once, as the server does.
"""

import socket
from contextlib import ExitStack
from functools import partial

from tests.support.server import running_server

from bench.comparing import Row
from bench.load import Measured, connected, mixed_send_frame, send_frame, send_over_and_over
from bench.sides import bare, prepared

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


def rows(stack: ExitStack) -> list[Row]:
    server = stack.enter_context(running_server())
    bare_address = stack.enter_context(bare("send"))
    own, other = prepared(server), connected(bare_address)
    found = []
    for nagle in (True, False):
        for name, frame, goal in BATCHES:
            requests = min(TURN_REQUESTS_MAX, TURN_BYTES // len(frame))
            found.append(
                Row(
                    f"send {name} in two writes, Nagle {'on' if nagle else 'off'}",
                    goal,
                    partial(turn, other, frame, requests, nagle=nagle),
                    partial(turn, own, frame, requests, nagle=nagle),
                    written_bytes=requests * len(frame),
                )
            )
    return found


def turn(sock: socket.socket, frame: bytes, requests: int, *, nagle: bool) -> Measured:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, not nagle)
    return send_over_and_over(sock, frame, requests, two_writes=True)
