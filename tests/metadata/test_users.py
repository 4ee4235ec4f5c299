import pytest

from borzoi.metadata.effects import ApplyResult, DroppedUser
from borzoi.metadata.sealed import (
    SealedChangePassword,
    SealedCreatePersonalAccessToken,
    SealedCreateUser,
)
from borzoi.metadata.state import Metadata, User
from borzoi.metadata.users import (
    check_username,
    check_username_is_free,
    create_user,
    root_creation,
)
from borzoi.model.errors import (
    CannotChangeRootPermissions,
    CannotDeleteRoot,
    InvalidUsername,
    ResourceNotFound,
    UserNameTaken,
    UsersLimitReached,
)
from borzoi.model.limits import USERS_MAX
from borzoi.model.users import ALL_PERMISSIONS, GlobalPermissions, Permissions, UserStatus
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions, UpdateUser, UserDetails

READS_USERS = Permissions(GlobalPermissions(read_users=True))


def test_the_first_user_is_root_with_every_permission(control):
    assert control.state.users[0] == User(
        0, "iggy", "hash of root", UserStatus.ACTIVE, ALL_PERMISSIONS, created_at=1, birth=1
    )


def test_the_first_user_cannot_be_less_than_root():
    with pytest.raises(CannotChangeRootPermissions):
        create_user(Metadata(), SealedCreateUser("bob", "h"), 1)
    create_user(Metadata(), root_creation("bob", "h"), 1)


def test_users_are_numbered_after_root(control):
    command = SealedCreateUser("bob", "hash", UserStatus.INACTIVE, READS_USERS)
    outcome = control.do(command)
    assert outcome == ApplyResult(
        UserDetails(1, control.now, UserStatus.INACTIVE, "bob", READS_USERS)
    )
    assert control.state.users[1] == User(
        1, "bob", "hash", UserStatus.INACTIVE, READS_USERS, created_at=control.now, birth=2
    )


@pytest.mark.parametrize("name", ["ab", "n" * 51, "é" * 26, ""])
def test_a_name_too_short_or_too_long_is_refused(control, name):
    with pytest.raises(InvalidUsername):
        check_username(name)
    control.refuse(InvalidUsername, SealedCreateUser(name, "h"))
    control.refuse(InvalidUsername, UpdateUser(0, name))


@pytest.mark.parametrize("name", ["abc", "n" * 50, "777"])
def test_a_name_within_bounds_is_taken_as_it_is(control, name):
    control.do(SealedCreateUser(name, "h"))
    assert control.state.users[1].username == name


def test_a_taken_name_is_refused_case_by_case(control):
    control.do(SealedCreateUser("bob", "h"))
    control.refuse(UserNameTaken, SealedCreateUser("bob", "h"))
    control.do(SealedCreateUser("Bob", "h"))
    with pytest.raises(UserNameTaken):
        check_username_is_free(control.state, "Bob")


def test_ids_end_before_the_value_that_means_no_user(control, monkeypatch):
    assert USERS_MAX == 2**32 - 2
    monkeypatch.setattr("borzoi.metadata.users.USERS_MAX", 2)
    control.do(SealedCreateUser("bob", "h"))
    control.refuse(UsersLimitReached, SealedCreateUser("eve", "h"))


def test_freed_ids_come_back_most_recent_first(control):
    for name in ("bob", "Bob", "eve", "kim"):
        control.do(SealedCreateUser(name, "h"))
    control.do(DeleteUser("Bob"))
    control.do(DeleteUser(3))
    assert control.do(SealedCreateUser("again", "h")).created_id == 3
    assert control.do(SealedCreateUser("again2", "h")).created_id == 2


def test_an_update_changes_what_it_names_and_nothing_else(control):
    control.do(SealedCreateUser("bob", "h"))
    user = control.state.users[1]
    assert control.do(UpdateUser("bob", "bobby")) == ApplyResult()
    assert (user.username, user.status) == ("bobby", UserStatus.ACTIVE)
    assert control.do(UpdateUser("bobby")) == ApplyResult()
    assert control.do(UpdateUser(1, "bobby", UserStatus.ACTIVE)) == ApplyResult()
    assert control.state.users.ids == {"iggy": 0, "bobby": 1}


def test_deactivation_ends_sessions_once(control):
    control.do(SealedCreateUser("bob", "h"))
    inactive = UpdateUser(1, None, UserStatus.INACTIVE)
    assert control.do(inactive).effects == (DroppedUser(1),)
    assert control.do(inactive).effects == ()
    assert control.do(UpdateUser(1, None, UserStatus.ACTIVE)).effects == ()
    assert control.state.users[1].status is UserStatus.ACTIVE


def test_renaming_to_a_taken_name_is_refused(control):
    control.do(SealedCreateUser("bob", "h"))
    control.refuse(UserNameTaken, UpdateUser("bob", "iggy"))


def test_permissions_are_replaced_or_removed(control):
    control.do(SealedCreateUser("bob", "h"))
    control.do(UpdatePermissions("bob", READS_USERS))
    assert control.state.users[1].permissions == READS_USERS
    control.do(UpdatePermissions(1, None))
    assert control.state.users[1].permissions is None


def test_root_can_be_renamed_but_not_restricted_or_deleted(control):
    control.do(UpdateUser(0, "admin"))
    control.refuse(CannotChangeRootPermissions, UpdatePermissions(0, None))
    control.refuse(CannotChangeRootPermissions, UpdatePermissions("admin", ALL_PERMISSIONS))
    control.refuse(CannotDeleteRoot, DeleteUser("admin"))
    control.refuse(CannotDeleteRoot, DeleteUser(0))


def test_a_changed_password_replaces_the_hash_and_ends_no_session(control):
    assert control.do(SealedChangePassword("iggy", "another")) == ApplyResult()
    assert control.state.users[0].password_hash == "another"


def test_a_deleted_user_takes_the_tokens_along(control):
    control.do(SealedCreateUser("bob", "h"))
    control.do(SealedCreatePersonalAccessToken("token", "abc"), user_id=1)
    assert control.do(DeleteUser("bob")).effects == (DroppedUser(1),)
    assert control.state.token_owners == {}


@pytest.mark.parametrize(
    "command",
    [
        DeleteUser("nobody"),
        UpdateUser(55, "xyz"),
        UpdatePermissions("nobody", None),
        SealedChangePassword(55, "h"),
    ],
)
def test_a_missing_user_is_not_found(control, command):
    control.refuse(ResourceNotFound, command)
