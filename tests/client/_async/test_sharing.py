"""Members of a group whose connection ends, and whose partitions others get meanwhile."""

from collections.abc import AsyncIterator, Iterator

import pytest

from borzoi.client import AsyncClient
from borzoi.client._async.consumer import AsyncConsumer
from borzoi.testing.faults import Proxy

Told = list[tuple[str, tuple[int, ...]]]


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    """The connection of the member under test, which can be cut."""
    with Proxy(server.tcp_address) as between:
        yield between


@pytest.fixture
async def member(proxy: Proxy) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(proxy.url) as connected:
        yield connected


@pytest.fixture
async def single(client: AsyncClient, stream: str) -> str:
    """A topic with one partition, for which two members compete, and ten messages."""
    await client.create_topic(f"{stream}/single", partitions=1)
    await client.send_messages(f"{stream}/single", [str(n) for n in range(10)], partition=0)
    return f"{stream}/single"


def in_group(client: AsyncClient, topic: str, told: Told | None = None, **how) -> AsyncConsumer:
    told = [] if told is None else told
    return client.consumer(
        topic,
        group="g",
        follow=False,
        on_assigned=lambda partitions: told.append(("assigned", partitions)),
        on_revoked=lambda partitions: told.append(("revoked", partitions)),
        **how,
    )


async def offsets(consumer: AsyncConsumer, count: int) -> list[int]:
    return [(await consumer.__anext__()).offset for _ in range(count)]


async def look(consumer: AsyncConsumer) -> None:
    """Let a member see now what it would see within half a second."""
    consumer._share._looked_at = 0.0
    await consumer._share.look()


async def taken_over(proxy: Proxy, watching: AsyncClient, topic: str) -> None:
    """Cut the member's connection, and wait until the server has given its partition away."""
    proxy.drop()
    while True:
        details = await watching.get_consumer_group(topic, "g")
        assert details is not None
        if [each.partitions for each in details.members] == [(0,)]:
            return


async def test_a_member_without_partitions_does_not_take_the_first_for_its_own(
    client, member, single: str
) -> None:
    # Its polls are answered like those of an empty partition 0.
    told: Told = []
    async with in_group(client, single) as owner, in_group(member, single, told) as idle:
        assert owner.assignment == (0,)
        assert (idle.assignment, told) == ((), [])
        await owner.close()
        await look(idle)
        assert (idle.assignment, told) == ((0,), [("assigned", (0,))])


async def test_a_partition_that_was_lost_is_not_taken_for_a_purged_one(
    client, member, proxy, single: str
) -> None:
    told: Told = []
    async with in_group(member, single, told, commit="manual") as consumer:
        assert await offsets(consumer, 10) == list(range(10))
        async with in_group(client, single, commit="manual") as other:
            await taken_over(proxy, client, single)
            await look(other)
            # Connects again and finds that it has nothing.
            await look(consumer)
            assert await offsets(other, 3) == [0, 1, 2]
            await consumer._poll()
            assert consumer.assignment == ()
        # No offset was stored, so it begins again, and says so.
        await look(consumer)
        assert await offsets(consumer, 2) == [0, 1]
    assert told == [("assigned", (0,)), ("revoked", (0,)), ("assigned", (0,))]


async def test_a_partition_lost_between_two_looks_is_given_up(
    client, member, proxy, single: str
) -> None:
    told: Told = []
    async with in_group(client, single) as other:
        async with in_group(member, single, told) as consumer:
            await other.close()
            await look(consumer)
            assert await offsets(consumer, 10) == list(range(10))
            await consumer.commit()
            # The connection stays and the membership does not: another one has the partition.
            await member.leave_consumer_group(single, "g")
            async with in_group(client, single) as third:
                await member.join_consumer_group(single, "g")
                assert third.assignment == (0,)
                consumer._share._looked_at = float("inf")
                await consumer._poll()
                assert consumer.position(0) == 10
                consumer._share._looked_at = 0.0
                await consumer._poll()
                assert consumer.assignment == ()
    assert told == [("assigned", (0,)), ("revoked", (0,))]


async def test_a_purged_partition_of_a_member_begins_again(client, single: str) -> None:
    async with in_group(client, single) as consumer:
        assert await offsets(consumer, 10) == list(range(10))
        await client.purge_topic(single)
        await consumer._poll()
        await client.send_messages(single, ["new"], partition=0)
        assert await offsets(consumer, 1) == [0]


async def test_partitions_are_told_also_when_the_connection_ends_meanwhile(
    member, proxy, single: str, monkeypatch
) -> None:
    told: Told = []
    ask = member.get_consumer_offset
    connections = proxy.connections

    async def ask_on_a_bad_line(*args, **keywords):
        if proxy.connections == connections:
            proxy.drop()
        return await ask(*args, **keywords)

    monkeypatch.setattr(member, "get_consumer_offset", ask_on_a_bad_line)
    async with in_group(member, single, told) as consumer:
        assert await offsets(consumer, 3) == [0, 1, 2]
    assert proxy.connections == connections + 1
    assert told == [("assigned", (0,))]


async def test_what_others_stored_meanwhile_is_not_overwritten(
    client, member, proxy, single: str
) -> None:
    async with in_group(member, single, batch_messages=5) as consumer:
        assert await offsets(consumer, 5) == [0, 1, 2, 3, 4]
        async with in_group(client, single) as other:
            await taken_over(proxy, client, single)
            await look(other)
            assert await offsets(other, 10) == list(range(10))
            await other.commit()
        await client.send_messages(single, ["new"], partition=0)
        assert await offsets(consumer, 1) == [10]
        stored = await client.get_consumer_offset(single, partition=0, group="g")
        assert stored.stored_offset == 9


async def test_what_was_dealt_with_is_stored_on_the_next_connection(
    client, member, proxy, single: str
) -> None:
    async with in_group(member, single) as consumer:
        assert await offsets(consumer, 10) == list(range(10))
        proxy.drop()
        await consumer.commit()
        stored = await client.get_consumer_offset(single, partition=0, group="g")
        assert stored.stored_offset == 9
        proxy.drop()


async def test_a_place_that_was_sought_outlives_the_connection(
    client, member, proxy, single: str
) -> None:
    async with in_group(member, single) as consumer:
        assert await offsets(consumer, 10) == list(range(10))
        await consumer.commit()
        await consumer.seek(0, 3)
        proxy.drop()
        assert await offsets(consumer, 2) == [3, 4]


async def test_a_change_that_was_interrupted_is_made_again(
    client, member, single: str, monkeypatch
) -> None:
    told: Told = []
    async with in_group(client, single) as owner, in_group(member, single, told) as idle:
        await owner.close()
        ask = member.get_consumer_offset

        async def interrupted(*args, **keywords):
            raise KeyboardInterrupt

        monkeypatch.setattr(member, "get_consumer_offset", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await look(idle)
        monkeypatch.setattr(member, "get_consumer_offset", ask)
        await look(idle)
        assert (idle.assignment, told) == ((0,), [("assigned", (0,))])
