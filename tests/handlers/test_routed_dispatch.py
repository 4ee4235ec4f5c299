"""Clients of one shard whose partitions are on another one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.listening import FrameClient
from tests.support.sends import send_of as send_of_messages
from tests.support.shards import Shards, clients_of, running_shards

from borzoi.handlers.routed_dispatch import RoutedDispatcher
from borzoi.handlers.sessions import Session
from borzoi.listeners.tcp import TcpListener
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import ShardUnavailable, Unauthorized
from borzoi.model.namespace import Namespace
from borzoi.model.partitioning import Partitioning, partition_for_key
from borzoi.model.users import GlobalPermissions, Permissions
from borzoi.partitions.operations import Poll
from borzoi.protocol.commands.messages import POLLED_PREFIX, PollMessages, SendMessages
from borzoi.protocol.commands.system import GetMe
from borzoi.protocol.commands.users import LoginUser
from borzoi.protocol.errors import code_of
from borzoi.records.message import decode_messages
from borzoi.shard.answering import Answering
from borzoi.shard.bus import Arrived, Letter
from borzoi.shard.crossed_polls import CrossedPolls
from borzoi.shard.envelopes import Subject

Misplaced = list[tuple[int, Namespace]]


def watched(shards: Shards, shard: int) -> Misplaced:
    """Notes what is reported as misplaced, and moves nothing."""
    found: Misplaced = []
    dispatcher = shards.servers[shard]._dispatcher
    assert isinstance(dispatcher, RoutedDispatcher)

    def note(session: Session, owner: int, place: Namespace) -> None:
        found.append((owner, place))

    dispatcher._misplaced = note
    return found


async def test_a_send_to_a_named_partition_of_another_shard_is_reported(tmp_path: Path) -> None:
    async with running_shards(tmp_path / "data", 2) as shards, clients_of(shards) as clients:
        await clients[0].create_stream("s")
        await clients[0].create_topic("s/t", partitions=8)
        found = watched(shards, 0)
        places = [Namespace(0, 0, number) for number in range(8)]
        for place in places:
            await clients[0].send_messages("s/t", ["x"], partition=place.partition_id)
        # Balanced sends go everywhere, and a key may lead anywhere.
        for _ in range(8):
            await clients[0].send_messages("s/t", ["x"])
            await clients[0].send_messages("s/t", ["x"], key="k")
        await clients[0].ping()
        assert found == [(1, place) for place in places if shards.owner(*place) == 1]

        session = next(iter(shards.servers[0]._services.sessions))
        session.migrated = True
        found.clear()
        await clients[0].send_messages("s/t", ["x"], partition=found_partition(shards, 1))
        await clients[0].ping()
        assert found == [], "it has moved once"


def found_partition(shards: Shards, owner: int) -> int:
    return next(number for number in range(8) if shards.owner(0, 0, number) == owner)


@pytest.mark.parametrize("moves", ["true", "false"])
async def test_migration_can_be_switched_off(tmp_path: Path, moves: str) -> None:
    async with running_shards(tmp_path / "data", 2, TCP_SOCKET_MIGRATION=moves) as shards:
        for server in shards.servers.values():
            assert isinstance(server._dispatcher, RoutedDispatcher)
            assert (server._dispatcher._misplaced is not None) == (moves == "true")


async def test_requests_on_another_shard_are_counted_until_they_are_answered(
    tmp_path: Path,
) -> None:
    settings = {"TCP_SOCKET_MIGRATION": "false"}
    async with (
        running_shards(tmp_path / "data", 2, **settings) as shards,
        clients_of(shards) as clients,
    ):
        await clients[0].create_stream("s")
        await clients[0].create_topic("s/t", partitions=8)
        partition, bus = found_partition(shards, 1), shards.servers[1]._bus
        hang: list[asyncio.Future[Letter]] = []

        def hangs(_: Arrived) -> asyncio.Future[Letter]:
            hang.append(asyncio.get_running_loop().create_future())
            return hang[-1]

        bus.answer(Subject.OPERATION, hangs)
        sending = asyncio.create_task(clients[0].send_messages("s/t", ["x"], partition=partition))
        async with asyncio.timeout(20):
            while not hang:
                await asyncio.sleep(0.001)
        dispatcher = shards.servers[0]._dispatcher
        assert dispatcher.waiting == 1
        hang[0].set_result(Letter())
        await sending
        assert dispatcher.waiting == 0
        bus.answer(Subject.OPERATION, shards.servers[1]._partitions._operate)
        await clients[0].send_messages("s/t", ["y"], partition=partition)
        polled = await clients[0].poll_messages("s/t", partition=partition, commit=True)
        assert [bytes(one.payload) for one in polled.messages] == [b"y"]


@asynccontextmanager
async def reading(
    directory: Path, messages: int = 300
) -> AsyncIterator[tuple[Shards, FrameClient]]:
    """A connection to the first shard that reads from a partition of the second one."""
    settings = {"TCP_SOCKET_MIGRATION": "false"}
    async with (
        running_shards(directory, 2, **settings) as shards,
        clients_of(shards) as clients,
    ):
        await clients[0].create_stream("s")
        await clients[0].create_topic("s/t", partitions=8)
        numbers = [b"%d" % number for number in range(messages)]
        await clients[1].send_messages("s/t", numbers, partition=found_partition(shards, 1))
        reader = await FrameClient.connect(shards.controls[0].addresses["tcp"])
        await reader.ask(LoginUser("iggy", "iggy"))
        await reader.receive()
        yield shards, reader
        await reader.close()


def poll_of(shards: Shards, offset: int, count: int = 5) -> PollMessages:
    consumer, strategy = Consumer(ConsumerKind.CONSUMER, 1), PollingStrategy.offset(offset)
    return PollMessages(consumer, "s", "t", found_partition(shards, 1), strategy, count, False)


async def found_by(reader: FrameClient) -> list[bytes]:
    status, payload = await reader.receive()
    assert status == 0
    messages = decode_messages(payload[POLLED_PREFIX.size :])
    return [bytes(message.payload) for message in messages]


def asked_of(shards: Shards, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets of the polls that the owner was asked for from now on."""
    asked: list[int] = []
    answer = CrossedPolls.answer

    def noted(polls: CrossedPolls, peer: int, partition: Any, poll: Poll, *rest: Any) -> Any:
        asked.append(poll.strategy.value)
        return answer(polls, peer, partition, poll, *rest)

    monkeypatch.setattr(CrossedPolls, "answer", noted)
    monkeypatch.setattr("borzoi.shard.reading_ahead.FRESH_SECONDS", 60.0)
    return asked


