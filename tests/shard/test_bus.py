"""Requests between shards: matched, bounded, cancelled, and what a peer that dies leaves."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator

import pytest
from tests.support.shards import linked

from borzoi.model.errors import PartitionNotFound, ServerError, ShardUnavailable
from borzoi.shard import bus as module
from borzoi.shard.bus import Arrived, Bus, Letter
from borzoi.shard.envelopes import Subject
from borzoi.shard.links import Peer


@pytest.fixture
async def buses() -> AsyncIterator[list[Bus]]:
    made = [Bus(links) for links in linked(3)]
    yield made
    for bus in made:
        bus.close()
        bus.links.close()


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def echo(asked: Arrived) -> Letter:
    return Letter(b"%d:" % asked.shard + bytes(asked.body))


async def test_a_request_is_answered_by_the_shard_that_was_asked(buses):
    for bus in buses:
        bus.answer(Subject.OPERATION, echo)
    for bus in buses:
        for other in bus.others:
            found = await bus.request(other, Subject.OPERATION, Letter(b"hello"))
            assert found.shard == other
            assert bytes(found.body) == b"%d:hello" % bus.shard


async def test_answers_are_matched_in_any_order(buses):
    first, second, _ = buses
    promises: dict[bytes, asyncio.Future[Letter]] = {}

    def later(asked: Arrived) -> asyncio.Future[Letter]:
        promise = promises[bytes(asked.body)] = asyncio.get_running_loop().create_future()
        return promise

    second.answer(Subject.OPERATION, later)
    asked = [first.request(1, Subject.OPERATION, Letter(b"%d" % n)) for n in range(5)]
    await until(lambda: len(promises) == 5)
    for body in reversed(promises):
        promises[body].set_result(Letter(b"to " + body))
    found = [bytes((await one).body) for one in asked]
    assert found == [b"to %d" % n for n in range(5)]


async def test_the_answer_is_what_is_made_of_it(buses):
    first, second, _ = buses
    second.answer(Subject.OPERATION, echo)
    made = first.request(1, Subject.OPERATION, Letter(b"x"), make=lambda found: len(found.body))
    assert await made == 3

    def refuse(_: Arrived) -> None:
        raise PartitionNotFound("not here")

    with pytest.raises(PartitionNotFound):
        await first.request(1, Subject.OPERATION, Letter(b"x"), make=refuse)


async def test_an_answer_that_says_nothing_is_none(buses):
    first, second, _ = buses
    second.answer(Subject.OPERATION, lambda _: Letter())
    assert await first.request(1, Subject.OPERATION, Letter(b"x"), make=None) is None

    def refuse(_: Arrived) -> Letter:
        raise PartitionNotFound("not here")

    second.answer(Subject.OPERATION, refuse)
    with pytest.raises(PartitionNotFound):
        await first.request(1, Subject.OPERATION, Letter(b"x"), make=None)


async def test_appends_are_answered_whether_alone_or_not(buses):
    first, second, _ = buses
    bodies: list[bytes] = []
    promises: list[asyncio.Future[Letter]] = []

    def stored(asked: Arrived) -> Letter | asyncio.Future[Letter]:
        bodies.append(bytes(asked.body))
        if asked.body != b"later":
            return Letter()
        promises.append(asyncio.get_running_loop().create_future())
        return promises[-1]

    second.answer(Subject.OPERATION, stored)
    assert await first.append(1, b"alone") is None
    asked = [first.append(1, body) for body in (b"later", b"second", b"third")]
    asked.append(first.request(1, Subject.OPERATION, Letter(b"fourth"), make=None))
    assert await asyncio.gather(*asked[1:]) == [None] * 3
    assert not asked[0].done()
    promises[0].set_result(Letter())
    assert await asked[0] is None
    assert bodies == [b"alone", b"later", b"second", b"third", b"fourth"]
    exchange = first._exchanges[1]
    assert (exchange.window_requests, exchange.window_bytes, exchange.pending) == (0, 0, {})


async def test_an_append_leaves_at_once(buses):
    first, second, _ = buses
    for _ in range(2):
        second.answer(Subject.OPERATION, lambda _: Letter())
        asked = first.append(1, b"now")
        second._exchanges[0].line._on_readable()
        first._exchanges[1].line._on_readable()
        assert asked.done()


async def test_an_append_that_fails_and_one_whose_peer_dies_or_is_absent(buses):
    first, second, _ = buses

    def refuse(_: Arrived) -> Letter:
        raise PartitionNotFound("not here")

    second.answer(Subject.OPERATION, refuse)
    with pytest.raises(PartitionNotFound):
        await first.append(1, b"x")
    second.answer(Subject.OPERATION, lambda _: asyncio.get_running_loop().create_future())
    lost = first.append(1, b"x")
    await until(lambda: second._exchanges[0]._running)
    second.links.peers[0].socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ShardUnavailable, match="died"):
        await lost
    asked_meanwhile = first.append(1, b"new")
    second.answer(Subject.OPERATION, lambda _: Letter())
    replaced(first, second)
    assert await asked_meanwhile is None


async def test_an_append_to_a_peer_that_has_just_died_fails(buses):
    first, second, _ = buses
    second.links.peers[0].socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ShardUnavailable, match="died"):
        await first.append(1, b"x")


async def test_requests_wait_until_the_peer_can_answer_them(buses):
    first, second, _ = buses
    asked = first.request(1, Subject.OPERATION, Letter(b"early"))
    second.answer(Subject.TOTALS, echo)
    assert (await first.request(1, Subject.TOTALS)).shard == 1
    assert not asked.done()
    second.answer(Subject.OPERATION, echo)
    assert bytes((await asked).body) == b"0:early"


async def test_faults_of_the_other_side_arrive_as_they_are(buses, caplog):
    first, second, _ = buses

    def missing(_: Arrived) -> Letter:
        raise PartitionNotFound("there is no partition 1/2/3")

    async def broken(_: Arrived) -> Letter:
        raise ValueError("a bug")

    second.answer(Subject.OPERATION, missing)
    second.answer(Subject.TOTALS, broken)
    with pytest.raises(PartitionNotFound, match="1/2/3"):
        await first.request(1, Subject.OPERATION)
    with pytest.raises(ServerError):
        await first.request(1, Subject.TOTALS)
    assert "a bug" in caplog.text


def pending_operations(bus: Bus) -> list[asyncio.Future[Letter]]:
    """The operations that the bus gets from now on; the test resolves them."""
    begun: list[asyncio.Future[Letter]] = []

    def later(_: Arrived) -> asyncio.Future[Letter]:
        begun.append(asyncio.get_running_loop().create_future())
        return begun[-1]

    bus.answer(Subject.OPERATION, later)
    return begun


async def test_no_more_operations_than_the_window_are_under_way(buses, monkeypatch):
    monkeypatch.setattr(module, "WINDOW_REQUESTS", 4)
    first, second, _ = buses
    begun = pending_operations(second)
    second.answer(Subject.TOTALS, echo)
    asked = [first.request(1, Subject.OPERATION) for _ in range(10)]
    # What is urgent does not wait for the window.
    await first.request(1, Subject.TOTALS, urgent=True)
    await until(lambda: len(begun) == 4)
    asked[9].cancel()
    for number in range(9):
        await until(lambda: len(begun) > number)  # noqa: B023
        begun[number].set_result(Letter())
    await asyncio.gather(*asked[:9])
    assert len(begun) == 9, "what was cancelled while it waited is not asked"


async def test_large_operations_wait_for_each_other(buses, monkeypatch):
    monkeypatch.setattr(module, "WINDOW_BYTES", 1000)
    first, second, _ = buses
    begun = pending_operations(second)
    asked = [first.request(1, Subject.OPERATION, Letter(bytes(5000))) for _ in range(3)]
    for number in range(3):
        await until(lambda: len(begun) == number + 1)  # noqa: B023
        await asyncio.sleep(0)
        assert len(begun) == number + 1
        begun[number].set_result(Letter())
    await asyncio.gather(*asked)


async def test_a_peer_that_does_not_take_its_replies_begins_nothing_more(buses, monkeypatch):
    monkeypatch.setattr(module, "UNTAKEN_BYTES_MAX", 1 << 20)
    first, second, _ = buses
    begun = []

    def large(_: Arrived) -> Letter:
        begun.append(1)
        return Letter(bytes(4 << 20))

    second.answer(Subject.OPERATION, large)
    first._loop.remove_reader(first._exchanges[1].line.peer.socket.fileno())
    asked = [first.request(1, Subject.OPERATION) for _ in range(20)]
    await until(lambda: second._exchanges[0]._deferred)
    assert len(begun) < 20
    line = first._exchanges[1].line
    first._loop.add_reader(line.peer.socket.fileno(), line._on_readable)
    found = await asyncio.gather(*asked)
    assert [len(one.body) for one in found] == [4 << 20] * 20


async def test_cancelling_reaches_the_other_side(buses):
    first, second, _ = buses
    running: list[asyncio.Future[Letter]] = []

    def later(_: Arrived) -> asyncio.Future[Letter]:
        running.append(asyncio.get_running_loop().create_future())
        return running[-1]

    second.answer(Subject.OPERATION, later)
    asked = first.request(1, Subject.OPERATION, cancellable=True)
    await until(lambda: running)
    asked.cancel()
    await until(lambda: running[0].cancelled())
    await until(lambda: not first._exchanges[1].pending)


async def test_notices_are_taken_in_order_and_with_their_descriptors(buses):
    first, second, _ = buses
    found: list[tuple[bytes, bytes]] = []

    def file(told: Arrived) -> Letter:
        (descriptor,) = told.descriptors
        found.append((bytes(told.body), os.pread(descriptor, 10, 0)))
        os.close(descriptor)
        return Letter()

    second.answer(Subject.FILE, file)
    for number in range(3):
        descriptor = os.memfd_create("file", os.MFD_CLOEXEC)
        os.write(descriptor, b"%d" % number)
        assert first.tell(1, Subject.FILE, Letter(b"file %d" % number, [descriptor]))
    await until(lambda: len(found) == 3)
    assert found == [(b"file %d" % n, b"%d" % n) for n in range(3)]


def replaced(first: Bus, second: Bus) -> None:
    """A new connection between two shards, as after one of them was started again."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    first.links.on_peer(Peer(second.shard, one, os.dup(second.links.arena)))
    second.links.on_peer(Peer(first.shard, other, os.dup(first.links.arena)))


