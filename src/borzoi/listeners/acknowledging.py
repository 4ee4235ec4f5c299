"""Immediate TCP acknowledgements, for clients that wait for one before they finish a frame.

Published clients leave Nagle's algorithm on and write a request in two pieces. Their kernel holds
back the second one, if it is smaller than a segment, until the first is acknowledged; ours delays
acknowledgements by 40 ms, to piggyback them on an answer. There is no answer before the frame is
complete, so each would wait for the other.

The kernel returns to delaying whenever an answer leaves, so this is repeated for every frame that
arrives in parts. A frame that is complete after one read costs nothing.
"""

import socket
from typing import Final

#: Nothing larger than a segment is held back, and none is larger than this (the MTU of loopback).
SEGMENT_BYTES_MAX: Final = 65536

#: None where the kernel has no such option.
QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)


def may_be_held_back(wanted: memoryview | None) -> bool:
    """Whether the rest of a frame may be held back until we acknowledge."""
    return wanted is None or len(wanted) < SEGMENT_BYTES_MAX


def acknowledge(sock: socket.socket) -> None:
    """Send pending acknowledgements now."""
    if QUICKACK is not None:
        sock.setsockopt(socket.IPPROTO_TCP, QUICKACK, 1)
