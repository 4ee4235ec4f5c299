"""A server of three shards: whatever a client asks of the wrong one, it gets the right answer.

Each test has one client for each shard, so every operation is tried where its partition is and
where it is not.
"""

import asyncio
from pathlib import Path

import pytest
from tests.support.shard_stage import PARTITIONS, Stage, payloads, until, wait_for_messages
from tests.support.shards import clients_of, running_shards

from borzoi.client import AsyncClient
from borzoi.metadata import snapshot
from borzoi.model.errors import (
    BorzoiError,
    ConnectionLost,
    PartitionNotFound,
    ShardUnavailable,
    StreamNameTaken,
    TopicNotFound,
    Unauthenticated,
)
from borzoi.model.users import GlobalPermissions, Permissions, UserStatus
from borzoi.shard.bus import Arrived
from borzoi.shard.envelopes import Subject

pytestmark = pytest.mark.system

EVERYTHING = Permissions(GlobalPermissions(manage_streams=True, read_servers=True))


# ---- the control plane --------------------------------------------------------------------------


async def test_a_change_is_visible_on_every_shard_when_it_is_answered(stage: Stage) -> None:
    for number, client in enumerate(stage.clients):
        name = f"stream-{number}"
        stream = await client.create_stream(name)
        for other in stage.clients:
            assert (await other.get_stream(name)).id == stream.id  # type: ignore[union-attr]
            with pytest.raises(StreamNameTaken):
                await other.create_stream(name)
        await client.update_stream(name, f"renamed-{number}")
        for other in stage.clients:
            assert await other.get_stream(name) is None
            assert await other.get_stream(f"renamed-{number}") is not None
        await client.delete_stream(f"renamed-{number}")
        for other in stage.clients:
            assert await other.get_stream(f"renamed-{number}") is None


async def test_topics_and_partitions_change_everywhere(stage: Stage) -> None:
    for number, client in enumerate(stage.clients):
        await client.create_topic(f"s/t{number}", partitions=3)
        await client.update_topic(f"s/t{number}", f"u{number}")
        await client.create_partitions(f"s/u{number}", 3)
        for other in stage.clients:
            for partition in range(6):
                await other.send_messages(f"s/u{number}", ["x"], partition=partition)
            topic = await other.get_topic(f"s/u{number}")
            assert topic is not None
            assert len(topic.partitions) == 6
        await client.delete_partitions(f"s/u{number}", 4)
        for other in stage.clients:
            with pytest.raises(PartitionNotFound):
                await other.send_messages(f"s/u{number}", ["x"], partition=2)
        await client.delete_topic(f"s/u{number}")
        folder = stage.shards.directory / "streams/0/topics" / str(number + 1)
        assert not folder.exists()
        for other in stage.clients:
            with pytest.raises(TopicNotFound):
                await other.send_messages(f"s/u{number}", ["x"], partition=0)


async def test_a_purge_empties_the_partitions_of_all_shards(stage: Stage) -> None:
    for number, client in enumerate(stage.clients):
        for partition in range(PARTITIONS):
            await client.send_messages("s/t", ["x"], partition=partition)
            await client.poll_messages("s/t", partition=partition, consumer="c", commit=True)
        await (client.purge_topic("s/t") if number else client.purge_stream("s"))
        for other in stage.clients:
            for partition in range(PARTITIONS):
                assert await payloads(other, partition) == []
                assert (
                    await other.get_consumer_offset("s/t", partition=partition, consumer="c")
                    is None
                )


async def test_messages_survive_a_deletion_and_a_new_topic_of_the_same_number(
    stage: Stage,
) -> None:
    """The files of the old one are gone before the new one has its number."""
    for number in range(3):
        for partition in range(PARTITIONS):
            await stage.wrong(partition).send_messages("s/t", [f"{number}"], partition=partition)
        for client in stage.clients:
            for partition in range(PARTITIONS):
                assert await payloads(client, partition) == [f"{number}".encode()]
        await stage.clients[number].delete_topic("s/t")
        await stage.clients[(number + 1) % 3].create_topic("s/t", partitions=PARTITIONS)


