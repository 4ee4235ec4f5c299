"""How many Python functions a send of 1000 × 1000 B calls, from the read to its answer.

The count does not depend on the machine or on other load, so it shows what a timing hides: a layer
that was added, a cache that stopped working. Only the number of reads a frame arrives in varies, so
the median over many requests counts; the first send is the first of its connection and its shape.
C functions are not counted.

    python -m bench calls
"""

import asyncio
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import uvloop
from tests.support.embedded import embedded_server
from tests.support.listening import tcp_listener

from bench.load import connected, send_frame, send_over_and_over
from borzoi.listeners.tcp import TcpConnection
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.framing import encode_request

REQUESTS = 60
FIRST_MAX = 120
REPEATED_MAX = 60


class Trace:
    """The functions called for each answer, in order."""

    def __init__(self) -> None:
        self._current: list[str] = []
        self.answers: list[list[str]] = []

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self._current.append(frame.f_code.co_qualname)

    def reading(self, read: Callable[[TcpConnection], None]) -> Callable[[TcpConnection], None]:
        def traced(connection: TcpConnection) -> None:
            sys.setprofile(self._called)
            try:
                read(connection)
            finally:
                sys.setprofile(None)

        return traced

    def answering(
        self, send: Callable[[TcpConnection, Any], None]
    ) -> Callable[[TcpConnection, Any], None]:
        def traced(connection: TcpConnection, reply: Any) -> None:
            send(connection, reply)
            sys.setprofile(None)
            # All but this function itself, which comes before `send`.
            self.answers.append([name for name in self._current if "traced" not in name])
            self._current.clear()

        return traced


def load(address: tuple[str, int]) -> None:
    with connected(address) as sock:
        sock.sendall(encode_request(LoginUser("iggy", "iggy")))
        sock.recv(1024)
        send_over_and_over(sock, send_frame(1000, 1000), REQUESTS)


async def traced() -> Trace:
    trace = Trace()
    read, send = TcpConnection._on_readable, TcpConnection.send
    with tempfile.TemporaryDirectory() as directory:
        async with embedded_server(Path(directory)) as server, tcp_listener(server) as listener:
            root = server.root()
            await root.call(CreateStream("bench"))
            await root.call(CreateTopic(0, "topic", 1))
            setattr(TcpConnection, "_on_readable", trace.reading(read))  # noqa: B010
            setattr(TcpConnection, "send", trace.answering(send))  # noqa: B010
            try:
                client = threading.Thread(target=load, args=(listener.address,))
                client.start()
                while client.is_alive():
                    await asyncio.sleep(0.02)
            finally:
                setattr(TcpConnection, "_on_readable", read)  # noqa: B010
                setattr(TcpConnection, "send", send)  # noqa: B010
    return trace


def main() -> int:
    # The answer to the login comes first.
    _, first, *repeated = uvloop.run(traced()).answers
    counts = [len(calls) for calls in repeated[REQUESTS // 2 :]]
    median = statistics.median_low(counts)
    print("| send of 1000 × 1000 B | Python calls | at most |")
    print("|---|---|---|")
    print(f"| first | {len(first)} | {FIRST_MAX} |")
    print(f"| repeated | {median} ({min(counts)} to {max(counts)}) | {REPEATED_MAX} |")
    return int(len(first) > FIRST_MAX or median > REPEATED_MAX)


if __name__ == "__main__":
    sys.exit(main())
