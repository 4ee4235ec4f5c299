"""A bare QUIC server of the library that the server uses: it takes a stream and answers it.

A stream of up to `SMALL_BYTES` is answered with as many bytes as it asks for, in decimal; a larger
one with eight.
"""

import asyncio
from typing import Any

import uvloop
from qh3.asyncio.protocol import QuicConnectionProtocol
from qh3.asyncio.server import serve as serve_quic
from qh3.quic.configuration import QuicConfiguration
from qh3.quic.events import QuicEvent, StreamDataReceived

from borzoi.listeners.on_demand import datagram_socket
from borzoi.security.certificates import self_signed

ANSWER = bytes(8)
SMALL_BYTES = 16
#: What the server reads and hands over at a time.
PIECE = bytes(256 * 1024)


class Answering(QuicConnectionProtocol):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._streams: dict[int, bytearray] = {}

    def quic_event_received(self, event: QuicEvent) -> None:
        if not isinstance(event, StreamDataReceived):
            return
        data = self._streams.setdefault(event.stream_id, bytearray())
        data += event.data
        if event.end_stream:
            del self._streams[event.stream_id]
            self._answer(event.stream_id, data)

    def _answer(self, number: int, data: bytearray) -> None:
        left = int(data) if len(data) <= SMALL_BYTES else 0
        while left > 0:
            self._quic.send_stream_data(number, PIECE[:left])
            left -= len(PIECE)
        self._quic.send_stream_data(number, ANSWER, end_stream=True)


async def _served() -> None:
    pair = self_signed("localhost")
    configuration = QuicConfiguration(
        is_client=False,
        max_data=256 * 1024,
        max_stream_data=256 * 1024,
        max_datagram_size=8000,
        idle_timeout=60,
    )
    configuration.load_cert_chain(pair.certificate, pair.key)
    sock = datagram_socket(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    sock.close()
    await serve_quic("127.0.0.1", port, configuration=configuration, create_protocol=Answering)
    print(port, flush=True)
    await asyncio.Event().wait()


def serve() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_served())
