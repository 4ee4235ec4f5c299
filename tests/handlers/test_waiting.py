"""Polls that wait: woken by messages, ended by time, by a stop, and by losing the right to wait."""

import asyncio
from asyncio import Future, Task
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer, sent, with_topic

from borzoi.handlers.sessions import Session
from borzoi.handlers.waiting import Waits
from borzoi.model.consuming import Consumer, ConsumerKind, PollingStrategy
from borzoi.model.errors import PartitionNotFound, ResourceNotFound, TopicNotFound, Unauthorized
from borzoi.model.system import TransportKind
from borzoi.model.users import GlobalPermissions, Permissions, UserStatus
from borzoi.protocol.commands.groups import CreateConsumerGroup, JoinConsumerGroup
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.topics import DeleteTopic
from borzoi.protocol.commands.users import CreateUser, UpdatePermissions


def poll_of(
    wait_ms: int, *, group: str | None = None, partition: int | None = 0, number: int = 1
) -> PollMessages:
    consumer = Consumer(ConsumerKind.CONSUMER, number)
    if group is not None:
        consumer = Consumer(ConsumerKind.GROUP, group)
    strategy = PollingStrategy.next()
    return PollMessages(consumer, "s", "t", partition, strategy, 10, True, wait_ms)


async def waiting(client: EmbeddedClient, request: PollMessages) -> "Task[Any]":
    """A poll that has begun to wait."""
    task = asyncio.create_task(client.call(request))
    await until(lambda: client.session.waiting)
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_message_wakes_who_waits_for_it(server: EmbeddedServer) -> None:
    await with_topic(server)
    clients = [server.root() for _ in range(3)]
    polls = [
        await waiting(client, poll_of(60_000, number=number))
        for number, client in enumerate(clients)
    ]
    await sent(server, 2)
    for polled in await asyncio.gather(*polls):
        assert polled.messages_count == 2
    assert not any(client.session.waiting for client in clients)


async def test_messages_that_are_there_are_not_waited_for(server: EmbeddedServer) -> None:
    await with_topic(server, messages=2)
    assert (await server.root().call(poll_of(60_000))).messages_count == 2


async def test_the_wait_ends_with_its_time(server: EmbeddedServer) -> None:
    await with_topic(server)
    began = asyncio.get_running_loop().time()
    assert (await server.root().call(poll_of(50))).messages_count == 0
    assert asyncio.get_running_loop().time() - began >= 0.045


async def test_a_message_in_another_partition_wakes_no_poll(server: EmbeddedServer) -> None:
    await with_topic(server)
    poll = await waiting(server.root(), poll_of(60_000, partition=1))
    await sent(server, 2)
    await asyncio.sleep(0.02)
    assert not poll.done()
    server.services.waits.end()
    assert (await poll).messages_count == 0
    # And no new poll begins to wait.
    assert (await server.root().call(poll_of(60_000, partition=1))).messages_count == 0


async def test_a_member_waits_on_all_its_partitions(server: EmbeddedServer) -> None:
    await with_topic(server)
    client = server.root()
    await client.call(CreateConsumerGroup("s", "t", "g"))
    await client.call(JoinConsumerGroup("s", "t", "g"))
    for _ in range(3):
        poll = await waiting(client, poll_of(60_000, group="g", partition=None))
        await sent(server, 1)
        polled = await poll
        assert (polled.partition_id, polled.messages_count) == (0, 1)


async def test_a_topic_that_is_deleted_is_not_waited_for(server: EmbeddedServer) -> None:
    await with_topic(server)
    poll = await waiting(server.root(), poll_of(60_000))
    await server.root().call(DeleteTopic("s", "t"))
    with pytest.raises((ResourceNotFound, PartitionNotFound, TopicNotFound)):
        await poll


async def test_a_permission_that_is_withdrawn_ends_the_wait(server: EmbeddedServer) -> None:
    await with_topic(server)
    root = server.root()
    allowed = Permissions(GlobalPermissions(poll_messages=True))
    bob = await root.call(CreateUser("bob", "secret", UserStatus.ACTIVE, allowed))
    poll = await waiting(server.connect(user_id=bob.id), poll_of(60_000))
    await root.call(UpdatePermissions("bob", None))
    await sent(server, 1)
    with pytest.raises(Unauthorized):
        await poll


async def test_who_hangs_up_waits_no_longer(server: EmbeddedServer) -> None:
    await with_topic(server)
    session = server.root().session
    answer = server.dispatcher.perform(session, poll_of(60_000))
    assert isinstance(answer, Future)
    await until(lambda: session.waiting)
    server.dispatcher.abandon(answer)
    await until(lambda: not session.waiting)
    assert server.dispatcher.waiting == 0


async def test_a_client_that_waits_is_not_taken_for_silent(server: EmbeddedServer) -> None:
    await with_topic(server)
    client = server.root()
    poll = await waiting(client, poll_of(60_000))
    moment = asyncio.get_running_loop().time() + 100
    assert client.session not in server.services.sessions.silent_since(moment)
    await sent(server, 1)
    await poll
    assert client.session in server.services.sessions.silent_since(moment)


async def test_futures_that_are_not_needed_are_cancelled() -> None:
    session = Session(1, "h:1", TransportKind.TCP, lambda: None, 0.0)
    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    first.set_result(None)
    await Waits().for_any([first, second], session)
    assert second.cancelled()


async def test_only_the_polls_of_a_session_that_ends_stop_waiting(server: EmbeddedServer) -> None:
    await with_topic(server)
    first, second = server.root(), server.root()
    polls = [await waiting(client, poll_of(60_000)) for client in (first, second)]
    first.session.input_ended = True
    server.services.waits.end_of(first.session)
    server.services.waits.end_of(first.session)
    async with asyncio.timeout(60):
        assert (await polls[0]).messages_count == 0
    assert not polls[1].done()
    await sent(server, 1)
    assert (await polls[1]).messages_count == 1
