"""The socket of a client, which other shards may write an answer to (`shard/answering.py`)."""

import os
import socket
from collections.abc import Callable
from typing import Final


class Answered:
    """The answer to a request whose client has got one from another shard."""


ANSWERED: Final = Answered()


class ClientSocket:
    """A plain TCP socket that stays with its connection. Only one answer is written at a time."""

    __slots__ = ("_sock", "is_used", "numbers", "on_taken_back")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        #: The shards that have it, and its number there.
        self.numbers: dict[int, int] = {}
        #: Whether it was used since it last was the next one to make room for another.
        self.is_used = False
        #: Called when they must not use it any more.
        self.on_taken_back: Callable[[ClientSocket], None] | None = None

    def duplicate(self) -> int:
        """Return another descriptor of it, which the caller owns. Raises `OSError`."""
        return os.dup(self._sock.fileno())

    def take_back(self) -> None:
        """The connection ends or moves: no other shard may write to it any more."""
        if self.numbers and self.on_taken_back is not None:
            self.on_taken_back(self)