async def test_users_and_their_permissions_are_the_same_everywhere(stage: Stage) -> None:
    first, second, third = stage.clients
    await second.create_user("anna", "secret1", permissions=None)
    host, port = stage.shards.controls[2].addresses["tcp"]
    async with AsyncClient(f"borzoi://anna:secret1@{host}:{port}") as anna:
        with pytest.raises(BorzoiError, match=r"permission|Unauthorized"):
            await anna.get_streams()
        await first.update_permissions("anna", EVERYTHING)
        assert len(await anna.get_streams()) == 1
        await third.change_password("anna", "secret1", "secret2")
        await second.update_user("anna", username="annika")
        assert (await third.get_user("annika")) is not None
    host, port = stage.shards.controls[1].addresses["tcp"]
    async with AsyncClient(f"borzoi://annika:secret2@{host}:{port}") as annika:
        await annika.ping()


@pytest.mark.parametrize("how", ["deleted", "inactive"])
async def test_sessions_end_on_every_shard_with_their_user(stage: Stage, how: str) -> None:
    await stage.clients[1].create_user("anna", "secret1", permissions=EVERYTHING)
    sessions = []
    for shard in range(3):
        host, port = stage.shards.controls[shard].addresses["tcp"]
        one = AsyncClient(f"borzoi://anna:secret1@{host}:{port}?reconnection_retries=0")
        await one.connect()
        sessions.append(one)
    if how == "deleted":
        await stage.clients[2].delete_user("anna")
    else:
        await stage.clients[2].update_user("anna", status=UserStatus.INACTIVE)
    for one in sessions:
        with pytest.raises((ConnectionLost, Unauthenticated, BorzoiError)):
            await one.get_streams()
        await one.close()
    for server in stage.shards.servers.values():
        assert all(session.user_id in (0, None) for session in server._services.sessions)


async def test_a_token_made_on_one_shard_logs_in_on_another_until_it_is_deleted(
    stage: Stage,
) -> None:
    token = await stage.clients[1].create_personal_access_token("tok")
    host, port = stage.shards.controls[2].addresses["tcp"]
    client = AsyncClient(f"borzoi://{host}:{port}")
    await client.connect()
    await client.login_with_personal_access_token(token)
    assert len(await client.get_streams()) == 1
    registry = stage.shards.servers[2]._services.sessions
    assert any(session.token_hash for session in registry)
    await stage.clients[0].delete_personal_access_token("tok")
    assert not any(session.token_hash for session in registry)
    await client.close()


async def test_all_copies_of_the_metadata_are_equal(stage: Stage) -> None:
    for number, client in enumerate(stage.clients):
        await client.create_consumer_group("s/t", f"g{number}")
        await client.join_consumer_group("s/t", "g0")
    digests = {
        snapshot.digest(server._services.metadata.state, members=True)
        for server in stage.shards.servers.values()
    }
    assert len(digests) == 1


# ---- groups -------------------------------------------------------------------------------------


async def test_members_on_different_shards_share_the_partitions(stage: Stage) -> None:
    await stage.clients[2].create_consumer_group("s/t", "g")
    for partition in range(PARTITIONS):
        await stage.wrong(partition).send_messages("s/t", [f"{partition}"], partition=partition)
    for client in stage.clients:
        await client.join_consumer_group("s/t", "g")
    group = await stage.clients[1].get_consumer_group("s/t", "g")
    assert group is not None
    assert sorted(len(member.partitions) for member in group.members) == [2, 2, 2]
    seen = []
    for client in stage.clients:
        for _ in range(2):
            polled = await client.poll_messages("s/t", group="g", commit=True)
            seen += [bytes(one.payload) for one in polled.messages]
    assert sorted(seen) == [f"{partition}".encode() for partition in range(PARTITIONS)]
    for partition in range(PARTITIONS):
        stored = await stage.clients[0].get_consumer_offset("s/t", partition=partition, group="g")
        assert stored is not None
        assert stored.stored_offset == 0