async def test_a_connection_that_reads_on_gets_what_was_sent_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reading(tmp_path / "data") as (shards, reader):
        asked = asked_of(shards, monkeypatch)
        monkeypatch.setattr("borzoi.listeners.binary.MEASURED_EVERY", 1)
        times = shards.servers[0]._dispatcher.times.of("poll_messages", "tcp")
        measured = times.count
        found: list[bytes] = []
        for offset in range(0, 300, 5):
            await reader.ask(poll_of(shards, offset))
            found += await found_by(reader)
        assert found == [b"%d" % number for number in range(300)]
        assert len(asked) <= 10
        assert asked[:4] == [0, 5, 20, 45]
        assert times.count - measured == 60
        assert shards.servers[0]._dispatcher.waiting == 0


async def test_polls_that_came_together_are_answered_in_their_order(tmp_path: Path) -> None:
    async with reading(tmp_path / "data") as (shards, reader):
        offsets = [*range(0, 100, 5), *range(50, 150, 5), 0, 0, 7, 295, 300]
        for cuts in ((), (100,), (37, 500, 501)):
            await reader.ask(*(poll_of(shards, offset) for offset in offsets), cuts=cuts)
            for offset in offsets:
                expected = [b"%d" % number for number in range(offset, min(offset + 5, 300))]
                assert await found_by(reader) == expected


async def test_what_was_sent_ahead_needs_the_permission_still(tmp_path: Path) -> None:
    async with reading(tmp_path / "data") as (shards, reader), clients_of(shards) as clients:
        allowed = Permissions(GlobalPermissions(poll_messages=True, read_streams=True))
        await clients[0].create_user("reader", "secret", permissions=allowed)
        await reader.ask(LoginUser("reader", "secret"))
        await reader.receive()
        for offset in range(0, 20, 5):
            await reader.ask(poll_of(shards, offset))
            assert len(await found_by(reader)) == 5
        await clients[0].update_permissions("reader", None)
        await reader.ask(poll_of(shards, 20))
        assert await reader.receive() == (code_of(Unauthorized("")), b"")


async def test_a_connection_reads_on_when_the_owner_was_replaced(tmp_path: Path) -> None:
    async with reading(tmp_path / "data") as (shards, reader):
        for offset in range(0, 100, 5):
            if offset in (10, 45, 80):
                shards.join(0, 1)
            await reader.ask(poll_of(shards, offset))
            assert await found_by(reader) == [b"%d" % n for n in range(offset, offset + 5)]


