import pytest

from borzoi.model.errors import (
    CannotChangeRootPermissions,
    CannotDeleteRoot,
    InvalidCredentials,
    InvalidPassword,
    InvalidUsername,
    Unauthenticated,
    Unauthorized,
    UserInactive,
    UserNameTaken,
)
from borzoi.model.users import GlobalPermissions, Permissions, UserStatus
from borzoi.protocol.commands.streams import GetStreams
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    GetUsers,
    LoginUser,
    LogoutUser,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.testing.embedded import EmbeddedClient, EmbeddedServer

READS_STREAMS = Permissions(GlobalPermissions(read_streams=True))


async def test_root_logs_in_with_the_default_credentials(server: EmbeddedServer) -> None:
    client = server.connect()
    with pytest.raises(Unauthenticated):
        await client.call(GetUsers())
    assert (await client.call(LoginUser("iggy", "iggy"))).user_id == 0
    assert [user.username for user in (await client.call(GetUsers())).users] == ["iggy"]
    await client.call(LogoutUser())
    with pytest.raises(Unauthenticated):
        await client.call(GetUsers())


@pytest.mark.parametrize(
    ("username", "password"), [("iggy", "wrong"), ("nobody", "iggy"), ("0", "iggy")]
)
async def test_wrong_credentials_are_refused_alike(
    server: EmbeddedServer, username: str, password: str
) -> None:
    refusal = InvalidUsername if len(username) < 3 else InvalidCredentials
    with pytest.raises(refusal):
        await server.connect().call(LoginUser(username, password))


async def test_a_user_may_what_its_permissions_say(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    created = await root.call(CreateUser("bob", "secret", permissions=READS_STREAMS))
    assert (created.id, created.permissions) == (1, READS_STREAMS)
    bob = server.connect()
    await bob.call(LoginUser("bob", "secret"))
    await bob.call(GetStreams())
    assert (await bob.call(GetUser("bob"))).username == "bob"
    with pytest.raises(Unauthorized):
        await bob.call(GetUser("iggy"))
    await root.call(UpdatePermissions("bob", None))
    with pytest.raises(Unauthorized):
        await bob.call(GetStreams())


async def test_names_and_passwords_have_bounds(root: EmbeddedClient) -> None:
    with pytest.raises(InvalidUsername):
        await root.call(CreateUser("bo", "secret"))
    with pytest.raises(InvalidPassword):
        await root.call(CreateUser("bob", "no"))
    with pytest.raises(UserNameTaken):
        await root.call(CreateUser("iggy", "secret"))


async def test_a_password_is_changed_by_who_knows_it(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(CreateUser("bob", "secret"))
    bob = server.connect()
    await bob.call(LoginUser("bob", "secret"))
    with pytest.raises(InvalidCredentials):
        await bob.call(ChangePassword("bob", "guess", "secret2"))
    await bob.call(ChangePassword("bob", "secret", "secret2"))
    with pytest.raises(InvalidCredentials):
        await server.connect().call(LoginUser("bob", "secret"))
    await server.connect().call(LoginUser("bob", "secret2"))


async def test_sessions_end_with_their_user(root: EmbeddedClient, server: EmbeddedServer) -> None:
    await root.call(CreateUser("bob", "secret"))
    await root.call(CreateUser("eve", "secret"))
    bob, eve = server.connect(), server.connect()
    await bob.call(LoginUser("bob", "secret"))
    await eve.call(LoginUser("eve", "secret"))
    await root.call(DeleteUser("bob"))
    await root.call(UpdateUser("eve", status=UserStatus.INACTIVE))
    assert bob.hung_up
    assert eve.hung_up
    assert not root.hung_up
    with pytest.raises(UserInactive):
        await server.connect().call(LoginUser("eve", "secret"))


async def test_root_cannot_be_deleted_or_restricted(root: EmbeddedClient) -> None:
    with pytest.raises(CannotDeleteRoot):
        await root.call(DeleteUser("iggy"))
    with pytest.raises(CannotChangeRootPermissions):
        await root.call(UpdatePermissions("iggy", None))