async def test_a_partition_moves_when_its_member_on_another_shard_has_committed(
    stage: Stage,
) -> None:
    first, second = stage.clients[0], stage.clients[1]
    await first.create_consumer_group("s/t", "g")
    for partition in range(PARTITIONS):
        await first.send_messages("s/t", ["x"], partition=partition)
    await first.join_consumer_group("s/t", "g")
    for _ in range(PARTITIONS):
        await first.poll_messages("s/t", group="g")  # polled, not committed
    await second.join_consumer_group("s/t", "g")

    async def shares() -> list[int]:
        group = await stage.clients[2].get_consumer_group("s/t", "g")
        assert group is not None
        return sorted(len(member.partitions) for member in group.members)

    assert await shares() == [0, PARTITIONS]
    for partition in range(PARTITIONS):
        try:
            await first.store_consumer_offset("s/t", 0, partition=partition, group="g")
        except BorzoiError:
            continue  # it has moved already
    assert await shares() == [3, 3]


async def test_a_member_leaves_with_its_connection_on_any_shard(stage: Stage) -> None:
    await stage.clients[0].create_consumer_group("s/t", "g")
    for shard in range(3):
        client = AsyncClient(stage.shards.url(shard))
        await client.connect()
        await client.join_consumer_group("s/t", "g")
        await client.close()
    for _ in range(3000):
        group = await stage.clients[1].get_consumer_group("s/t", "g")
        assert group is not None
        if not group.members:
            return
        await asyncio.sleep(0.01)
    pytest.fail("members are left")


async def test_groups_are_left_and_deleted_from_every_shard(stage: Stage) -> None:
    for number, client in enumerate(stage.clients):
        name = f"g{number}"
        await client.create_consumer_group("s/t", name)
        for other in stage.clients:
            await other.join_consumer_group("s/t", name)
        leaves = stage.clients[(number + 1) % 3]
        await leaves.leave_consumer_group("s/t", name)
        for other in stage.clients:
            group = await other.get_consumer_group("s/t", name)
            assert group is not None
            assert sorted(len(member.partitions) for member in group.members) == [3, 3]
        for partition in range(PARTITIONS):
            await client.send_messages("s/t", ["x"], partition=partition)
        for member in (one for one in stage.clients if one is not leaves):
            while (polled := await member.poll_messages("s/t", group=name, commit=True)).messages:
                assert polled.messages[0].offset == 0
        await stage.clients[(number + 2) % 3].delete_consumer_group("s/t", name)
        for other in stage.clients:
            assert await other.get_consumer_group("s/t", name) is None
        # Its offsets are gone with it, on the owners of all partitions: the next one gets none.
        await client.create_consumer_group("s/t", name)
        for partition in range(PARTITIONS):
            stored = await client.get_consumer_offset("s/t", partition=partition, group=name)
            assert stored is None


# ---- over all shards ----------------------------------------------------------------------------


async def test_clients_of_all_shards_are_listed_by_every_shard(stage: Stage) -> None:
    own = [await client.get_me() for client in stage.clients]
    await stage.clients[1].create_consumer_group("s/t", "g")
    await stage.clients[1].join_consumer_group("s/t", "g")
    for client in stage.clients:
        listed = {one.client_id: one for one in await client.get_clients()}
        assert sorted(listed) == sorted(one.client_id for one in own)
        assert listed[own[1].client_id].consumer_groups_count == 1
        for one in own:
            found = await client.get_client(one.client_id)
            assert found is not None
            assert found.address == one.address
        assert await client.get_client(4_000_000_000) is None


async def test_statistics_are_of_all_shards(stage: Stage) -> None:
    for partition in range(PARTITIONS):
        await stage.wrong(partition).send_messages("s/t", ["abc"], partition=partition)
    for client in stage.clients:
        stats = await client.get_stats()
        assert stats.messages_count == PARTITIONS
        assert stats.segments_count == PARTITIONS
        assert stats.clients_count == 3
        assert stats.partitions_count == PARTITIONS
        topic = await client.get_topic("s/t")
        assert topic is not None
        assert topic.messages_count == PARTITIONS
        assert [one.messages_count for one in topic.partitions] == [1] * PARTITIONS


# ---- what is left -------------------------------------------------------------------------------


