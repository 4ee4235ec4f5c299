"""Users: list, create, change, log in. Passwords are hashed before anything is logged."""

from collections.abc import Coroutine
from typing import Any

from borzoi.handlers.call import Call
from borzoi.metadata import queries
from borzoi.metadata.effects import Created
from borzoi.metadata.guards import IsNotRoot, MayGrant, UserIs
from borzoi.metadata.permissions import covers
from borzoi.metadata.sealed import SealedChangePassword, SealedCreateUser
from borzoi.metadata.state import User
from borzoi.metadata.users import check_username, check_username_is_free
from borzoi.model.errors import InvalidCredentials, Unauthorized, UserInactive
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.users import Permissions, UserStatus
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    GetUser,
    GetUsers,
    Identity,
    LoginUser,
    LogoutUser,
    UpdatePermissions,
    UpdateUser,
    UserDetails,
    UserInfo,
    Users,
)
from borzoi.security.passwords import check_password


def get_user(request: GetUser, call: Call) -> UserDetails:
    return user_details(queries.user(call.state, request.user_id))


def get_users(request: GetUsers, call: Call) -> Users:
    return Users(
        tuple(
            UserInfo(user.id, user.created_at, user.status, user.username)
            for user in call.state.users.in_order()
        )
    )


def user_details(user: User) -> UserDetails:
    return UserDetails(user.id, user.created_at, user.status, user.username, user.permissions)


async def create_user(request: CreateUser, call: Call) -> Created:
    check_username(request.username)
    check_password(request.password)
    # Checked before the password is hashed, which takes long.
    check_username_is_free(call.state, request.username)
    check_grant(call, request.permissions)
    hashed = await call.services.authentication.hash(request.password)
    check_grant(call, request.permissions)
    sealed = SealedCreateUser(request.username, hashed, request.status, request.permissions)
    return await call.create(sealed, MayGrant(request.permissions))


def check_grant(call: Call, wanted: Permissions | None, already: Permissions | None = None) -> None:
    """Raises `Unauthorized` when the caller would grant more than it has: a user that manages users
    would have every permission otherwise. What the user has `already` is not a new grant."""
    caller = call.caller
    if caller is None or not covers(caller.permissions, wanted, already):
        raise Unauthorized("a user can grant only permissions that it has itself")


async def update_user(request: UpdateUser, call: Call) -> None:
    user = queries.user(call.state, request.user_id)
    if request.status is not UserStatus.INACTIVE:
        await call.submit(request)
        return
    if user.id == ROOT_USER_ID:
        raise Unauthorized("root stays active: no user could activate it again")
    # The name may be that of root by the time its turn comes.
    await call.submit(request, IsNotRoot(request.user_id))


async def update_permissions(request: UpdatePermissions, call: Call) -> None:
    user = queries.user(call.state, request.user_id)
    check_grant(call, request.permissions, user.permissions)
    granted = MayGrant(request.permissions, user.id)
    await call.submit(request, UserIs(user.id, user.birth), granted)


async def change_password(request: ChangePassword, call: Call) -> None:
    check_password(request.current_password)
    check_password(request.new_password)
    user = queries.user(call.state, request.user_id)
    authentication = call.services.authentication
    right = await authentication.verify(
        user.password_hash, request.current_password, address=call.session.address
    )
    if not right:
        raise InvalidCredentials("the current password is wrong")
    hashed = await authentication.hash(request.new_password)
    # Ids of deleted users are reused, and hashing takes a while.
    await call.submit(SealedChangePassword(user.id, hashed), UserIs(user.id, user.birth))


def login_user(request: LoginUser, call: Call) -> Coroutine[Any, Any, Identity]:
    check_username(request.username)
    check_password(request.password)
    # A login may be queued for long: keep only what it needs in memory meanwhile.
    return _log_in(request.username, request.password, call)


async def _log_in(username: str, password: str, call: Call) -> Identity:
    # By name only: a name of digits is not an id.
    user = call.state.users.named(username)
    hashed = None if user is None else user.password_hash
    call.session.login_pending = True
    try:
        right = await call.services.authentication.verify(
            hashed, password, address=call.session.address
        )
    finally:
        call.session.login_pending = False
    # While the password was checked the user may have been deleted, and its number given to
    # another one, or the password changed. The state may also be another copy of the same.
    now = None if user is None else call.state.users.get(user.id)
    if (
        user is None
        or now is None
        or not right
        or now.birth != user.birth
        or now.password_hash != hashed
    ):
        raise InvalidCredentials("user name and password do not match")
    return logged_in(now, call, token_hash=None)


def logged_in(user: User, call: Call, *, token_hash: str | None) -> Identity:
    """Log the session in as the user."""
    if user.status is not UserStatus.ACTIVE:
        raise UserInactive(f"user {user.username!r} is inactive")
    call.session.user_id = user.id
    call.session.token_hash = token_hash
    return Identity(user.id)


def logout_user(request: LogoutUser, call: Call) -> None:
    call.session.user_id = None
    call.session.token_hash = None
