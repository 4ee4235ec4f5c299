"""Policies about lost connections, each a table; and connections that outlast their callers."""

import asyncio
import time
from itertools import islice

import pytest
from tests.support.scripted_server import SILENCE, Asked, ok, scripted

from borzoi.client import AsyncClient
from borzoi.client.options import Address, Reconnection
from borzoi.client.reconnection import is_repeatable, pauses, redirected
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import ClientClosed
from borzoi.model.system import NodeRole, NodeStatus, TransportKind
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.groups import JoinConsumerGroup
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, GetStream
from borzoi.protocol.commands.system import ClusterMetadata, ClusterNode, Ping

ME = Consumer(ConsumerKind.CONSUMER, 0)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (Ping(), True),
        (GetStream("s"), True),
        (JoinConsumerGroup("s", "t", "g"), True),
        (PollMessages(ME, "s", "t", 0, PollingStrategy.next(), 1), True),
        (PollMessages(ME, "s", "t", 0, PollingStrategy.next(), 1, True), False),
        (CreateStream("s"), False),
        (DeleteStream("s"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_what_does_no_harm_twice_is_repeated(request_, answer: bool) -> None:
    assert is_repeatable(request_) is answer


def test_pauses_grow_up_to_the_interval() -> None:
    grown = list(islice(pauses(Reconnection(interval=1.6)), 7))
    assert grown == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 1.6, 1.6])


@pytest.mark.parametrize(
    ("reconnection", "count"),
    [(Reconnection(retries=3), 3), (Reconnection(retries=0), 0), (Reconnection(enabled=False), 0)],
)
def test_attempts_are_counted(reconnection: Reconnection, count: int) -> None:
    assert len(list(islice(pauses(reconnection), 10))) == count


def node(port: int, role: NodeRole, status: NodeStatus = NodeStatus.HEALTHY) -> ClusterNode:
    return ClusterNode("n", "127.0.0.1", port, port + 1, port + 2, port + 3, role, status)


LEADER, FOLLOWER = NodeRole.LEADER, NodeRole.FOLLOWER


@pytest.mark.parametrize(
    ("nodes", "answer"),
    [
        ((), None),
        ((node(10, LEADER),), None),
        ((node(10, LEADER), node(20, FOLLOWER)), Address("127.0.0.1", 10)),
        ((node(10, FOLLOWER), node(20, LEADER)), None),
        ((node(10, FOLLOWER), node(20, FOLLOWER)), None),
        ((node(10, LEADER, NodeStatus.STARTING), node(20, FOLLOWER)), None),
    ],
)
def test_the_healthy_leader_is_asked(nodes, answer) -> None:
    metadata = ClusterMetadata("c", nodes)
    assert redirected(metadata, Address("localhost", 20), TransportKind.TCP) == answer


def test_every_transport_has_its_port() -> None:
    metadata = ClusterMetadata("c", (node(10, LEADER), node(20, FOLLOWER)))
    found = [redirected(metadata, Address("h", 1), kind) for kind in TransportKind]
    assert found == [Address("127.0.0.1", port) for port in (10, 11, 12, 13)]


async def test_a_caller_that_waits_less_long_than_a_connection_takes_gets_one_all_the_same() -> (
    None
):
    """Otherwise a consumer with a short timeout would never be back on a busy machine."""

    def slow_login(asked: Asked) -> bytes:
        if asked.code == Code.LOGIN_USER:
            time.sleep(0.3)
        return ok(asked)

    with scripted(slow_login) as server:
        client = AsyncClient(server.url)
        answered = 0
        while not answered:
            try:
                async with asyncio.timeout(0.05):
                    await client.ping()
                    answered += 1
            except TimeoutError:
                continue
        await client.close()
    assert server.codes.count(Code.LOGIN_USER) == 1
    assert len(asyncio.all_tasks()) == 1


async def test_closing_ends_a_connection_that_is_being_made() -> None:
    with scripted(lambda _: SILENCE) as server:
        client = AsyncClient(server.url)
        connecting = asyncio.create_task(client.ping())
        while not server.asked:
            await asyncio.sleep(0.001)
        await client.close()
        with pytest.raises(ClientClosed):
            await connecting
    assert len(asyncio.all_tasks()) == 1