async def test_queues_windows_pools_and_waits_are_empty_when_nothing_runs(stage: Stage) -> None:
    """After much at once, of all kinds, some of it given up."""
    large = [bytes(1000)] * 500
    waiting = [
        asyncio.create_task(wait_for_messages(client, partition, 200))
        for partition, client in enumerate(stage.clients)
    ]
    for _ in range(3):
        await asyncio.gather(
            *(
                client.send_messages("s/t", large, partition=number)
                for client, number in stage.everywhere()
            )
        )
        await asyncio.gather(
            *(
                client.poll_messages("s/t", partition=number, start="first")
                for client, number in stage.everywhere()
            )
        )
        await asyncio.gather(
            *(
                client.store_consumer_offset("s/t", 1, partition=number, consumer="c")
                for client, number in stage.everywhere()
            ),
        )
    await asyncio.gather(*waiting)
    await stage.clients[0].delete_topic("s/t")
    for server in stage.shards.servers.values():
        for exchange in server._bus._exchanges.values():
            assert not exchange.pending
            assert not exchange._parked
            assert not exchange._running
            assert not exchange._deferred
            assert (exchange.window_requests, exchange.window_bytes) == (0, 0)
            assert exchange.line.untaken_bytes == 0
        assert not server._bus._absent
        assert server._dispatcher.waiting == 0
        assert server._opened.pool.counters().in_use_bytes <= 2 * 256 * 1024, "its listener's own"
    await until(
        lambda: not any(one._partitions.files_held for one in stage.shards.servers.values())
    )


# ---- shards that die ----------------------------------------------------------------------------


async def sent_from_afar(stage: Stage, text: str) -> tuple[int, int, AsyncClient]:
    """A message in partition 0: its owner, another shard, and the client there that sent it."""
    owner, shard = stage.apart(0)
    client = stage.clients[shard]
    await client.send_messages("s/t", [text], partition=0)
    return owner, shard, client


async def test_a_connection_stays_in_sync_when_the_owner_dies(stage: Stage) -> None:
    """What the owner had in hand fails; the next answers are those to the next requests."""
    owner, shard, client = await sent_from_afar(stage, "before")
    bus = stage.shards.servers[shard]._bus
    owning = stage.shards.servers[owner]._bus
    hangs: list[Arrived] = []
    owning.answer(Subject.OPERATION, lambda asked: hangs.append(asked) or asyncio.Future())  # type: ignore[func-returns-value]
    sending = asyncio.create_task(client.send_messages("s/t", ["lost"], partition=0))
    await until(lambda: bool(hangs))
    bus._exchanges[owner].line.lose(None)
    with pytest.raises(ShardUnavailable):
        await sending
    assert (await client.get_me()).client_id
    local = next(one for one in range(PARTITIONS) if stage.owner(one) == shard)
    await client.send_messages("s/t", ["here"], partition=local)
    assert await payloads(client, local) == [b"here"]
    owning.answer(Subject.OPERATION, stage.shards.servers[owner]._partitions._operate)
    stage.shards.join(shard, owner)
    await client.send_messages("s/t", ["after"], partition=0)
    assert await payloads(client, 0) == [b"before", b"after"]


async def test_what_may_be_asked_twice_waits_for_the_next_process(stage: Stage) -> None:
    owner, shard, client = await sent_from_afar(stage, "a")
    bus = stage.shards.servers[shard]._bus
    bus._exchanges[owner].line.lose(None)
    polling = asyncio.create_task(payloads(client, 0))
    sending = asyncio.create_task(client.send_messages("s/t", ["b"], partition=0))
    await until(lambda: bool(bus._absent.get(owner)))
    stage.shards.join(shard, owner)
    assert (await polling)[:1] == [b"a"]
    await sending
    assert await payloads(client, 0) == [b"a", b"b"]


async def test_changes_wait_until_a_lost_shard_is_there_again(stage: Stage) -> None:
    first = stage.shards.servers[0]._bus
    first._exchanges[1].line.lose(None)
    creating = asyncio.create_task(stage.clients[2].create_stream("later"))
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert not creating.done()
    stage.shards.join(0, 1)
    await creating
    for client in stage.clients:
        assert await client.get_stream("later") is not None


