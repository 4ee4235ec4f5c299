"""The limits of this machine for the same frames, without a message server.

::

    memory_copy          one core copies a batch
    loopback             one process writes batches to another, which discards them
    disk_write           a batch is written to a file, into the page cache
    disk_sync            the same, and synced
    bare_python_server   a Python process receives each batch and answers 8 bytes

A server has to do at least the work of the last row and of one or both disk rows; the best it can
reach is near the smallest of them.
"""

import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from borzoi.protocol.framing import RESPONSE_PREFIX

ANSWER: Final = RESPONSE_PREFIX.pack(0, 0)
#: How long each row is measured.
SECONDS: Final = 1.0
SYNCED_BYTES_MAX: Final = 256 * 1024 * 1024
MEGABYTE: Final = 1e6


def measure(batch_bytes: int, directory: Path, *, seconds: float = SECONDS) -> dict[str, float]:
    """Measure MB/s of every row, for batches of this size; files go below the directory."""
    batch = os.urandom(max(1, batch_bytes))
    return {
        "memory_copy": _rate(lambda: bytearray(batch), len(batch), seconds),
        "loopback": _over_socket(_discard, batch, seconds, answered=False),
        "disk_write": _to_disk(batch, directory, seconds, sync=False),
        "disk_sync": _to_disk(batch, directory, seconds, sync=True),
        "bare_python_server": _over_socket(_answer, batch, seconds, answered=True),
    }


def _rate(step: Callable[[], object], step_bytes: int, seconds: float) -> float:
    """Repeat a step for a while and return its MB/s."""
    moved, began = 0, time.perf_counter()
    while (now := time.perf_counter()) - began < seconds or not moved:
        step()
        moved += step_bytes
    return moved / max(now - began, 1e-9) / MEGABYTE


def _to_disk(batch: bytes, directory: Path, seconds: float, *, sync: bool) -> float:
    with tempfile.TemporaryFile(dir=directory) as file:
        descriptor = file.fileno()

        def step() -> None:
            # Starts over at 0, so that a fast disk does not fill up.
            if os.lseek(descriptor, 0, os.SEEK_CUR) > SYNCED_BYTES_MAX:
                os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, batch)
            if sync:
                os.fdatasync(descriptor)

        return _rate(step, len(batch), seconds)


def _over_socket(
    serve: Callable[[int, int], None], batch: bytes, seconds: float, *, answered: bool
) -> float:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        peer = context.Process(target=serve, args=(port, len(batch)), daemon=True)
        peer.start()
        # The parent accepts, because the child may take a while to start.
        listening.settimeout(30)
        connection, _ = listening.accept()
    with closing(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def step() -> None:
            connection.sendall(batch)
            if answered:
                _receive(connection, memoryview(bytearray(len(ANSWER))))

        rate = _rate(step, len(batch), seconds)
    peer.join(10)
    return rate


def _receive(connection: socket.socket, into: memoryview) -> bool:
    """Fill the buffer; False at EOF."""
    filled = 0
    while filled < len(into):
        count = connection.recv_into(into[filled:])
        if not count:
            return False
        filled += count
    return True


def _discard(port: int, batch_bytes: int) -> None:
    with closing(socket.create_connection(("127.0.0.1", port))) as connection:
        buffer = memoryview(bytearray(max(batch_bytes, 1 << 20)))
        while connection.recv_into(buffer):
            pass


def _answer(port: int, batch_bytes: int) -> None:
    with closing(socket.create_connection(("127.0.0.1", port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = memoryview(bytearray(batch_bytes))
        while _receive(connection, buffer):
            connection.sendall(ANSWER)
