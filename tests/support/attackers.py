"""Attackers: programs of their own, beside which a good client is measured.

``python -m tests.support.attackers KIND HOST PORT ARGUMENT…`` attacks until it is killed, and says
so in a line when it has begun.

::

    pings N               N connections without a login send bursts of pings and read the answers
    polls N COUNT         N connections poll COUNT messages of the topic s/t, over and over
    batches N COUNT       N connections send COUNT empty messages at once, over and over
    large N SIZE          N connections send one message with SIZE bytes of payload, over and over
    unfinished N SIZE     N connections of bob begin a send of SIZE bytes and send all but one
"""

import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tests.support.polls import poll_of
from tests.support.sends import send_frame
from tests.support.wire_client import WireClient

from borzoi.model.partitioning import Partitioning
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import SendMessages
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.framing import REQUEST_PREFIX, RESPONSE_PREFIX, encode_request
from borzoi.records.layouts import INDEX_DTYPE

Address = tuple[str, int]
BURST = encode_request(Ping()) * 8192
HEADER_BYTES = 64


@contextmanager
def attacking(kind: str, address: Address, *arguments: object) -> Iterator[None]:
    """An attack in a process of its own, which has begun."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.attackers", kind, *map(str, (*address, *arguments))],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"attacking\n"
        yield
        assert process.poll() is None, "the attack ended by itself"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def begun() -> None:
    print("attacking", flush=True)


def pings(address: Address, count: int) -> None:
    selector = selectors.DefaultSelector()
    rests: dict[socket.socket, memoryview] = {}
    for _ in range(count):
        sock = socket.create_connection(address)
        sock.setblocking(False)
        rests[sock] = memoryview(BURST)
        selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
    begun()
    while True:
        for key, events in selector.select():
            sock = key.fileobj  # type: ignore[assignment]
            if events & selectors.EVENT_READ and not sock.recv(1 << 16):
                raise ConnectionError("the server closed a connection")
            if events & selectors.EVENT_WRITE:
                rests[sock] = rests[sock][sock.send(rests[sock]) :] or memoryview(BURST)


def polls(address: Address, count: int, messages: int) -> None:
    everywhere(address, count, encode_request(poll_of(messages)))


def batches(address: Address, count: int, messages: int) -> None:
    everywhere(address, count, empty_messages(messages))


def large(address: Address, count: int, size: int) -> None:
    everywhere(address, count, large_message(size))


def everywhere(address: Address, count: int, frame: bytes) -> None:
    """The same request repeatedly, on this many connections."""

    def attack(client: WireClient) -> None:
        while True:
            client.send(frame)
            discard(client._sock)

    clients = [logged_in(address) for _ in range(count)]
    threads = [threading.Thread(target=attack, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    begun()
    for thread in threads:
        thread.join()


def unfinished(address: Address, count: int, size: int) -> None:
    frame = send_of(size)[:-1]
    clients = [logged_in(address, "bob", "secret") for _ in range(count)]
    for client in clients:
        client.send(frame)
    begun()
    threading.Event().wait()


def logged_in(address: Address, username: str = "iggy", password: str = "iggy") -> WireClient:
    client = WireClient(address)
    client.login(username, password)
    return client


def discard(sock: socket.socket) -> int:
    """Read an answer to its end without keeping it; its length."""
    head = b""
    while len(head) < RESPONSE_PREFIX.size:
        head += sock.recv(RESPONSE_PREFIX.size - len(head))
    status, length = RESPONSE_PREFIX.unpack(head)
    assert status == 0, status
    rest, buffer = length, bytearray(1 << 20)
    while rest:
        received = sock.recv_into(buffer, min(rest, len(buffer)))
        if not received:
            raise ConnectionError("the answer was cut off")
        rest -= received
    return int(length)


def empty_messages(count: int) -> bytes:
    """A send of this many messages that are only a header."""
    entries = np.zeros(count, INDEX_DTYPE)
    entries["position"] = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(HEADER_BYTES)
    indexes, messages = memoryview(entries.tobytes()), memoryview(bytes(HEADER_BYTES * count))
    return encode_request(
        SendMessages("s", "t", Partitioning.partition(0), count, indexes, messages)
    )


def large_message(size: int) -> bytes:
    """A send of one message with a payload of this many zeros."""
    return send_frame(bytes(size))


def send_of(size: int) -> bytes:
    """A frame with the metadata of a send, and whatever behind it."""
    start = empty_messages(1)[REQUEST_PREFIX.size :]
    payload = start[: 4 + int.from_bytes(start[:4], "little")].ljust(size, b"\0")
    return REQUEST_PREFIX.pack(len(payload) + 4, int(Code.SEND_MESSAGES)) + payload


KINDS: dict[str, Callable[..., None]] = {
    "pings": pings,
    "polls": polls,
    "batches": batches,
    "large": large,
    "unfinished": unfinished,
}

if __name__ == "__main__":
    _, kind, host, port, *arguments = sys.argv
    KINDS[kind]((host, int(port)), *map(int, arguments))