async def test_members_of_a_shard_are_members_again_after_the_writer_was_replaced(
    stage: Stage,
) -> None:
    """The copy takes the state of the new writer, which knows no members."""
    await stage.clients[1].create_consumer_group("s/t", "g")
    await stage.clients[1].join_consumer_group("s/t", "g")
    writer = stage.shards.servers[0]
    writer._bus._exchanges[1].line.lose(None)

    async def members(client: AsyncClient) -> int:
        group = await client.get_consumer_group("s/t", "g")
        assert group is not None
        return len(group.members)

    # The writer has lost the shard, and takes its members out of the group.
    stage.shards.join(0, 1)
    async with asyncio.timeout(20):
        while [await members(client) for client in stage.clients] != [1, 1, 1]:
            await asyncio.sleep(0.01)
    digests = {
        snapshot.digest(server._services.metadata.state, members=True)
        for server in stage.shards.servers.values()
    }
    assert len(digests) == 1


# ---- connections that move ----------------------------------------------------------------------


async def test_a_connection_moves_to_the_owner_of_the_partition_it_sends_to(
    tmp_path: Path,
) -> None:
    async with running_shards(tmp_path / "data") as shards, clients_of(shards) as clients:
        await clients[0].create_stream("s")
        await clients[0].create_topic("s/t", partitions=PARTITIONS)
        stage = Stage(shards, clients)
        for partition in (0, 1, 5):
            owner = stage.owner(partition)
            client = AsyncClient(shards.url(shards.others(owner)[0]))
            await client.connect()
            before = await client.get_me()
            await client.send_messages("s/t", ["first"], partition=partition)
            registry = shards.servers[owner]._services.sessions
            await until(lambda: registry.get(before.client_id) is not None)  # noqa: B023
            assert (
                sum(
                    server._services.sessions.get(before.client_id) is not None
                    for server in shards.servers.values()
                )
                == 1
            )
            moved = registry.get(before.client_id)
            assert moved is not None
            assert moved.migrated
            assert (await client.get_me()) == before
            for number in range(PARTITIONS):
                await client.send_messages("s/t", [f"{partition}"], partition=number)
            assert registry.get(before.client_id) is moved, "it moves once"
            assert b"first" in await payloads(client, partition)
            await client.close()
            await until(lambda: registry.get(before.client_id) is None)  # noqa: B023


async def test_members_of_groups_and_other_sends_do_not_move(tmp_path: Path) -> None:
    async with running_shards(tmp_path / "data") as shards, clients_of(shards) as clients:
        await clients[0].create_stream("s")
        await clients[0].create_topic("s/t", partitions=PARTITIONS)
        await clients[0].create_consumer_group("s/t", "g")
        for shard, client in enumerate(clients):
            await client.join_consumer_group("s/t", "g")
            me = await client.get_me()
            for partition in range(PARTITIONS):
                await client.send_messages("s/t", ["x"], partition=partition)
                await client.send_messages("s/t", ["x"])
            assert shards.servers[shard]._services.sessions.get(me.client_id) is not None


async def test_the_metrics_count_clients_and_messages_of_all_shards(stage: Stage) -> None:
    for partition in range(PARTITIONS):
        await stage.wrong(partition).send_messages("s/t", ["abc"], partition=partition)
    host, port = stage.shards.controls[0].addresses["http"]
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    lines = text.splitlines()
    assert "clients 3.0" in lines or "clients 3" in lines, text
    assert f"messages {PARTITIONS}.0" in lines or f"messages {PARTITIONS}" in lines, text
    # What each process knows of itself is added up, or has the number of its shard.
    assert 'borzoi_connections{transport="tcp"} 3' in lines, text
    assert 'borzoi_request_seconds_count{command="login_user",transport="tcp"} 3' in lines, text
    for shard in range(3):
        assert f'borzoi_loop_lag_seconds_count{{shard="{shard}"}}' in text
    limit = sum(one._opened.pool.limit_bytes for one in stage.shards.servers.values())
    assert f"borzoi_pool_limit_bytes {limit}" in lines