async def test_what_a_dead_peer_had_in_hand_fails_unless_it_may_be_repeated(buses):
    first, second, _ = buses
    second.answer(Subject.OPERATION, lambda _: asyncio.get_running_loop().create_future())
    lost = first.request(1, Subject.OPERATION, Letter(b"send"))
    repeated = first.request(1, Subject.OPERATION, Letter(b"poll"), repeatable=True)
    await until(lambda: second._exchanges[0]._running)
    first.links.on_peer_lost(1)
    first.links.on_peer_lost(1)
    with pytest.raises(ShardUnavailable, match="died"):
        await lost
    assert not repeated.done()
    assert not first.is_there(1)
    assert first.is_there(2)
    second.answer(Subject.OPERATION, echo)
    asked_meanwhile = first.request(1, Subject.OPERATION, Letter(b"new"))
    replaced(first, second)
    assert bytes((await repeated).body) == b"0:poll"
    assert bytes((await asked_meanwhile).body) == b"0:new"


async def test_work_for_a_dead_peer_is_cancelled(buses):
    first, second, _ = buses
    running = asyncio.get_running_loop().create_future()
    second.answer(Subject.OPERATION, lambda _: running)
    asked = first.request(1, Subject.OPERATION)
    await until(lambda: second._exchanges[0]._running)
    first._exchanges[1].line.lose(None)
    await until(running.cancelled)
    with pytest.raises(ShardUnavailable):
        await asked


