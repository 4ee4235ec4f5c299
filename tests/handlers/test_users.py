import asyncio
from pathlib import Path

import pytest
from tests.support.embedded import EmbeddedClient, EmbeddedServer, embedded_server

from borzoi.handlers.authentication import Authentication
from borzoi.metadata import snapshot
from borzoi.metadata.proposals import Proposal
from borzoi.metadata.sealed import SealedCreateUser
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
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.users import (
    ALL_PERMISSIONS,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    UserStatus,
)
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import users
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, GetStreams, UpdateStream
from borzoi.protocol.commands.tokens import CreatePersonalAccessToken
from borzoi.protocol.contract import Request, encode_payload
from borzoi.protocol.errors import code_of

READS_STREAMS = Permissions(GlobalPermissions(read_streams=True))


MANAGES_USERS = Permissions(GlobalPermissions(manage_users=True, read_users=True))


async def test_a_user_can_only_grant_permissions_that_it_has(server: EmbeddedServer) -> None:
    root = server.root()
    await root.call(users.CreateUser("manager", "secret", UserStatus.ACTIVE, MANAGES_USERS))
    await root.call(users.CreateUser("bob", "secret", UserStatus.ACTIVE, READS_STREAMS))
    manager = server.connect()
    await manager.call(users.LoginUser("manager", "secret"))
    for wanted in (ALL_PERMISSIONS, READS_STREAMS):
        with pytest.raises(Unauthorized):
            await manager.call(users.UpdatePermissions("manager", wanted))
        with pytest.raises(Unauthorized):
            await manager.call(users.CreateUser("eve", "secret", UserStatus.ACTIVE, wanted))
    await manager.call(users.UpdatePermissions("manager", MANAGES_USERS))
    await manager.call(users.UpdatePermissions("bob", READS_STREAMS))
    await manager.call(users.UpdatePermissions("bob", None))
    with pytest.raises(Unauthorized):
        await manager.call(users.UpdatePermissions("bob", READS_STREAMS))
    await manager.call(users.CreateUser("deputy", "secret", UserStatus.ACTIVE, MANAGES_USERS))


async def test_root_stays_active(server: EmbeddedServer) -> None:
    root, manager = server.root(), server.connect()
    await root.call(users.CreateUser("manager", "secret", UserStatus.ACTIVE, MANAGES_USERS))
    await manager.call(users.LoginUser("manager", "secret"))
    for client in (manager, root):
        with pytest.raises(Unauthorized):
            await client.call(users.UpdateUser(ROOT_USER_ID, status=UserStatus.INACTIVE))
    await root.call(users.UpdateUser("iggy", username="admin", status=UserStatus.ACTIVE))


async def test_root_logs_in_with_the_default_credentials(server: EmbeddedServer) -> None:
    client = server.connect()
    with pytest.raises(Unauthenticated):
        await client.call(users.GetUsers())
    assert (await client.call(users.LoginUser("iggy", "iggy"))).user_id == 0
    assert [user.username for user in (await client.call(users.GetUsers())).users] == ["iggy"]
    await client.call(users.LogoutUser())
    with pytest.raises(Unauthenticated):
        await client.call(users.GetUsers())


@pytest.mark.parametrize(
    ("username", "password"), [("iggy", "wrong"), ("nobody", "iggy"), ("0", "iggy")]
)
async def test_wrong_credentials_are_refused_alike(
    server: EmbeddedServer, username: str, password: str
) -> None:
    refusal = InvalidUsername if len(username) < 3 else InvalidCredentials
    with pytest.raises(refusal):
        await server.connect().call(users.LoginUser(username, password))


