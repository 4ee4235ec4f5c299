import asyncio
from collections.abc import Iterable
from typing import cast

from borzoi.listeners.http.gathering import GatheredWrites

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


class Sent(asyncio.Transport):
    """What would leave, packet by packet."""

    def __init__(self) -> None:
        super().__init__()
        self.packets: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.packets.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.packets.append(b"".join(list_of_data))

    def close(self) -> None:
        self.packets.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.packets

    def pause_reading(self) -> None:
        self.packets.append(b"paused")

    def resume_reading(self) -> None:
        self.packets.append(b"resumed")


def gathered() -> tuple[GatheredWrites, list[bytes]]:
    sent = Sent()
    return GatheredWrites(sent), sent.packets


def test_a_head_leaves_with_its_body() -> None:
    transport, packets = gathered()
    for _ in range(2):
        transport.write(HEAD)
        transport.write(b"pong")
    assert packets == [HEAD + b"pong"] * 2


def test_a_head_without_a_body_leaves_with_the_empty_one_or_with_the_end() -> None:
    transport, packets = gathered()
    transport.write(HEAD)
    transport.write(b"")
    assert packets == [HEAD]
    transport.write(HEAD)
    transport.flush()
    transport.flush()
    assert packets == [HEAD, HEAD]


def test_pieces_of_a_body_leave_as_they_come() -> None:
    transport, packets = gathered()
    for piece in (HEAD, b"one", b"two"):
        transport.write(piece)
    assert packets == [HEAD + b"one", b"two"]


def test_a_client_that_waits_to_go_on_does_not_wait() -> None:
    transport, packets = gathered()
    transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert packets == [b"HTTP/1.1 100 Continue\r\n\r\n"]


def test_what_is_closed_has_said_its_last_word() -> None:
    transport, packets = gathered()
    transport.write(HEAD)
    transport.close()
    transport.close()
    assert packets == [HEAD, b"closed", b"closed"]


def test_who_holds_is_not_overruled() -> None:
    transport, packets = gathered()
    transport.hold_reading(True)
    transport.pause_reading()
    transport.resume_reading()
    assert packets == [b"paused"]
    transport.hold_reading(False)
    transport.hold_reading(False)
    assert packets == [b"paused", b"resumed"]


def test_who_pauses_is_not_overruled_either() -> None:
    transport, packets = gathered()
    transport.pause_reading()
    transport.hold_reading(True)
    transport.hold_reading(False)
    assert packets == [b"paused"]
    transport.resume_reading()
    assert packets == [b"paused", b"resumed"]


def test_what_is_closed_is_not_read() -> None:
    transport, packets = gathered()
    transport.close()
    transport.hold_reading(True)
    transport.hold_reading(False)
    assert packets == [b"closed"]


def test_everything_else_is_the_transport_s_own() -> None:
    sent = Sent()
    other = cast("asyncio.Transport", GatheredWrites(sent))
    assert other.get_extra_info("peername") is None
