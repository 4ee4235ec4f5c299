import io
import zipfile

import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer

from borzoi import __version__
from borzoi.handlers.system import version_number
from borzoi.model.errors import InvalidClientId, Unauthenticated, Unauthorized
from borzoi.model.system import NodeRole, SnapshotCompression, SnapshotKind
from borzoi.protocol.commands import system
from borzoi.protocol.commands.groups import CreateConsumerGroup, JoinConsumerGroup
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.commands.users import CreateUser, LoginUser


async def test_a_ping_needs_no_login_and_is_remembered(server: EmbeddedServer) -> None:
    client = server.connect()
    await client.call(system.Ping())
    assert client.session.pinged_at > 0
    with pytest.raises(Unauthenticated):
        await client.call(system.GetMe())


async def test_statistics_count_what_is_there(root: EmbeddedClient) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 3))
    await root.call(CreateConsumerGroup("s", "t", "g"))
    stats = await root.call(system.GetStats())
    assert (stats.streams_count, stats.topics_count, stats.partitions_count) == (1, 1, 3)
    assert (stats.segments_count, stats.messages_count, stats.consumer_groups_count) == (3, 0, 1)
    assert stats.clients_count == 1
    assert stats.memory_usage > 0
    assert stats.server_version == __version__


async def test_clients_are_listed_with_their_groups(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateStream("s"))
    await root.call(CreateTopic("s", "t", 1))
    await root.call(CreateConsumerGroup("s", "t", "g"))
    member = server.root()
    await member.call(JoinConsumerGroup("s", "t", "g"))
    me = await member.call(system.GetMe())
    assert [group.group_id for group in me.consumer_groups] == [0]
    assert await root.call(system.GetClient(me.client_id)) == me
    assert len((await root.call(system.GetClients())).clients) == 2
    assert await root.call(system.GetClient(7)) is None
    with pytest.raises(InvalidClientId):
        await root.call(system.GetClient(0))
    await root.call(CreateUser("bob", "secret"))
    with pytest.raises(Unauthorized):  # who may not ask learns nothing about the question
        await server.connect(user_id=1).call(system.GetClient(0))


async def test_a_lone_server_is_its_own_leader(root: EmbeddedClient) -> None:
    metadata = await root.call(system.GetClusterMetadata())
    assert metadata.name == "single-node"
    assert [(node.name, node.role) for node in metadata.nodes] == [("iggy-node", NodeRole.LEADER)]


@pytest.mark.parametrize("compression", SnapshotCompression)
async def test_a_snapshot_is_an_archive_of_what_was_asked_for(
    root: EmbeddedClient, compression: SnapshotCompression
) -> None:
    kinds = (SnapshotKind.TEST, SnapshotKind.PROCESS_LIST)
    snapshot = await root.call(system.GetSnapshot(compression, kinds))
    with zipfile.ZipFile(io.BytesIO(bytes(snapshot.archive))) as archive:
        assert archive.namelist() == ["test.txt", "process_list.txt"]
        if compression in (SnapshotCompression.STORED, SnapshotCompression.DEFLATED):
            assert archive.read("test.txt") == b"test\n"


async def test_a_snapshot_needs_the_permission_to_read_server_statistics(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateUser("bob", "secret"))
    bob = server.connect()
    await bob.call(LoginUser("bob", "secret"))
    with pytest.raises(Unauthorized):
        await bob.call(system.GetSnapshot(SnapshotCompression.STORED, (SnapshotKind.TEST,)))


def test_a_version_is_a_number_that_sorts() -> None:
    assert version_number("1.2.3") == 1002003
    assert version_number("0.8.0") == 8000