async def test_a_user_may_what_its_permissions_say(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    created = await root.call(users.CreateUser("bob", "secret", permissions=READS_STREAMS))
    assert (created.id, created.permissions) == (1, READS_STREAMS)
    bob = server.connect()
    await bob.call(users.LoginUser("bob", "secret"))
    await bob.call(GetStreams())
    assert (await bob.call(users.GetUser("bob"))).username == "bob"
    with pytest.raises(Unauthorized):
        await bob.call(users.GetUser("iggy"))
    await root.call(users.UpdatePermissions("bob", None))
    with pytest.raises(Unauthorized):
        await bob.call(GetStreams())


async def test_names_and_passwords_have_bounds(root: EmbeddedClient) -> None:
    with pytest.raises(InvalidUsername):
        await root.call(users.CreateUser("bo", "secret"))
    with pytest.raises(InvalidPassword):
        await root.call(users.CreateUser("bob", "no"))
    with pytest.raises(UserNameTaken):
        await root.call(users.CreateUser("iggy", "secret"))


async def test_a_password_is_changed_by_who_knows_it(
    root: EmbeddedClient, server: EmbeddedServer
) -> None:
    await root.call(users.CreateUser("bob", "secret"))
    bob = server.connect()
    await bob.call(users.LoginUser("bob", "secret"))
    with pytest.raises(InvalidCredentials):
        await bob.call(users.ChangePassword("bob", "guess", "secret2"))
    await bob.call(users.ChangePassword("bob", "secret", "secret2"))
    with pytest.raises(InvalidCredentials):
        await server.connect().call(users.LoginUser("bob", "secret"))
    await server.connect().call(users.LoginUser("bob", "secret2"))


async def test_sessions_end_with_their_user(root: EmbeddedClient, server: EmbeddedServer) -> None:
    await root.call(users.CreateUser("bob", "secret"))
    await root.call(users.CreateUser("eve", "secret"))
    bob, eve = server.connect(), server.connect()
    await bob.call(users.LoginUser("bob", "secret"))
    await eve.call(users.LoginUser("eve", "secret"))
    await root.call(users.DeleteUser("bob"))
    await root.call(users.UpdateUser("eve", status=UserStatus.INACTIVE))
    assert bob.hung_up
    assert eve.hung_up
    assert not root.hung_up
    with pytest.raises(UserInactive):
        await server.connect().call(users.LoginUser("eve", "secret"))


async def test_root_cannot_be_deleted_or_restricted(root: EmbeddedClient) -> None:
    with pytest.raises(CannotDeleteRoot):
        await root.call(users.DeleteUser("iggy"))
    with pytest.raises(CannotChangeRootPermissions):
        await root.call(users.UpdatePermissions("iggy", None))


async def during_the_check(
    monkeypatch: pytest.MonkeyPatch, server: EmbeddedServer, *requests: Request
) -> None:
    """Let root do these things while the next password is checked."""
    checked = Authentication.verify

    async def verify(self: Authentication, hashed: str | None, text: str, *, address: str) -> bool:
        monkeypatch.setattr(Authentication, "verify", checked)
        right = await checked(self, hashed, text, address=address)
        for request in requests:
            await server.root().call(request)
        return right

    monkeypatch.setattr(Authentication, "verify", verify)


async def test_a_login_does_not_outlive_its_user_nor_become_another_one(
    root: EmbeddedClient, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await root.call(users.CreateUser("bob", "secret"))
    await during_the_check(
        monkeypatch, server, users.DeleteUser("bob"), users.CreateUser("eve", "other-secret")
    )
    client = server.connect()
    with pytest.raises(InvalidCredentials):
        await client.call(users.LoginUser("bob", "secret"))
    assert client.session.user_id is None
    assert (await root.call(users.GetUser("eve"))).id == created.id


async def test_a_login_survives_a_reload_of_the_metadata(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does when the process that writes them is replaced."""
    metadata = server.services.metadata
    checked = Authentication.verify

    async def verify(self: Authentication, hashed: str | None, text: str, *, address: str) -> bool:
        right = await checked(self, hashed, text, address=address)
        metadata.state = snapshot.decode(snapshot.encode(metadata.state))
        return right

    monkeypatch.setattr(Authentication, "verify", verify)
    client = server.connect()
    await client.call(users.LoginUser("iggy", "iggy"))
    assert client.session.user_id == ROOT_USER_ID


async def test_a_login_with_a_password_that_was_just_changed_is_refused(
    root: EmbeddedClient, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await root.call(users.CreateUser("bob", "secret"))
    await during_the_check(monkeypatch, server, users.ChangePassword("bob", "secret", "changed"))
    with pytest.raises(InvalidCredentials):
        await server.connect().call(users.LoginUser("bob", "secret"))


async def test_a_password_is_not_changed_for_who_got_the_number_of_a_deleted_user(
    root: EmbeddedClient, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await root.call(users.CreateUser("bob", "secret"))
    await during_the_check(
        monkeypatch, server, users.DeleteUser("bob"), users.CreateUser("eve", "other-secret")
    )
    with pytest.raises(InvalidCredentials):
        await root.call(users.ChangePassword(1, "secret", "known-to-bob"))
    assert (await server.connect().call(users.LoginUser("eve", "other-secret"))).user_id == 1


async def at_once(server: EmbeddedServer, client: EmbeddedClient, *turns: Request) -> int:
    """The status of the last request, the client's, while all before it, root's, still wait for
    their turn or the disk."""
    root = server.root()
    async with asyncio.TaskGroup() as waiting:
        for request in turns[:-1]:
            waiting.create_task(root.call(request))
        asked = waiting.create_task(client.exchange(int(turns[-1].CODE), encode_payload(turns[-1])))
    return asked.result()[0]


async def test_a_permission_is_asked_for_again_when_the_turn_of_a_change_comes(
    tmp_path: Path,
) -> None:
    async with embedded_server(tmp_path, {"SYSTEM_STATE_ENFORCE_FSYNC": "true"}) as server:
        root = server.root()
        for name in ("a", "b"):
            await root.call(CreateStream(name))
        only_a = Permissions(streams={0: StreamPermissions(manage_stream=True)})
        await root.call(users.CreateUser("bob", "secret", permissions=only_a))
        bob = server.connect(user_id=1)
        denied = code_of(Unauthorized(""))
        # The name is another stream's by then.
        renamed = (UpdateStream("a", "c"), UpdateStream("b", "a"))
        assert await at_once(server, bob, *renamed, DeleteStream("a")) == denied
        # The permission is gone by then.
        revoked = users.UpdatePermissions("bob", None)
        assert await at_once(server, bob, revoked, DeleteStream("c")) == denied
        # The number is another stream's by then.
        await root.call(users.UpdatePermissions("bob", only_a))
        replaced = (DeleteStream(0), CreateStream("new"))
        assert await at_once(server, bob, *replaced, DeleteStream(0)) == denied
        assert [one.name for one in (await root.call(GetStreams())).streams] == ["new", "a"]


@pytest.mark.parametrize(
    "ending", [users.DeleteUser("carl"), users.UpdateUser("carl", status=UserStatus.INACTIVE)]
)
async def test_what_a_user_began_ends_with_it_also_when_its_connection_went_before(
    root: EmbeddedClient, server: EmbeddedServer, ending: Request
) -> None:
    manages = Permissions(GlobalPermissions(manage_users=True))
    await root.call(users.CreateUser("carl", "secret", permissions=manages))
    carl = server.connect(user_id=1)
    request = users.CreateUser("ghost", "secret", permissions=manages)
    asked = asyncio.create_task(carl.exchange(int(request.CODE), encode_payload(request)))
    await asyncio.sleep(0)  # its password is being hashed
    await carl.disconnect()
    await root.call(ending)
    assert (await asked)[0] == code_of(Unauthenticated(""))
    assert [one.username for one in (await root.call(users.GetUsers())).users][-1] != "ghost"


async def test_what_a_deleted_user_asked_for_is_not_done_in_another_ones_name(
    tmp_path: Path,
) -> None:
    # Each change waits for the disk, so those that follow wait for their turn.
    async with embedded_server(tmp_path, {"SYSTEM_STATE_ENFORCE_FSYNC": "true"}) as server:
        created = await server.root().call(users.CreateUser("bob", "secret"))
        bob = server.connect()
        await bob.call(users.LoginUser("bob", "secret"))
        plane = server.services.metadata
        token = encode_payload(CreatePersonalAccessToken("mine", 0))
        async with asyncio.TaskGroup() as at_once:
            at_once.create_task(plane.submit(Proposal(users.DeleteUser("bob"), ROOT_USER_ID)))
            at_once.create_task(
                plane.submit(Proposal(SealedCreateUser("eve", "hash"), ROOT_USER_ID))
            )
            asked = at_once.create_task(bob.exchange(Code.CREATE_PERSONAL_ACCESS_TOKEN, token))
        assert asked.result()[0] == code_of(Unauthenticated(""))
        assert plane.state.users[created.id].username == "eve"
        assert not plane.state.users[created.id].tokens
