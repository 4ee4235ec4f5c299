"""Answers through the sans-IO side of a client's transport."""

from borzoi.client.transports.http import HttpWire
from borzoi.client.transports.websocket import WebSocketWire


def fed(
    wire: HttpWire | WebSocketWire, data: bytes, step: int = 1 << 20
) -> list[tuple[int, bytes]]:
    """The answers in data that arrives in pieces of `step` bytes."""
    answers = []
    while data:
        space = wire.space()
        size = min(len(space), step, len(data))
        space[:size] = data[:size]
        data = data[size:]
        answers += [(status, bytes(payload)) for status, payload in wire.received(size)]
    return answers
