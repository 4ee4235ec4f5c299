"""The transports of a server, and marks for tests that run over several of them."""

import asyncio
from collections.abc import Sequence

import pytest

from borzoi.client.transports.interface import AsyncTransport
from borzoi.model.errors import ClientClosed
from borzoi.protocol.buffers import Buffer

#: Transport, as connection strings name it → the section of the server's settings.
SECTIONS = {"tcp": "tcp", "ws": "websocket", "quic": "quic", "http": "http"}

every_transport = pytest.mark.parametrize("transport", list(SECTIONS))

#: HTTP has none, and so neither members of groups nor a connection to ask about.
with_sessions = pytest.mark.parametrize("transport", ["tcp", "ws", "quic"])

#: Settings of a server that has them all.
EVERY_TRANSPORT = {
    f"{section.upper()}_{name}": value
    for section in SECTIONS.values()
    for name, value in (("ENABLED", "true"), ("ADDRESS", "127.0.0.1:0"))
}


async def closed_under_requests(
    transport: AsyncTransport, frame: Sequence[Buffer], count: int
) -> None:
    """Close a transport that so many wait for: each of them is told, and who asks later."""
    waiting = [asyncio.create_task(transport.exchange(frame, 60)) for _ in range(count)]
    await asyncio.sleep(0)
    await transport.close()
    for task in [*waiting, transport.exchange(frame, 60)]:
        with pytest.raises(ClientClosed):
            await task
