"""Frames from streams, and the limits on what is incomplete."""

import pytest
from tests.support.embedded import EmbeddedServer

from borzoi.handlers.sessions import Session
from borzoi.listeners.binary import failed
from borzoi.listeners.quic_receiving import NO_ROOM, UNFINISHED_BYTES_MAX, Receiving
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.system import TransportKind
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.framing import REQUEST_PREFIX, encode_request

PING = encode_request(Ping())
LARGE_BYTES = 800_000
LARGE = REQUEST_PREFIX.pack(4 + LARGE_BYTES, int(Code.PING))


@pytest.fixture
def receiving(server: EmbeddedServer) -> Receiving:
    return Receiving(server.binary)


@pytest.fixture
def session() -> Session:
    session = Session(1, "127.0.0.1:1", TransportKind.QUIC, lambda: None, 0.0)
    session.user_id = ROOT_USER_ID
    return session


def arrived(receiving: Receiving, session: Session, number: int, data: bytes) -> object:
    """What is known after this data, which does not end the stream."""
    stream = receiving.stream(number, ended=False, may_begin=True)
    assert stream is not None
    assert receiving.add(stream, data)
    return receiving.frame(session, stream)


def test_a_frame_is_complete_with_its_last_byte(receiving: Receiving, session: Session) -> None:
    for position in range(len(PING) - 1):
        assert arrived(receiving, session, 0, PING[position : position + 1]) is None
        assert arrived(receiving, session, 4, b"") is None  # they do not mix
    assert receiving.is_incomplete
    assert arrived(receiving, session, 0, PING[-1:]) == (int(Code.PING), memoryview(b""))


def test_nothing_is_read_behind_a_frame(receiving: Receiving, session: Session) -> None:
    arrived(receiving, session, 0, PING)
    receiving.finish(0, receiving.streams.pop(0), ended=False)
    for ended in (False, True):
        assert receiving.stream(0, ended=ended, may_begin=True) is None
    # The number is not used again by a client; it is forgotten here too.
    assert receiving.stream(0, ended=False, may_begin=True) is not None


def test_an_ending_connection_begins_no_request(receiving: Receiving, session: Session) -> None:
    arrived(receiving, session, 0, PING[:3])
    assert receiving.stream(4, ended=False, may_begin=False) is None
    assert receiving.stream(0, ended=False, may_begin=False) is receiving.streams[0]


def test_a_large_frame_is_admitted_until_it_is_forgotten(
    server: EmbeddedServer, receiving: Receiving, session: Session
) -> None:
    unfinished = server.binary.unfinished
    assert arrived(receiving, session, 0, LARGE) is None
    assert unfinished.in_use == LARGE_BYTES
    unfinished.limit = LARGE_BYTES
    assert arrived(receiving, session, 4, LARGE) == failed(NO_ROOM)
    receiving.forget(0)
    assert unfinished.in_use == 0
    assert arrived(receiving, session, 8, LARGE) is None
    receiving.release(receiving.streams[8])
    receiving.release(receiving.streams[8])
    assert unfinished.in_use == 0


def test_incomplete_requests_are_limited(receiving: Receiving, session: Session) -> None:
    stream = receiving.stream(0, ended=False, may_begin=True)
    assert stream is not None
    assert receiving.add(stream, bytes(UNFINISHED_BYTES_MAX))
    assert not receiving.add(stream, b"x")