async def test_no_request_waits_forever_for_a_peer(buses, monkeypatch):
    monkeypatch.setattr(module, "ABSENT_SECONDS_MAX", 0.05)
    first, _, _ = buses
    first.links.on_peer_lost(1)
    with pytest.raises(ShardUnavailable, match="did not come back"):
        await first.request(1, Subject.OPERATION)
    assert not first.tell(1, Subject.FILE, Letter(b"x"))


async def test_peers_that_come_and_go_are_reported(buses):
    first, second, _ = buses
    told: list[str] = []
    first.when_lost.append(lambda shard: told.append(f"lost {shard}"))
    first.when_there.append(lambda shard: told.append(f"there {shard}"))
    replaced(first, second)
    assert told == ["lost 1", "there 1"]


async def test_a_connection_that_fails_between_living_shards_breaks_the_one_that_sees_it(buses):
    first, second, third = buses
    first.links.on_peer_lost(2)
    waiting = first.request(2, Subject.OPERATION)
    pending = [first.request(1, Subject.OPERATION, repeatable=each) for each in (False, True)]
    second.links.peers[0].socket.send(b"\xff" * 64)
    await until(lambda: not second.is_there(0))
    assert first.broken.is_set()
    assert not second.broken.is_set()
    assert not third.broken.is_set()
    # It ends now: what its clients have asked for must not keep it.
    for one in (waiting, *pending, first.request(1, Subject.OPERATION)):
        with pytest.raises(ShardUnavailable):
            await asyncio.wait_for(one, module.ABSENT_SECONDS_MAX / 2)


@pytest.mark.parametrize("fault", [None, BrokenPipeError(), ConnectionResetError()])
async def test_a_peer_that_died_breaks_nobody(buses, fault):
    first, *_ = buses
    first._exchanges[1].line.lose(fault)
    assert not first.is_there(1)
    assert not first.broken.is_set()


@pytest.mark.parametrize("ending", ["stopping", "closed"])
async def test_nothing_is_broken_at_the_end(buses, ending):
    first, *_ = buses
    line = first._exchanges[1].line
    if ending == "stopping":
        first.is_stopping = True
    else:
        first.close()
    line.lose(OSError("too many references"))
    assert not first.broken.is_set()


async def test_a_bus_that_closes_fails_what_is_asked(buses):
    first, second, third = buses
    second.answer(Subject.OPERATION, lambda _: asyncio.get_running_loop().create_future())
    first.links.on_peer_lost(2)
    pending = [first.request(1, Subject.OPERATION), first.request(2, Subject.OPERATION)]
    repeatable = first.request(1, Subject.OPERATION, repeatable=True)
    first.close()
    for one in (*pending, repeatable, first.request(1, Subject.OPERATION)):
        with pytest.raises(ShardUnavailable):
            await one
    assert third.count == 3
