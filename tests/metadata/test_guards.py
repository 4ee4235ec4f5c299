"""Each guard holds, and stops holding for the reason it exists."""

import pytest

from borzoi.metadata.guards import (
    Allowed,
    CallerIs,
    GroupIs,
    Guard,
    IsNotRoot,
    MayGrant,
    UserIs,
    check,
)
from borzoi.metadata.permissions import Rule
from borzoi.metadata.sealed import SealedCreateUser
from borzoi.metadata.state import GroupAddress
from borzoi.model.errors import (
    BorzoiError,
    GroupNotFound,
    InvalidCredentials,
    StreamNotFound,
    TopicNotFound,
    Unauthenticated,
    Unauthorized,
)
from borzoi.model.users import ALL_PERMISSIONS, GlobalPermissions, Permissions, UserStatus
from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.streams import CreateStream, UpdateStream
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions, UpdateUser


def refuses(control, guard: Guard, error: type[BorzoiError], caller_id: int = 0) -> None:
    with pytest.raises(error):
        check(control.state, guard, caller_id=caller_id)


def test_a_caller_that_was_deleted_is_refused_also_when_its_id_has_a_new_user(control):
    control.do(SealedCreateUser("bob", "hash"))
    bob = CallerIs(control.state.users[1].birth)
    check(control.state, bob, caller_id=1)
    control.do(DeleteUser("bob"))
    refuses(control, bob, Unauthenticated, caller_id=1)
    control.do(SealedCreateUser("eve", "hash"))
    refuses(control, bob, Unauthenticated, caller_id=1)


def test_an_inactive_caller_is_refused(control):
    control.do(SealedCreateUser("bob", "hash"))
    bob = CallerIs(control.state.users[1].birth)
    control.do(UpdateUser("bob", status=UserStatus.INACTIVE))
    refuses(control, bob, Unauthenticated, caller_id=1)


def test_a_permission_is_looked_up_where_the_names_lead_now(control):
    control.topic(1)
    control.do(SealedCreateUser("bob", "hash"))
    for guard in (Allowed(Rule.SERVER_INFO), Allowed(Rule.MANAGE_TOPIC, "s", "t")):
        check(control.state, guard, caller_id=0)
        refuses(control, guard, Unauthorized, caller_id=1)
        refuses(control, guard, Unauthorized, caller_id=9)
    control.do(UpdateStream("s", "renamed"))
    refuses(control, Allowed(Rule.MANAGE_TOPIC, "s", "t"), StreamNotFound)
    control.do(CreateStream("s"))
    refuses(control, Allowed(Rule.MANAGE_TOPIC, "s", "t"), TopicNotFound)
    check(control.state, Allowed(Rule.MANAGE_STREAM, "s"), caller_id=0)


def test_the_user_whose_password_was_checked_is_still_that_user(control):
    control.do(SealedCreateUser("bob", "hash"))
    bob = UserIs(1, control.state.users[1].birth)
    check(control.state, bob, caller_id=0)
    control.do(DeleteUser("bob"))
    refuses(control, bob, InvalidCredentials)
    control.do(SealedCreateUser("eve", "hash"))
    refuses(control, bob, InvalidCredentials)


def test_a_permission_withdrawn_before_its_turn_cannot_be_granted(control):
    some = Permissions(GlobalPermissions(manage_users=True))
    control.do(SealedCreateUser("bob", "hash", permissions=some))
    for guard in (MayGrant(some), MayGrant(some, "bob"), MayGrant(None)):
        check(control.state, guard, caller_id=1)
    refuses(control, MayGrant(ALL_PERMISSIONS, "bob"), Unauthorized, caller_id=1)
    control.do(UpdatePermissions("bob", None))
    refuses(control, MayGrant(some), Unauthorized, caller_id=1)
    refuses(control, MayGrant(some), Unauthorized, caller_id=9)
    check(control.state, MayGrant(ALL_PERMISSIONS), caller_id=0)


def test_a_name_that_became_roots_before_its_turn_came_is_not_deactivated(control):
    control.do(SealedCreateUser("bob", "hash"))
    check(control.state, IsNotRoot("bob"), caller_id=0)
    refuses(control, IsNotRoot(0), Unauthorized)


def test_a_group_that_was_deleted_is_not_the_next_one_with_its_id(control):
    control.topic(1)
    group = control.state.streams[0].topics[0].groups[0]
    guard = GroupIs(0, 0, 0, group.birth)
    assert guard.address == GroupAddress(0, 0, 0)
    check(control.state, guard, caller_id=0)
    control.do(DeleteConsumerGroup("s", "t", "g"))
    refuses(control, guard, GroupNotFound)
    control.do(CreateConsumerGroup("s", "t", "other"))
    refuses(control, guard, GroupNotFound)
