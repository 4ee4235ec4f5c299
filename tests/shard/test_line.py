"""The socket between two shards: order, urgency, descriptors, and its end."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from itertools import count

import pytest
from tests.support.descriptors import is_open

from borzoi.shard.envelopes import Envelope, EnvelopeKind, Subject, encode_fragments
from borzoi.shard.line import PeerLine
from borzoi.shard.links import Peer


class End:
    """One end of a line and what came out of it."""

    def __init__(self, sock: socket.socket) -> None:
        self.found: list[Envelope] = []
        self.lost: list[OSError | None] = []
        self.drained = 0
        self.line = PeerLine(
            Peer(1, sock, -1),
            on_envelope=dict.fromkeys(EnvelopeKind, self.found.append),
            on_drained=self._drained,
            on_lost=self.lost.append,
        )

    def _drained(self) -> None:
        self.drained += 1

    def bodies(self) -> list[bytes]:
        return [bytes(one.body) for one in self.found]


@pytest.fixture
async def ends() -> AsyncIterator[tuple[End, End]]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    pair = End(one), End(other)
    yield pair
    for end in pair:
        end.line.close()
        end.line.peer.socket.close()


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


NUMBERS = count(1)


def notice(body: bytes, descriptors: list[int] | None = None) -> Envelope:
    return Envelope(EnvelopeKind.NOTICE, Subject.FILE, next(NUMBERS), body, descriptors or [])


async def test_envelopes_arrive_in_order(ends):
    one, other = ends
    for number in range(1000):
        one.line.send(notice(b"%d" % number), urgent=False)
    await until(lambda: len(other.found) == 1000)
    assert other.bodies() == [b"%d" % number for number in range(1000)]
    assert one.line.untaken_bytes == 0
    assert one.drained >= 1


def at_once(line: PeerLine, body: bytes) -> None:
    line.send(notice(body), urgent=False, at_once=True)


def now(line: PeerLine, body: bytes) -> None:
    line.send_now(EnvelopeKind.NOTICE, Subject.FILE, next(NUMBERS), body)


both_ways = pytest.mark.parametrize("send", [at_once, now])


@both_ways
async def test_what_is_sent_at_once_does_not_wait_for_the_end_of_the_turn(ends, send):
    one, other = ends
    arriving = other.line.peer.socket
    send(one.line, b"first")
    assert arriving.recv(1000, socket.MSG_PEEK).endswith(b"first")
    one.line.send(notice(b"second"), urgent=False)
    assert arriving.recv(1000, socket.MSG_PEEK).endswith(b"first")
    send(one.line, b"third")
    assert arriving.recv(1000, socket.MSG_PEEK).endswith(b"third")
    one.line.send(notice(b"fourth"), urgent=False)
    await until(lambda: len(other.found) == 4)
    assert other.bodies() == [b"first", b"second", b"third", b"fourth"]


@both_ways
async def test_what_is_sent_at_once_on_a_blocked_line_waits_for_room(ends, send):
    one, other = ends
    one.line.send(notice(bytes(16 << 20)), urgent=False, at_once=True)
    send(one.line, b"second")
    await until(lambda: len(other.found) == 2)
    assert other.bodies() == [bytes(16 << 20), b"second"]
    one.line.close()
    send(one.line, b"third")


@both_ways
async def test_small_envelopes_fill_the_socket_and_wait_for_room(ends, send):
    """Each leaves by itself, until one of them does not fit, or only its first bytes do."""
    one, other = ends
    one.line.peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    bodies = [b"%d:" % number + bytes(number % 4000) for number in range(1000)]
    for body in bodies:
        send(one.line, body)
    assert one.line._is_blocked
    await until(lambda: len(other.found) == len(bodies))
    assert other.bodies() == bodies
    assert one.line.untaken_bytes == 0


@both_ways
async def test_sending_at_once_to_a_peer_that_is_gone_ends_the_line(ends, send):
    one, other = ends
    other.line.close()
    other.line.peer.socket.close()
    send(one.line, b"first")
    send(one.line, b"second")
    assert len(one.lost) == 1
    assert isinstance(one.lost[0], OSError)


@both_ways
async def test_an_answer_leaves_in_the_turn_in_which_its_request_arrives(ends, send):
    one, other = ends
    for name in (b"first", b"second"):
        send(one.line, name)

    def answer(envelope: Envelope) -> None:
        other.line.send(notice(b"to " + bytes(envelope.body)), urgent=False)

    other.line._on_envelope = dict.fromkeys(EnvelopeKind, answer)
    other.line._on_readable()
    send(one.line, b"third")
    other.line._on_readable()
    one.line._on_readable()
    assert one.bodies() == [b"to first", b"to second", b"to third"]


async def test_what_is_urgent_goes_first(ends):
    one, other = ends
    one.line.send(notice(bytes(1 << 20)), urgent=False)
    one.line.send(notice(b"later"), urgent=False)
    one.line.send(notice(b"now"), urgent=True)
    await until(lambda: len(other.found) == 3)
    assert [body[:5] for body in other.bodies()] == [b"now", bytes(5), b"later"]


async def test_urgent_envelopes_pass_a_body_that_does_not_fit_into_the_socket(ends):
    one, other = ends
    one.line.send(notice(bytes(16 << 20)), urgent=False)
    await until(lambda: one.line._is_blocked or other.found)
    one.line.send(notice(b"now"), urgent=True)
    await until(lambda: len(other.found) == 2)
    assert [len(body) for body in other.bodies()] == [3, 16 << 20]
    await until(lambda: one.line.untaken_bytes == 0)


async def test_a_small_envelope_is_one_fragment(ends):
    one, other = ends
    for body in (b"small", b"", bytes(4096)):
        sent = notice(body)
        (fragment,) = encode_fragments(sent)
        one.line.send(sent, urgent=False, at_once=True)
        assert other.line.peer.socket.recv(10_000) == b"".join(fragment)
        one.line.send_now(sent.kind, sent.subject, sent.number, body)
        assert other.line.peer.socket.recv(10_000) == b"".join(fragment)


async def test_bodies_of_all_sizes_arrive_whole(ends):
    one, other = ends
    bodies = [os.urandom(size) for size in (0, 1, 4095, 4096, 4097, 65_536, 65_537, 300_000)]
    for number, body in enumerate(bodies):
        one.line.send(notice(body), urgent=number % 2 == 0)
    await until(lambda: len(other.found) == len(bodies))
    assert sorted(other.bodies()) == sorted(bodies)


async def test_descriptors_cross_and_the_sender_closes_its_own(ends):
    one, other = ends
    files = []
    for number in range(450):  # more than the kernel passes at a time
        descriptor = os.memfd_create(f"file-{number}", os.MFD_CLOEXEC)
        os.write(descriptor, b"%d" % number)
        files.append(descriptor)
        one.line.send(notice(b"%d" % number, [descriptor]), urgent=False)
    await until(lambda: len(other.found) == 450)
    for number, envelope in enumerate(other.found):
        (received,) = envelope.descriptors
        assert os.pread(received, 10, 0) == b"%d" % number
        os.close(received)
    for descriptor in files:
        assert not is_open(descriptor)


async def test_the_end_of_the_peer_is_reported_once(ends):
    one, other = ends
    one.line.close()
    one.line.peer.socket.close()
    await until(lambda: other.lost)
    other.line.lose(None)
    assert other.lost == [None]
    assert not one.lost, "closing is no loss"


async def test_a_line_that_is_closed_closes_what_it_was_to_send(ends):
    one, _ = ends
    before = os.memfd_create("before", os.MFD_CLOEXEC)
    after = os.memfd_create("after", os.MFD_CLOEXEC)
    one.line.send(notice(b"x", [before]), urgent=False)
    assert one.line.close()
    one.line.send(notice(b"x", [after]), urgent=False)
    for descriptor in (before, after):
        assert not is_open(descriptor)
    assert not one.line.close()


async def test_bytes_that_no_shard_sends_end_the_line(ends):
    one, other = ends
    one.line.peer.socket.send(b"\xff" * 64)
    await until(lambda: other.lost)
    assert isinstance(other.lost[0], OSError)
