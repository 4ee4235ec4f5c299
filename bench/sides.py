"""The two sides of a comparison on the wire: bare programs, and servers with one topic."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.server import RunningServer
from tests.support.wire_client import WireClient

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic


@contextmanager
def bare(*arguments: str) -> Iterator[tuple[str, int]]:
    """A bare program; its address."""
    with bare_process(*arguments) as (address, _):
        yield address


@contextmanager
def bare_process(*arguments: str) -> Iterator[tuple[tuple[str, int], int]]:
    """The same with the number of its process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.bare", *arguments],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    )
    assert process.stdout is not None
    try:
        yield ("127.0.0.1", int(process.stdout.readline())), process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def logged_in(server: RunningServer) -> socket.socket:
    client = WireClient(server.tcp_address)
    client.login()
    return client._sock


def prepared(server: RunningServer, partitions: int = 4) -> socket.socket:
    """A connection to a server with one topic."""
    with WireClient(server.tcp_address) as client:
        client.login()
        client.call(CreateStream("bench"))
        client.call(CreateTopic(0, "topic", partitions))
    return logged_in(server)
