"""The bare programs that the server is compared with: they do only what the system must do.

``python -m bench.bare send|sendfile|echo|web|quic`` listens, prints its port, and serves until
killed.
"""

import asyncio
import itertools
import os
import selectors
import socket
import sys
import tempfile
from typing import cast

import uvloop

from borzoi.protocol.framing import REQUEST_PREFIX, RESPONSE_PREFIX

ANSWER = bytes(8)


def listening() -> socket.socket:
    sock = socket.create_server(("127.0.0.1", 0))
    print(sock.getsockname()[1], flush=True)
    return sock


def accepted(sock: socket.socket) -> socket.socket:
    """The next connection. Without TCP_NODELAY the end of a large answer would wait for the peer's
    delayed acknowledgement, 40 ms, now and then."""
    connection, _ = sock.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def serve_sends() -> None:
    """Receive each frame into one buffer, write it to a file, answer 8 bytes."""
    sock, selector = listening(), selectors.DefaultSelector()
    buffer = memoryview(bytearray(4 << 20))
    with tempfile.TemporaryFile() as file:
        fd = file.fileno()
        selector.register(sock, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sock:
                    selector.register(accepted(sock), selectors.EVENT_READ)
                    continue
                connection = cast("socket.socket", key.fileobj)
                filled = connection.recv_into(buffer)
                if not filled:
                    selector.unregister(connection)
                    continue
                length, _ = REQUEST_PREFIX.unpack_from(buffer)
                size = length + 4
                while filled < size:
                    # What a client with Nagle's algorithm waits for before it sends the rest.
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                    filled += connection.recv_into(buffer[filled:size])
                os.write(fd, buffer[8:size])
                connection.send(ANSWER)


def serve_ranges(size: int, paths: list[str]) -> None:
    """Answer each frame with the next `size` bytes of the files, by sendfile, over and over."""
    sock, selector = listening(), selectors.DefaultSelector()
    buffer = bytearray(65536)
    files = [os.open(path, os.O_RDONLY) for path in paths]
    ranges = itertools.cycle(
        (fd, start) for fd in files for start in range(0, os.fstat(fd).st_size - size + 1, size)
    )
    head = RESPONSE_PREFIX.pack(0, size)
    selector.register(sock, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is sock:
                selector.register(accepted(sock), selectors.EVENT_READ)
                continue
            connection = cast("socket.socket", key.fileobj)
            if not connection.recv_into(buffer):
                selector.unregister(connection)
                continue
            connection.send(head, socket.MSG_MORE)
            fd, position = next(ranges)
            end = position + size
            while position < end:
                position += os.sendfile(connection.fileno(), fd, position, end - position)


class Echo(asyncio.Protocol):
    """Answer 8 bytes to each frame; frames arrive whole."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(ANSWER)


async def serve_echo() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    match sys.argv[1]:
        case "send":
            serve_sends()
        case "sendfile":
            serve_ranges(int(sys.argv[2]), sys.argv[3:])
        case "echo":
            uvloop.run(serve_echo())
        case "web":
            from bench import bare_web

            bare_web.serve(sys.argv[2])
        case "quic":
            from bench import bare_quic

            bare_quic.serve()
