# Made by tools/unasync.py from tests/client/_async/test_sharing.py: edit that one.
"""Members of a group whose connection ends, and whose partitions others get meanwhile."""

from collections.abc import Iterator

import pytest

from borzoi.client import Client
from borzoi.client._sync.consumer import Consumer
from borzoi.testing.faults import Proxy

Told = list[tuple[str, tuple[int, ...]]]


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    """The connection of the member under test, which can be cut."""
    with Proxy(server.tcp_address) as between:
        yield between


@pytest.fixture
def member(proxy: Proxy) -> Iterator[Client]:
    with Client(proxy.url) as connected:
        yield connected


@pytest.fixture
def single(client: Client, stream: str) -> str:
    """A topic with one partition, for which two members compete, and ten messages."""
    client.create_topic(f"{stream}/single", partitions=1)
    client.send_messages(f"{stream}/single", [str(n) for n in range(10)], partition=0)
    return f"{stream}/single"


def in_group(client: Client, topic: str, told: Told | None = None, **how) -> Consumer:
    told = [] if told is None else told
    return client.consumer(
        topic,
        group="g",
        follow=False,
        on_assigned=lambda partitions: told.append(("assigned", partitions)),
        on_revoked=lambda partitions: told.append(("revoked", partitions)),
        **how,
    )


def offsets(consumer: Consumer, count: int) -> list[int]:
    return [(consumer.__next__()).offset for _ in range(count)]


def look(consumer: Consumer) -> None:
    """Let a member see now what it would see within half a second."""
    consumer._share._looked_at = 0.0
    consumer._share.look()


def taken_over(proxy: Proxy, watching: Client, topic: str) -> None:
    """Cut the member's connection, and wait until the server has given its partition away."""
    proxy.drop()
    while True:
        details = watching.get_consumer_group(topic, "g")
        assert details is not None
        if [each.partitions for each in details.members] == [(0,)]:
            return


def test_a_member_without_partitions_does_not_take_the_first_for_its_own(
    client, member, single: str
) -> None:
    # Its polls are answered like those of an empty partition 0.
    told: Told = []
    with in_group(client, single) as owner, in_group(member, single, told) as idle:
        assert owner.assignment == (0,)
        assert (idle.assignment, told) == ((), [])
        owner.close()
        look(idle)
        assert (idle.assignment, told) == ((0,), [("assigned", (0,))])


def test_a_partition_that_was_lost_is_not_taken_for_a_purged_one(
    client, member, proxy, single: str
) -> None:
    told: Told = []
    with in_group(member, single, told, commit="manual") as consumer:
        assert offsets(consumer, 10) == list(range(10))
        with in_group(client, single, commit="manual") as other:
            taken_over(proxy, client, single)
            look(other)
            # Connects again and finds that it has nothing.
            look(consumer)
            assert offsets(other, 3) == [0, 1, 2]
            consumer._poll()
            assert consumer.assignment == ()
        # No offset was stored, so it begins again, and says so.
        look(consumer)
        assert offsets(consumer, 2) == [0, 1]
    assert told == [("assigned", (0,)), ("revoked", (0,)), ("assigned", (0,))]


def test_a_partition_lost_between_two_looks_is_given_up(client, member, proxy, single: str) -> None:
    told: Told = []
    with in_group(client, single) as other:
        with in_group(member, single, told) as consumer:
            other.close()
            look(consumer)
            assert offsets(consumer, 10) == list(range(10))
            consumer.commit()
            # The connection stays and the membership does not: another one has the partition.
            member.leave_consumer_group(single, "g")
            with in_group(client, single) as third:
                member.join_consumer_group(single, "g")
                assert third.assignment == (0,)
                consumer._share._looked_at = float("inf")
                consumer._poll()
                assert consumer.position(0) == 10
                consumer._share._looked_at = 0.0
                consumer._poll()
                assert consumer.assignment == ()
    assert told == [("assigned", (0,)), ("revoked", (0,))]


def test_a_purged_partition_of_a_member_begins_again(client, single: str) -> None:
    with in_group(client, single) as consumer:
        assert offsets(consumer, 10) == list(range(10))
        client.purge_topic(single)
        consumer._poll()
        client.send_messages(single, ["new"], partition=0)
        assert offsets(consumer, 1) == [0]


def test_partitions_are_told_also_when_the_connection_ends_meanwhile(
    member, proxy, single: str, monkeypatch
) -> None:
    told: Told = []
    ask = member.get_consumer_offset
    connections = proxy.connections

    def ask_on_a_bad_line(*args, **keywords):
        if proxy.connections == connections:
            proxy.drop()
        return ask(*args, **keywords)

    monkeypatch.setattr(member, "get_consumer_offset", ask_on_a_bad_line)
    with in_group(member, single, told) as consumer:
        assert offsets(consumer, 3) == [0, 1, 2]
    assert proxy.connections == connections + 1
    assert told == [("assigned", (0,))]


def test_what_others_stored_meanwhile_is_not_overwritten(
    client, member, proxy, single: str
) -> None:
    with in_group(member, single, batch_messages=5) as consumer:
        assert offsets(consumer, 5) == [0, 1, 2, 3, 4]
        with in_group(client, single) as other:
            taken_over(proxy, client, single)
            look(other)
            assert offsets(other, 10) == list(range(10))
            other.commit()
        client.send_messages(single, ["new"], partition=0)
        assert offsets(consumer, 1) == [10]
        stored = client.get_consumer_offset(single, partition=0, group="g")
        assert stored.stored_offset == 9


def test_what_was_dealt_with_is_stored_on_the_next_connection(
    client, member, proxy, single: str
) -> None:
    with in_group(member, single) as consumer:
        assert offsets(consumer, 10) == list(range(10))
        proxy.drop()
        consumer.commit()
        stored = client.get_consumer_offset(single, partition=0, group="g")
        assert stored.stored_offset == 9
        proxy.drop()


def test_a_place_that_was_sought_outlives_the_connection(
    client, member, proxy, single: str
) -> None:
    with in_group(member, single) as consumer:
        assert offsets(consumer, 10) == list(range(10))
        consumer.commit()
        consumer.seek(0, 3)
        proxy.drop()
        assert offsets(consumer, 2) == [3, 4]


def test_a_change_that_was_interrupted_is_made_again(
    client, member, single: str, monkeypatch
) -> None:
    told: Told = []
    with in_group(client, single) as owner, in_group(member, single, told) as idle:
        owner.close()
        ask = member.get_consumer_offset

        def interrupted(*args, **keywords):
            raise KeyboardInterrupt

        monkeypatch.setattr(member, "get_consumer_offset", interrupted)
        with pytest.raises(KeyboardInterrupt):
            look(idle)
        monkeypatch.setattr(member, "get_consumer_offset", ask)
        look(idle)
        assert (idle.assignment, told) == ((0,), [("assigned", (0,))])
