import asyncio
import socket
from collections.abc import Callable

from tests.support.listening import PATIENCE_SECONDS

from borzoi.listeners.accepting import Acceptor, Peer
from borzoi.listeners.admission import Admission
from borzoi.listeners.sockets import listening_socket, peer_text


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


async def test_what_cannot_be_prepared_is_closed_and_makes_room() -> None:
    admission = Admission(1, 1)
    welcomed: list[Peer] = []
    faults = [OSError("the peer is gone")]

    def prepare(sock: socket.socket) -> None:
        if faults:
            raise faults.pop()

    def welcome(sock: socket.socket, peer: Peer) -> None:
        welcomed.append(peer)
        sock.close()

    acceptor = Acceptor(
        listening_socket(("127.0.0.1", 0)), admission=admission, prepare=prepare, welcome=welcome
    )
    with socket.create_connection(acceptor.address) as first:
        await until(lambda: not faults)
        assert welcomed == []
        with socket.create_connection(acceptor.address) as second:
            await until(lambda: bool(welcomed))
            assert peer_text(welcomed[0]) == peer_text(second.getsockname())
            # It was handed over and has not left, so there is no room for another one.
            with socket.create_connection(acceptor.address):
                await until(lambda: admission.refused == 1)
            acceptor.leave("127.0.0.1")
        assert first.recv(1) == b""
    acceptor.stop()
    acceptor.stop()


async def test_who_gave_up_while_waiting_does_not_hold_up_those_behind() -> None:
    real = listening_socket(("127.0.0.1", 0))
    welcomed: list[Peer] = []

    class Impatient(socket.socket):
        """The first in line is gone when its turn comes."""

        given_up = False

        def accept(self) -> tuple[socket.socket, Peer]:
            if not self.given_up:
                self.given_up = True
                raise ConnectionAbortedError
            return super().accept()

    def welcome(sock: socket.socket, peer: Peer) -> None:
        welcomed.append(peer)
        sock.close()

    acceptor = Acceptor(
        Impatient(fileno=real.detach()),
        admission=Admission(10, 10),
        prepare=lambda sock: None,
        welcome=welcome,
    )
    with socket.create_connection(acceptor.address):
        await until(lambda: len(welcomed) == 1)
    acceptor.stop()
