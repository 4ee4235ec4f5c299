"""Acknowledge at once what a client waits for before it sends the rest of a frame.

Published clients leave Nagle's algorithm on and write a request in two pieces. Their kernel holds
back the second one, if it is smaller than a segment, until the first is acknowledged; ours delays
acknowledgements by 40 ms, in the hope of sending them along with an answer. No answer comes before
the frame is whole, so each would wait for the other.

The kernel goes back to delaying whenever an answer leaves, so this is done again for every frame
that arrives in parts. A frame that is whole after one read costs nothing.
"""

import socket
from typing import Final

#: Nothing larger than a segment is held back, and none is larger than this (the MTU of loopback).
SEGMENT_BYTES_MAX: Final = 65536

#: None where the kernel has no such option.
QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)


def may_be_held_back(wanted: memoryview | None) -> bool:
    """Whether the rest of a frame, if it is known, is small enough to wait for us."""
    return wanted is None or len(wanted) < SEGMENT_BYTES_MAX


def acknowledge(sock: socket.socket) -> None:
    """Acknowledge what has been received and is not acknowledged yet."""
    if QUICKACK is not None:
        sock.setsockopt(socket.IPPROTO_TCP, QUICKACK, 1)
