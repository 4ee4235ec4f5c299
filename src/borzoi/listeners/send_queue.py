"""Pieces of replies on their way into a socket: bytes, ranges of files, bytes to be produced.

An idle connection has no queue: it is made for a reply that the socket does not take at once.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from borzoi.listeners.binary import RangesReply, Reply
from borzoi.model.errors import StorageFailure
from borzoi.storage.media import ReadOnlyFile
from borzoi.storage.reading import Chunk, Produced

#: Bytes of one poll sent in one turn of the loop, so that one reader does not monopolise it.
SENDFILE_BYTES_MAX: Final = 8 * 1024 * 1024


class FileRest(msgspec.Struct):
    """The rest of a file range to send. Holding it keeps the file open."""

    file: ReadOnlyFile
    position: int
    length: int


class Making(msgspec.Struct):
    """Bytes that are produced as they are sent, and how many are left."""

    slices: Iterator[Chunk]
    length: int

    def next_slice(self) -> Chunk:
        made = next(self.slices, b"")
        self.length -= len(made)
        if not made or self.length < 0:
            raise StorageFailure("stored messages have changed since they were announced")
        return made


class SendQueue(deque[bytes | memoryview | FileRest | Making]):
    """The pieces that were not sent yet, in order."""

    __slots__ = ()

    def add(self, reply: Reply | memoryview) -> None:
        if not isinstance(reply, RangesReply):
            self.append(reply)
            return
        self.append(reply.head)
        for part in reply.ranges:
            self.append(FileRest(part.file, part.position, part.length))
        for chunk in reply.tail:
            if isinstance(chunk, Produced):
                self.append(Making(chunk.slices(), chunk.length))
            else:
                self.append(chunk)

    @property
    def must_be_made(self) -> bool:
        """Whether the next piece has to be produced, which takes a turn."""
        return isinstance(self[0], Making)

    def flush(self, sock: socket.socket, *, may_make: bool) -> None:
        """Send pieces until none is left or the share of this turn is used up; produces at most one
        slice. Raises when the socket would block."""
        room = SENDFILE_BYTES_MAX
        while self and room > 0:
            piece = self[0]
            if isinstance(piece, Making):
                if not may_make:
                    return
                may_make = False
                made = piece.next_slice()
                if not piece.length:
                    self.popleft()
                self.appendleft(made)
                continue
            if isinstance(piece, FileRest):
                length = piece.length if piece.length < room else room
                sent = os.sendfile(sock.fileno(), piece.file.fileno(), piece.position, length)
                if not sent:
                    raise OSError(errno.EIO, "a stored range ended early")
                room -= sent
                piece.position += sent
                piece.length -= sent
                if piece.length:
                    continue
            else:
                sent = sock.send(piece, socket.MSG_MORE if len(self) > 1 else 0)
                if sent < len(piece):
                    self[0] = memoryview(piece)[sent:]
                    continue
            self.popleft()