class LateOwner:
    """The second shard, which answers polls only when it is told to."""

    def __init__(self, shards: Shards) -> None:
        self._server = shards.servers[1]
        self.asked: list[tuple[Arrived, asyncio.Future[Letter]]] = []
        self._server._bus.answer(Subject.OPERATION, self._late)

    def _late(self, request: Arrived) -> asyncio.Future[Letter]:
        self.asked.append((request, asyncio.get_running_loop().create_future()))
        return self.asked[-1][1]

    def answer(self) -> None:
        """Answer what was asked, and from now on at once."""
        for request, answer in self.asked:
            found = self._server._partitions._operate(request)
            assert isinstance(found, Letter)
            answer.set_result(found)
        self._server._bus.answer(Subject.OPERATION, self._server._partitions._operate)


async def test_nothing_overtakes_a_poll_that_the_owner_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("borzoi.shard.reading_ahead.FRESH_SECONDS", 60.0)
    async with reading(tmp_path / "data") as (shards, reader):
        for offset in range(0, 100, 5):
            await reader.ask(poll_of(shards, offset))
            await found_by(reader)
        owner = LateOwner(shards)
        await reader.ask(poll_of(shards, 200))
        await until(lambda: bool(owner.asked))
        await reader.ask(poll_of(shards, 100))  # sent ahead
        await asyncio.sleep(0.05)
        assert shards.servers[0]._dispatcher.waiting == 1
        owner.answer()
        assert (await found_by(reader))[0] == b"200"
        assert (await found_by(reader))[0] == b"100"


async def test_a_client_that_goes_while_the_owner_is_asked_leaves_nothing(tmp_path: Path) -> None:
    async with reading(tmp_path / "data") as (shards, reader):
        for offset in (0, 5):
            await reader.ask(poll_of(shards, offset))
            await found_by(reader)
        dispatcher, sessions = shards.servers[0]._dispatcher, shards.servers[0]._services.sessions
        owner, before = LateOwner(shards), len(list(sessions))
        await reader.ask(poll_of(shards, 200))
        await until(lambda: bool(owner.asked))
        assert dispatcher.waiting == 1
        await reader.close()
        owner.answer()
        await until(lambda: len(list(sessions)) == before - 1)
        assert dispatcher.waiting == 0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


# Sends that the owner answers.


LARGE = [b"x" * 1000] * 100


def send_of(shards: Shards, number: int = 0, *, named: bool = False) -> SendMessages:
    """A send whose batch crosses as its place, to a partition of the second shard."""
    key = next(
        b"%d" % one
        for one in range(100)
        if shards.owner(0, 0, partition_for_key(b"%d" % one, 8)) == 1
    )
    partitioning = Partitioning.key(key)
    if named:
        partitioning = Partitioning.partition(found_partition(shards, 1))
    return send_of_messages(b"%d" % number, *LARGE, partitioning=partitioning)


