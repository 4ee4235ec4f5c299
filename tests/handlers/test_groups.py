import asyncio
from pathlib import Path

import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer, embedded_server

from borzoi.model.errors import GroupNameTaken, GroupNotFound, MemberNotFound
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import groups
from borzoi.protocol.commands.partitions import DeletePartitions
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.contract import encode_payload
from borzoi.protocol.errors import code_of

GROUP = ("s", "t", "g")
#: Each change waits for the disk, so those that follow wait for their turn.
SLOW = {"SYSTEM_STATE_ENFORCE_FSYNC": "true"}


@pytest.fixture(autouse=True)
async def group(root: EmbeddedClient) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 6))
    created = await root.call(groups.CreateConsumerGroup(*GROUP))
    assert (created.id, created.members_count) == (0, 0)


async def with_group(server: EmbeddedServer) -> EmbeddedClient:
    root = server.root()
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 6))
    await root.call(groups.CreateConsumerGroup(*GROUP))
    return root


async def shares(root: EmbeddedClient) -> list[tuple[int, ...]]:
    return [
        member.partitions for member in (await root.call(groups.GetConsumerGroup(*GROUP))).members
    ]


async def test_members_share_fairly_as_they_come_and_go(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    members = [server.root() for _ in range(3)]
    for member in members:
        await member.call(groups.JoinConsumerGroup(*GROUP))
        await member.call(groups.JoinConsumerGroup(*GROUP))
    assert sorted(len(share) for share in await shares(root)) == [2, 2, 2]
    await members[0].call(groups.LeaveConsumerGroup(*GROUP))
    await members[1].disconnect()
    assert await shares(root) == [(0, 1, 2, 3, 4, 5)]


async def test_a_client_that_hangs_up_while_joining_leaves_no_member(
    tmp_path: Path,
) -> None:
    async with embedded_server(tmp_path / "slow", SLOW) as server:
        root = await with_group(server)
        late, new = server.root(), server.root()
        join = encode_payload(groups.JoinConsumerGroup(*GROUP))
        async with asyncio.TaskGroup() as at_once:
            at_once.create_task(root.call(CreateStream("other")))
            at_once.create_task(late.exchange(Code.JOIN_CONSUMER_GROUP, join))
            await asyncio.sleep(0)
            assert late.session.joined
            at_once.create_task(late.disconnect())
            await asyncio.sleep(0)
            # The same number, as a client that connects again from the same port has it.
            server.services.sessions.remove(new.session)
            new.session.client_id = late.session.client_id
            server.services.sessions.add(new.session)
            at_once.create_task(new.call(groups.JoinConsumerGroup(*GROUP)))
        assert await shares(root) == [(0, 1, 2, 3, 4, 5)]


@pytest.mark.parametrize("request_type", [groups.JoinConsumerGroup, groups.LeaveConsumerGroup])
async def test_a_group_that_got_the_number_of_a_deleted_one_is_another(
    tmp_path: Path, request_type: type[groups.JoinConsumerGroup | groups.LeaveConsumerGroup]
) -> None:
    async with embedded_server(tmp_path / "slow", SLOW) as server:
        root = await with_group(server)
        client = server.root()
        asked_for = encode_payload(request_type(*GROUP))
        async with asyncio.TaskGroup() as at_once:
            at_once.create_task(root.call(groups.DeleteConsumerGroup(*GROUP)))
            at_once.create_task(root.call(groups.CreateConsumerGroup("s", "t", "h")))
            asked = at_once.create_task(client.exchange(int(request_type.CODE), asked_for))
        assert asked.result()[0] == code_of(GroupNotFound(""))
        assert (await root.call(groups.GetConsumerGroup("s", "t", "h"))).members == ()


async def test_groups_are_listed_until_deleted(root: EmbeddedClient) -> None:
    with pytest.raises(GroupNameTaken):
        await root.call(groups.CreateConsumerGroup(*GROUP))
    assert [one.name for one in (await root.call(groups.GetConsumerGroups("s", "t"))).groups] == [
        "g"
    ]
    await root.call(groups.DeleteConsumerGroup(*GROUP))
    assert await root.call(groups.GetConsumerGroup(*GROUP)) is None
    with pytest.raises(GroupNotFound):
        await root.call(groups.JoinConsumerGroup(*GROUP))


async def test_who_did_not_join_cannot_leave(root: EmbeddedClient) -> None:
    with pytest.raises(MemberNotFound):
        await root.call(groups.LeaveConsumerGroup(*GROUP))


async def test_members_lose_partitions_that_are_deleted(root: EmbeddedClient) -> None:
    await root.call(groups.JoinConsumerGroup(*GROUP))
    await root.call(DeletePartitions("s", "t", 6))
    assert await shares(root) == [()]
