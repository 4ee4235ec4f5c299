import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from borzoi.listeners import send_queue
from borzoi.listeners.binary import RangesReply
from borzoi.listeners.send_queue import SendQueue
from borzoi.model.errors import StorageFailure
from borzoi.storage.local import LocalMedium
from borzoi.storage.reading import Chunk, FileRange, Produced

STORED = bytes(range(256)) * 40


class Pieces(Produced):
    """Produces what it is given, whatever it announced."""

    __slots__ = ("pieces",)

    def __init__(self, length: int, pieces: list[bytes]) -> None:
        super().__init__(length)
        self.pieces = pieces

    def slices(self) -> Iterator[Chunk]:
        return iter(self.pieces)


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def part(tmp_path: Path) -> Iterator[FileRange]:
    (tmp_path / "stored").write_bytes(STORED)
    with LocalMedium().open(tmp_path / "stored", writable=False) as file:
        yield FileRange(file, 1000, 5000)


def test_a_reply_leaves_in_the_order_of_its_parts(
    sockets: tuple[socket.socket, socket.socket], part: FileRange
) -> None:
    ours, theirs = sockets
    outgoing = SendQueue()
    outgoing.add(RangesReply(b"head", [part], [memoryview(b"tail"), Pieces(4, [b"ma", b"de"])]))
    outgoing.add(b"next")
    outgoing.flush(ours, may_make=True)
    # One slice is produced in a turn; what stands behind the others waits.
    assert outgoing.must_be_made
    outgoing.flush(ours, may_make=False)
    assert outgoing.must_be_made
    outgoing.flush(ours, may_make=True)
    assert not outgoing
    expected = b"head" + STORED[1000:6000] + b"tailmadenext"
    assert theirs.recv(len(expected) + 1, socket.MSG_WAITALL | socket.MSG_DONTWAIT) == expected


def test_a_turn_sends_no_more_than_its_share(
    sockets: tuple[socket.socket, socket.socket],
    part: FileRange,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(send_queue, "SENDFILE_BYTES_MAX", 3000)
    ours, theirs = sockets
    outgoing = SendQueue()
    outgoing.add(RangesReply(b"", [part], []))
    outgoing.popleft()  # the empty head
    outgoing.flush(ours, may_make=True)
    assert len(outgoing) == 1
    outgoing.flush(ours, may_make=True)
    assert not outgoing
    assert theirs.recv(9000) == STORED[1000:6000]


def test_what_the_socket_does_not_take_stays(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    outgoing, sent = SendQueue(), bytes(range(256)) * 8192
    outgoing.add(sent)
    received = bytearray()
    with pytest.raises(BlockingIOError):
        outgoing.flush(ours, may_make=True)
    while len(received) < len(sent):
        received += theirs.recv(1 << 20)
        with suppress(BlockingIOError):
            outgoing.flush(ours, may_make=True)
    assert not outgoing
    assert bytes(received) == sent


@pytest.mark.parametrize("pieces", [[], [b"longer"], [b""]])
def test_messages_that_changed_meanwhile_are_a_failure(
    sockets: tuple[socket.socket, socket.socket], pieces: list[bytes]
) -> None:
    outgoing = SendQueue()
    outgoing.add(RangesReply(b"head", [], [Pieces(4, pieces)]))
    with pytest.raises(StorageFailure, match="changed"):
        outgoing.flush(sockets[0], may_make=True)


def test_a_range_that_ended_early_is_a_failure(
    sockets: tuple[socket.socket, socket.socket], part: FileRange
) -> None:
    outgoing = SendQueue()
    outgoing.add(RangesReply(b"head", [FileRange(part.file, len(STORED), 1)], []))
    with pytest.raises(OSError, match="ended early"):
        outgoing.flush(sockets[0], may_make=True)
