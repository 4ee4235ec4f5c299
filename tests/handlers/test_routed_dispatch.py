"""Which clients a shard would rather see on another one."""

import asyncio
from pathlib import Path

import pytest
from tests.support.shards import Shards, clients_of, running_shards

from borzoi.handlers.routed_dispatch import RoutedDispatcher
from borzoi.handlers.sessions import Session
from borzoi.model.namespace import Namespace
from borzoi.shard.bus import Arrived, Letter
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