def answered_by_owner(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the owner has answered, for each send that it could answer from now on."""
    found: list[bool] = []
    answer = Answering.answer

    def noted(answering: Answering, *arguments: Any) -> bool:
        found.append(answer(answering, *arguments))
        return found[-1]

    monkeypatch.setattr(Answering, "answer", noted)
    return found


async def test_the_owner_answers_a_large_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reading(tmp_path / "data") as (shards, reader):
        found = answered_by_owner(monkeypatch)
        for number in range(5):
            await reader.ask(send_of(shards, number))
            assert await reader.receive() == (0, b"")
        assert found == [True] * 5
        # Also with other requests behind them: every one gets one answer, in order.
        await reader.ask(*[one for n in range(5) for one in (send_of(shards, n), GetMe())])
        for _ in range(5):
            assert await reader.receive() == (0, b"")
            status, payload = await reader.receive()
            assert status == 0
            assert payload
        await until(lambda: shards.servers[0]._dispatcher.waiting == 0)
        assert len(shards.servers[1]._partitions.answering) == 1
        await reader.close()
        await until(lambda: len(shards.servers[1]._partitions.answering) == 0)


@pytest.mark.parametrize("large", [False, True])
async def test_sends_of_connections_that_move_are_answered_by_their_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    found = answered_by_owner(monkeypatch)
    async with (
        running_shards(tmp_path / "data", 2) as shards,
        clients_of(shards) as clients,
    ):
        await clients[0].create_stream("s")
        await clients[0].create_topic("s/t", partitions=8)
        reader = await FrameClient.connect(shards.controls[0].addresses["tcp"])
        await reader.ask(LoginUser("iggy", "iggy"))
        await reader.receive()
        partitioning = Partitioning.partition(found_partition(shards, 1))
        small = send_of_messages(b"x", partitioning=partitioning)
        await reader.ask(send_of(shards, named=True) if large else small)
        assert await reader.receive() == (0, b"")
        await until(lambda: len(shards.servers[1]._services.sessions) == 2)
        await reader.ask(send_of(shards, named=True))
        assert await reader.receive() == (0, b"")
        assert found == [], "it has moved to the owner"
        await reader.close()


def tcp_listener(shards: Shards, shard: int) -> TcpListener:
    (found,) = [one for one in shards.servers[shard]._listeners if isinstance(one, TcpListener)]
    return found


def is_lent(session: Session) -> bool:
    return session.socket is not None and bool(session.socket.numbers)


async def test_a_connection_that_ends_or_moves_takes_its_socket_back(tmp_path: Path) -> None:
    async with running_shards(tmp_path / "data", 2) as shards, clients_of(shards) as clients:
        await clients[0].create_stream("s")
        await clients[0].create_topic("s/t", partitions=8)
        answering = shards.servers[1]._partitions.answering
        for ends in ("moves", "client", "server"):
            reader = await FrameClient.connect(shards.controls[0].addresses["tcp"])
            await reader.ask(LoginUser("iggy", "iggy"), send_of(shards))
            await reader.receive()
            assert await reader.receive() == (0, b"")
            assert len(answering) == 1
            if ends == "moves":
                await reader.ask(send_of(shards, named=True))
                assert await reader.receive() == (0, b"")
            elif ends == "server":
                (connection,) = [
                    one for one in tcp_listener(shards, 0).connections if is_lent(one.session)
                ]
                connection.give_up("a test ends it")
                assert await reader.reader.read() == b""
            else:
                await reader.close()
            await until(lambda: len(answering) == 0)
            await reader.close()


async def test_a_connection_ends_also_while_an_owner_has_its_socket(tmp_path: Path) -> None:
    async with reading(tmp_path / "data") as (shards, reader):
        await reader.ask(send_of(shards))
        assert await reader.receive() == (0, b"")
        bus, answering = shards.servers[1]._bus, shards.servers[1]._partitions.answering
        told: list[Arrived] = []

        def busy(notice: Arrived) -> Letter:
            told.append(notice)
            return Letter()

        bus.answer(Subject.CLIENT_GONE, busy)
        (connection,) = [one for one in tcp_listener(shards, 0).connections if is_lent(one.session)]
        connection.give_up("a test ends it")
        assert await reader.reader.read() == b""
        await until(lambda: bool(told))
        assert len(answering) == 1
        answering._client_gone(told[0])
        assert len(answering) == 0


@pytest.mark.parametrize("answered", [False, True])
async def test_a_client_gets_one_answer_when_the_owner_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    """The connection stays if the owner has not answered, and ends if it may have."""
    async with reading(tmp_path / "data") as (shards, reader):
        await reader.ask(send_of(shards))
        assert await reader.receive() == (0, b"")
        answer = Answering.answer

        def dies(answering: Answering, *arguments: Any) -> bool:
            if answered:
                assert answer(answering, *arguments)
            shards.join(0, 1)
            return answered

        monkeypatch.setattr(Answering, "answer", dies)
        await reader.ask(send_of(shards), GetMe())
        status, payload = await reader.receive()
        if answered:
            assert (status, payload) == (0, b"")
            assert await reader.reader.read() == b"", "nothing else was answered"
            return
        assert (status, payload) == (code_of(ShardUnavailable("")), b"")
        status, payload = await reader.receive()
        assert status == 0
        assert payload
        monkeypatch.setattr(Answering, "answer", answer)
        await reader.ask(send_of(shards))
        assert await reader.receive() == (0, b"")


async def test_a_send_that_fails_is_answered_with_its_status(tmp_path: Path) -> None:
    async with reading(tmp_path / "data") as (shards, reader):
        await reader.ask(send_of(shards))
        assert await reader.receive() == (0, b"")
        table = shards.servers[1]._partitions._table
        for namespace in list(table.opened):
            partition = table.find(namespace)
            partition.log.abandon()
        await reader.ask(send_of(shards), GetMe())
        status, payload = await reader.receive()
        assert status != 0
        assert payload == b""
        assert (await reader.receive())[1]


async def test_a_send_of_very_many_messages_is_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are validated by a thread, which another way leads to."""
    monkeypatch.setattr("borzoi.listeners.binary.CHECKED_AT_ONCE_MAX", 10)
    monkeypatch.setattr("borzoi.listeners.binary.native", None)
    async with reading(tmp_path / "data") as (shards, reader):
        found = answered_by_owner(monkeypatch)
        for _ in range(2):
            await reader.ask(send_of(shards), GetMe())
            assert await reader.receive() == (0, b"")
            assert (await reader.receive())[1]
        assert found == [True, True]
