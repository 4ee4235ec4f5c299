import pytest

from borzoi.model.errors import GroupNameTaken, GroupNotFound, MemberNotFound
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.partitions import DeletePartitions
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.testing.embedded import EmbeddedClient, EmbeddedServer

GROUP = ("s", "t", "g")


@pytest.fixture(autouse=True)
async def group(root: EmbeddedClient) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 6))
    created = await root.call(CreateConsumerGroup(*GROUP))
    assert (created.id, created.members_count) == (0, 0)


async def shares(root: EmbeddedClient) -> list[tuple[int, ...]]:
    return [member.partitions for member in (await root.call(GetConsumerGroup(*GROUP))).members]


async def test_members_share_fairly_as_they_come_and_go(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    members = [server.root() for _ in range(3)]
    for member in members:
        await member.call(JoinConsumerGroup(*GROUP))
        await member.call(JoinConsumerGroup(*GROUP))
    assert sorted(len(share) for share in await shares(root)) == [2, 2, 2]
    await members[0].call(LeaveConsumerGroup(*GROUP))
    await members[1].disconnect()
    assert await shares(root) == [(0, 1, 2, 3, 4, 5)]


async def test_groups_are_listed_until_deleted(root: EmbeddedClient) -> None:
    with pytest.raises(GroupNameTaken):
        await root.call(CreateConsumerGroup(*GROUP))
    assert [one.name for one in (await root.call(GetConsumerGroups("s", "t"))).groups] == ["g"]
    await root.call(DeleteConsumerGroup(*GROUP))
    assert await root.call(GetConsumerGroup(*GROUP)) is None
    with pytest.raises(GroupNotFound):
        await root.call(JoinConsumerGroup(*GROUP))


async def test_who_did_not_join_cannot_leave(root: EmbeddedClient) -> None:
    with pytest.raises(MemberNotFound):
        await root.call(LeaveConsumerGroup(*GROUP))


async def test_members_lose_partitions_that_are_deleted(root: EmbeddedClient) -> None:
    await root.call(JoinConsumerGroup(*GROUP))
    await root.call(DeletePartitions("s", "t", 6))
    assert await shares(root) == [()]
