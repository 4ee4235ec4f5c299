"""Sockets of clients that two shards lend each other, on one loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
from tests.support.shards import linked

from borzoi.protocol.framing import DONE
from borzoi.shard.answering import MAY_BE_ANSWERED, NOBODY, NOT_ANSWERED, Answering
from borzoi.shard.bus import Bus
from borzoi.shard.client_socket import ClientSocket

CLIENTS_MAX = 3


@dataclass
class Shard:
    bus: Bus
    answering: Answering

    def close(self) -> None:
        self.answering.close()
        self.bus.close()
        self.bus.links.close()


@pytest.fixture
async def pair() -> AsyncIterator[list[Shard]]:
    made = []
    for links in linked(2):
        bus = Bus(links)
        made.append(Shard(bus, Answering(bus, CLIENTS_MAX)))
        bus.when_lost.append(made[-1].answering.forget_peer)
    yield made
    for shard in made:
        shard.close()


class Client:
    """A client of the first shard."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.sock = socket.create_connection(listener.getsockname())
        self._accepted, _ = listener.accept()
        self._accepted.setblocking(False)
        listener.close()
        self.sock.settimeout(20)
        self.lent = ClientSocket(self._accepted)

    def fill(self) -> None:
        """Fill what the kernel buffers for it."""
        try:
            while True:
                self._accepted.send(bytes(1 << 20))
        except BlockingIOError:
            return

    def end(self) -> None:
        """Its connection ends."""
        self.lent.take_back()
        self._accepted.close()

    def close(self) -> None:
        self.sock.close()
        self._accepted.close()


@pytest.fixture
def client():
    made = Client()
    yield made
    made.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def mark() -> memoryview:
    return memoryview(bytearray([NOT_ANSWERED]))


async def lent(pair: list[Shard], client: Client) -> int:
    """Lend the client to the second shard."""
    lender, owner = pair
    before = len(owner.answering)
    number = lender.answering.number_of(1, client.lent)
    await until(lambda: len(owner.answering) == before + 1)
    return number


async def test_an_owner_answers_a_client_of_another_shard(pair, client):
    owner = pair[1].answering
    number = await lent(pair, client)
    assert number != NOBODY
    assert pair[0].answering.number_of(1, client.lent) == number, "it is lent once"
    for _ in range(3):
        made = mark()
        assert owner.answer(0, number, made)
        assert made[0] == MAY_BE_ANSWERED
        assert client.sock.recv(100) == DONE
    await asyncio.sleep(0.01)
    assert len(owner) == 1


async def test_a_client_that_is_not_known_is_not_answered(pair, client):
    number = await lent(pair, client)
    made = mark()
    for unknown in ((0, number + 1), (1, number), (0, NOBODY)):
        assert not pair[1].answering.answer(*unknown, made)
    assert made[0] == NOT_ANSWERED


async def test_a_client_that_reads_nothing_is_left_to_its_shard(pair, client):
    number = await lent(pair, client)
    client.fill()
    made = mark()
    assert not pair[1].answering.answer(0, number, made)
    assert made[0] == NOT_ANSWERED


async def test_a_client_that_is_gone_is_left_to_its_shard(pair, client):
    number = await lent(pair, client)
    client._accepted.shutdown(socket.SHUT_WR)
    made = mark()
    assert not pair[1].answering.answer(0, number, made)
    assert made[0] == NOT_ANSWERED


async def test_a_part_of_an_answer_ends_the_connection(pair, client):
    number = await lent(pair, client)
    owner = pair[1].answering

    class Short(socket.socket):
        def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
            return super().send(data[:3], flags)

    whole = owner._borrowed[0, number]
    owner._borrowed[0, number] = Short(fileno=whole.detach())
    made = mark()
    assert owner.answer(0, number, made), "its shard must not answer again"
    assert client.sock.recv(100) == DONE[:3]
    assert client.sock.recv(100) == b""


async def test_a_connection_that_ends_is_closed_everywhere(pair, client):
    number = await lent(pair, client)
    client.end()
    assert client.lent.numbers == {}
    await until(lambda: len(pair[1].answering) == 0)
    assert client.sock.recv(100) == b""
    assert not pair[1].answering.answer(0, number, mark())


async def test_clients_in_use_stay_when_there_is_no_room(pair):
    answering = pair[0].answering
    clients = [Client() for _ in range(CLIENTS_MAX + 1)]
    *busy, another = clients
    numbers = [answering.number_of(1, one.lent) for one in busy]
    # Nobody is lent again and again, however often they all send.
    for _ in range(3 * CLIENTS_MAX):
        assert [answering.number_of(1, one.lent) for one in busy] == numbers
        assert answering.number_of(1, another.lent) == NOBODY
    # One that has stopped makes room in the end.
    for _ in range(3 * CLIENTS_MAX):
        assert [answering.number_of(1, one.lent) for one in busy[1:]] == numbers[1:]
        answering.number_of(1, another.lent)
    assert another.lent.numbers[1] > max(numbers)
    assert busy[0].lent.numbers == {}
    await until(lambda: (0, another.lent.numbers[1]) in pair[1].answering._borrowed)
    assert len(pair[1].answering) == CLIENTS_MAX
    for one in clients:
        one.close()


async def test_the_oldest_client_makes_room(pair):
    clients = [Client() for _ in range(CLIENTS_MAX + 2)]
    numbers = [pair[0].answering.number_of(1, one.lent) for one in clients]
    assert len(set(numbers)) == len(clients)
    owner = pair[1].answering
    # The owner handles what it was told in this order.
    await until(lambda: (0, numbers[-1]) in owner._borrowed)
    assert sorted(number for _, number in owner._borrowed) == numbers[2:]
    assert [bool(one.lent.numbers) for one in clients] == [False] * 2 + [True] * CLIENTS_MAX
    again = pair[0].answering.number_of(1, clients[0].lent)
    assert again not in numbers, "a number means one client for ever"
    await until(lambda: (0, again) in owner._borrowed)
    assert owner.answer(0, again, mark())
    assert clients[0].sock.recv(100) == DONE
    for one in clients:
        one.close()


async def test_nothing_is_lent_to_a_shard_that_is_not_there(pair, client):
    number = await lent(pair, client)
    lender, owner = pair
    lender.bus.links.on_peer_lost(1)
    assert client.lent.numbers == {}
    assert lender.answering.number_of(1, client.lent) == NOBODY
    await until(lambda: not owner.bus.is_there(0))
    assert len(owner.answering) == 0, "the clients of a lost shard are closed"
    assert not owner.answering.answer(0, number, mark())
    client.lent.take_back()


async def test_a_closed_socket_is_not_lent(pair, client):
    client._accepted.close()
    assert pair[0].answering.number_of(1, client.lent) == NOBODY
    assert client.lent.numbers == {}
