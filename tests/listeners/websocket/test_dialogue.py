"""The order of a WebSocket's life, without a socket."""

import asyncio

import pytest
from tests.support.embedded import EmbeddedServer

from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import RangesReply, Reply
from borzoi.listeners.connection import Conversation
from borzoi.listeners.shares import FRAMES_BEFORE_LOGIN
from borzoi.listeners.websocket.dialogue import Dialogue
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.framing import encode_request
from borzoi.protocol.websocket.frames import FrameReader, Limits

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def masked(first: int, payload: bytes) -> bytes:
    """With a mask of zeros, which changes nothing."""
    return bytes((first, 0x80 | len(payload))) + bytes(4) + payload


class Wire:
    """What a connection would do, written down."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.said: list[Reply] = []
        self.opened = 0
        self.finished = False
        session = server.connect().session
        self.conversation = Conversation(session, server.binary, self, server.opened.pool)
        self.reads = True
        self.dialogue = Dialogue(
            Limits(),
            self.conversation,
            send=self.said.append,
            read=self._note_reads,
            opened=self._note_opened,
        )

    def _note_reads(self, reads: bool) -> None:
        self.reads = reads

    def _note_opened(self, session: Session) -> None:
        assert session is self.conversation.session
        self.opened += 1

    def arrived(self, data: bytes) -> None:
        self.dialogue.arrived(memoryview(bytearray(data)))

    def send(self, reply: Reply) -> None:
        self.dialogue.say(reply)

    def finish(self) -> None:
        self.dialogue.say_goodbye()
        self.finished = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def test_it_is_opened_once_and_answers_in_frames(server: EmbeddedServer) -> None:
    wire = Wire(server)
    assert wire.dialogue.is_unfinished
    wire.arrived(UPGRADE[:20])
    assert (wire.opened, wire.said) == (0, [])
    wire.arrived(UPGRADE[20:])
    assert (wire.opened, wire.dialogue.is_unfinished) == (1, False)
    wire.arrived(masked(0x82, encode_request(Ping())))
    assert wire.said[1:] == [b"\x82\x08" + bytes(8)]


async def test_nothing_is_said_before_it_is_open(server: EmbeddedServer) -> None:
    wire = Wire(server)
    wire.conversation.hang_up(b"farewell")
    assert wire.finished
    assert wire.said == []


async def test_a_refusal_ends_it_without_a_close_frame(server: EmbeddedServer) -> None:
    wire = Wire(server)
    wire.arrived(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + masked(0x82, encode_request(Ping())))
    assert wire.finished
    assert wire.opened == 0
    assert len(wire.said) == 1


async def test_a_close_is_said_once(server: EmbeddedServer) -> None:
    wire = Wire(server)
    wire.arrived(UPGRADE)
    wire.arrived(masked(0x88, b"\x03\xe8") + masked(0x82, encode_request(Ping())))
    assert wire.said[1:] == [b"\x88\x02\x03\xe8"]
    assert wire.finished


async def test_a_fault_is_told_by_its_code_and_ends_it(server: EmbeddedServer) -> None:
    wire = Wire(server)
    wire.arrived(UPGRADE)
    wire.arrived(b"\x82\x01x")
    assert wire.said[1:] == [b"\x88\x02\x03\xea"]
    assert wire.finished


async def test_stored_messages_get_a_head_for_all_of_them(server: EmbeddedServer) -> None:
    wire = Wire(server)
    wire.arrived(UPGRADE)
    tail = [memoryview(b"tail")]
    wire.send(RangesReply(b"head", [], tail))
    assert wire.said[1:] == [RangesReply(b"\x82\x08head", [], tail)]


PONG = b"\x8a\x00"


async def test_short_frames_have_to_wait_for_their_turn(server: EmbeddedServer) -> None:
    """Pings of the WebSocket and of ours, a thousand at once: a share in each turn of the loop."""
    wire = Wire(server)
    wire.arrived(UPGRADE)
    one = masked(0x89, b"") + masked(0x82, encode_request(Ping()))
    wire.arrived(one * 500)
    assert len(wire.said[1:]) == FRAMES_BEFORE_LOGIN
    assert not wire.reads
    wire.arrived(one)
    while wire.dialogue.waits_for_its_turn:
        said = len(wire.said)
        await asyncio.sleep(0)
        assert len(wire.said) > said
    assert wire.said[1:] == [PONG, b"\x82\x08" + bytes(8)] * 501
    assert wire.reads


async def test_a_turn_that_comes_too_late_does_nothing(server: EmbeddedServer) -> None:
    wire = Wire(server)
    wire.arrived(UPGRADE + masked(0x89, b"") * 100)
    wire.conversation.lost()
    said = len(wire.said)
    await asyncio.sleep(0)
    assert not wire.dialogue.waits_for_its_turn
    assert len(wire.said) == said


async def test_a_fault_while_it_waits_for_its_turn_ends_it(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire(server)
    wire.arrived(UPGRADE + masked(0x89, b"") * 100)

    monkeypatch.setattr(FrameReader, "feed", lambda *_: 1 / 0)
    await asyncio.sleep(0)
    assert wire.finished
