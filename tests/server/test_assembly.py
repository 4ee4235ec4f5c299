import asyncio
import time
from pathlib import Path

import pytest
from tests.support.embedded import embedded_server
from tests.support.starts import settings_with

from borzoi.model.errors import BorzoiError, InvalidCredentials, ResourceNotFound, Unauthenticated
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.system import NodeRole
from borzoi.model.users import GlobalPermissions, Permissions, UserStatus
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    GetConsumerGroup,
    JoinConsumerGroup,
)
from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.commands.system import GetMe
from borzoi.protocol.commands.tokens import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.commands.users import CreateUser, DeleteUser, LoginUser
from borzoi.server.assembly import (
    STORED_ROOT,
    acknowledge_of,
    cluster_nodes,
    hang_up,
    open_data,
    store_new_root,
)
from borzoi.storage.settings import Acknowledge

KEY = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="


def test_root_is_made_the_first_time_and_found_the_second(tmp_path: Path) -> None:
    settings = settings_with(tmp_path)
    environment = {"BORZOI_ROOT_USERNAME": "admin", "BORZOI_ROOT_PASSWORD": "secret"}
    first = open_data(settings, tmp_path, environment=environment, default_credentials=False)
    assert (first.root.username, first.root.shown_password) == ("admin", None)
    store_new_root(first)
    first.state_log.close()
    first.pool.close()
    second = open_data(settings, tmp_path, environment={}, default_credentials=True)
    assert (second.root.username, second.root.source) == ("admin", STORED_ROOT)
    assert second.state.users[ROOT_USER_ID].username == "admin"
    second.state_log.close()
    second.pool.close()


def test_root_is_not_stored_before_its_password_can_be_known(tmp_path: Path) -> None:
    """A start that fails in between would leave a root with an unknown password."""
    shown = set()
    for _ in range(2):
        opened = open_data(
            settings_with(tmp_path), tmp_path, environment={}, default_credentials=False
        )
        shown.add(opened.root.shown_password)
        opened.state_log.close()
        opened.pool.close()
    assert len(shown) == 2
    assert None not in shown


def test_a_generated_password_is_shown(tmp_path: Path) -> None:
    opened = open_data(settings_with(tmp_path), tmp_path, environment={}, default_credentials=False)
    assert opened.root.shown_password is not None
    assert len(opened.root.shown_password) >= 20
    opened.state_log.close()
    opened.pool.close()


async def test_what_is_encrypted_opens_with_its_key_only(tmp_path: Path) -> None:
    encrypted = {"SYSTEM_ENCRYPTION_ENABLED": "true", "SYSTEM_ENCRYPTION_KEY": KEY}
    async with embedded_server(tmp_path, encrypted) as server:
        await server.root().call(CreateStream("hidden"))
    assert b"hidden" not in b"".join(
        path.read_bytes() for path in tmp_path.rglob("state*") if path.is_file()
    )
    async with embedded_server(tmp_path, encrypted) as server:
        (stream,) = (await server.root().call(GetStreams())).streams
        assert stream.name == "hidden"
    with pytest.raises(BorzoiError):
        async with embedded_server(tmp_path):
            pass


async def test_a_session_that_deletes_its_own_token_goes_on_and_the_others_end(
    tmp_path: Path,
) -> None:
    async with embedded_server(tmp_path) as server:
        for name in ("tok", "another"):
            await server.root().call(CreatePersonalAccessToken(name, 0))
        await server.root().call(DeletePersonalAccessToken("tok"))
        token = (await server.root().call(CreatePersonalAccessToken("tok", 0))).token
        deleting, other = server.connect(), server.connect()
        for client in (deleting, other):
            await client.call(LoginWithPersonalAccessToken(token))
        with pytest.raises(ResourceNotFound):
            await deleting.call(DeletePersonalAccessToken("missing"))
        await deleting.call(DeletePersonalAccessToken("another"))
        assert deleting.session.token_hash is not None, "it still depends on its own"
        await deleting.call(DeletePersonalAccessToken("tok"))
        assert other.hung_up
        assert not deleting.hung_up
        await deleting.call(GetStreams())
        await deleting.call(GetMe())


