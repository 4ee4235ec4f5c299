"""Frames inside WebSocket messages: what the server's side makes of ours, and we of its."""

from typing import Any

import pytest
from tests.support.wires import fed

from borzoi.client import AsyncClient
from borzoi.client.options import Address
from borzoi.client.transports.websocket import MESSAGE_BYTES_MAX, WebSocketWire
from borzoi.model.errors import InvalidVersion
from borzoi.protocol.framing import encode_response
from borzoi.protocol.websocket.frames import FrameReader, Limits, Opcode, frame_head
from borzoi.protocol.websocket.handshake import answer_once_whole


def opened() -> WebSocketWire:
    wire = WebSocketWire(Address("localhost", 8092))
    answer = answer_once_whole(wire.opening)
    assert answer is not None
    assert fed(wire, answer.response) == []
    assert wire.is_open
    return wire


def message(payload: bytes) -> bytes:
    return frame_head(Opcode.BINARY, len(payload)) + payload


@pytest.mark.parametrize("step", [1, 7, 4096, 1 << 20])
def test_answers_are_found_however_they_are_cut(step: int) -> None:
    wire = opened()
    payloads = [b"", b"ab", bytes(range(256)) * 20, b"x" * 9000]
    stream = b"".join(encode_response(0, payload) for payload in payloads)
    halves = message(stream[:5000]) + message(stream[5000:])
    assert fed(wire, halves, step) == [(0, payload) for payload in payloads]


def test_a_large_answer_is_received_where_it_is_read() -> None:
    wire = opened()
    payload = bytes(range(256)) * 4000
    data = message(encode_response(0, payload))
    fed(wire, data[:70_000])
    assert wire.missing
    assert len(wire.space()) > 65_536
    assert fed(wire, data[70_000:]) == [(0, payload)]
    assert not wire.missing


def test_the_first_answer_may_come_with_the_opening() -> None:
    wire = WebSocketWire(Address("localhost", 8092))
    answer = answer_once_whole(wire.opening)
    assert answer is not None
    assert fed(wire, answer.response + message(encode_response(3))) == [(3, b"")]


@pytest.mark.parametrize("size", [8, 70_000, MESSAGE_BYTES_MAX + 1])
def test_a_request_is_read_by_the_server(size: int) -> None:
    frame = bytes(number % 251 for number in range(min(size, 1000))) * (size // 1000 + 1)
    sent = b"".join(opened().outgoing([frame[:size][:5], frame[:size][5:]]))
    reader = FrameReader(Limits())
    pieces: list[Any] = list(reader.feed(memoryview(bytearray(sent))))
    assert b"".join(pieces) == frame[:size]
    assert not reader.inside_frame


def test_a_ping_is_answered_and_a_close_is_not() -> None:
    wire = opened()
    assert wire.take_unasked() == b""
    fed(wire, frame_head(Opcode.PING, 2) + b"hi" + frame_head(Opcode.CLOSE, 0))
    assert wire.unasked
    reader = FrameReader(Limits())
    pong: Any
    (pong,) = reader.feed(memoryview(bytearray(wire.take_unasked())))
    assert (pong.opcode, pong.payload) == (Opcode.PONG, b"hi")
    assert wire.take_unasked() == b""


def test_what_is_no_websocket_is_told() -> None:
    with pytest.raises(InvalidVersion, match="opens no WebSocket"):
        fed(WebSocketWire(Address("localhost", 80)), b"HTTP/1.1 404 Not Found\r\n\r\n")
    with pytest.raises(InvalidVersion, match="violates the WebSocket protocol"):
        fed(opened(), b"\xff\xff")


@pytest.mark.system
async def test_a_server_that_speaks_something_else_is_told(server) -> None:
    host, port = server.addresses["http"]
    with pytest.raises(InvalidVersion, match="opens no WebSocket"):
        async with AsyncClient(f"borzoi+ws://{host}:{port}"):
            pass