async def test_deleting_a_user_or_a_token_ends_the_sessions_it_opened(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as server:
        root = server.root()
        await root.call(CreateUser("bob", "secret"))
        bob, by_token, other = server.connect(), server.connect(), server.root()
        await bob.call(LoginUser("bob", "secret"))
        token = (await root.call(CreatePersonalAccessToken("tok", 0))).token
        await by_token.call(LoginWithPersonalAccessToken(token))
        await root.call(DeletePersonalAccessToken("tok"))
        assert by_token.hung_up
        with pytest.raises(Unauthenticated):
            await by_token.call(GetMe())
        await root.call(DeleteUser("bob"))
        assert bob.hung_up
        spared = not other.hung_up
        hang_up([other.session])
        assert spared
        assert other.hung_up
        assert other.session.user_id is None


async def test_a_deleted_user_has_left_its_groups_when_the_deletion_is_answered(
    tmp_path: Path,
) -> None:
    async with embedded_server(tmp_path) as server:
        root, bob = server.root(), server.connect()
        await root.call(CreateStream("s"))
        await root.call(CreateTopic("s", "t", 1))
        await root.call(CreateConsumerGroup("s", "t", "g"))
        reading = Permissions(GlobalPermissions(manage_streams=True, read_streams=True))
        await root.call(CreateUser("bob", "secret", UserStatus.ACTIVE, reading))
        await bob.call(LoginUser("bob", "secret"))
        await bob.call(JoinConsumerGroup("s", "t", "g"))
        assert len((await root.call(GetConsumerGroup("s", "t", "g"))).members) == 1
        await root.call(DeleteUser("bob"))
        assert (await root.call(GetConsumerGroup("s", "t", "g"))).members == ()


@pytest.mark.parametrize(
    ("variables", "level"),
    [
        ({}, Acknowledge.WRITTEN),
        ({"SYSTEM_PARTITION_ACKNOWLEDGE": "buffered"}, Acknowledge.BUFFERED),
        ({"SYSTEM_PARTITION_ENFORCE_FSYNC": "true"}, Acknowledge.SYNCED),
    ],
)
def test_fsync_is_another_word_for_synced(
    tmp_path: Path, variables: dict[str, str], level: Acknowledge
) -> None:
    assert acknowledge_of(settings_with(tmp_path, **variables)) is level


def test_the_cluster_has_the_configured_nodes_and_one_leader(tmp_path: Path) -> None:
    alone = cluster_nodes(settings_with(tmp_path), follower=False).metadata()
    assert [node.tcp_port for node in alone.nodes] == [8090]
    settings = settings_with(
        tmp_path,
        CLUSTER_ENABLED="true",
        CLUSTER_NODE_OTHERS_0_NAME="two",
        CLUSTER_NODE_OTHERS_0_IP="10.0.0.2",
        CLUSTER_NODE_OTHERS_0_PORTS_TCP="9",
    )
    for follower in (False, True):
        nodes = cluster_nodes(settings, follower=follower).metadata().nodes
        assert [(node.name, node.tcp_port) for node in nodes] == [("iggy-node-1", 8090), ("two", 9)]
        assert [node.role for node in nodes].count(NodeRole.LEADER) == 1
        assert (nodes[0].role is NodeRole.FOLLOWER) == follower


def test_a_pool_can_be_switched_off(tmp_path: Path) -> None:
    settings = settings_with(tmp_path, SYSTEM_MEMORY_POOL_ENABLED="false")
    opened = open_data(settings, tmp_path, environment={}, default_credentials=True)
    assert opened.pool.limit_bytes == 0
    opened.state_log.close()


async def test_setting_the_clock_back_does_not_extend_a_lockout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded_server(tmp_path) as server, asyncio.timeout(60):
        client = server.connect()
        for _ in range(4):
            with pytest.raises(InvalidCredentials):
                await client.call(LoginUser("iggy", "wrong"))
        real, hour = time.time_ns, 3600 * 10**9
        monkeypatch.setattr(time, "time_ns", lambda: real() - hour)
        await client.call(LoginUser("iggy", "iggy"))
