"""What the commands about users do to the state.

The first user is root: it has every permission, and neither can it lose one nor be deleted.
Passwords arrive hashed.
"""

from borzoi.metadata import queries
from borzoi.metadata.effects import ApplyResult, Change, DroppedUser
from borzoi.metadata.grants import by_id
from borzoi.metadata.sealed import SealedChangePassword, SealedCreateUser
from borzoi.metadata.state import Metadata, User
from borzoi.model.errors import (
    CannotChangeRootPermissions,
    CannotDeleteRoot,
    InvalidUsername,
    UserNameTaken,
    UsersLimitReached,
)
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.limits import USERNAME_BYTES_MAX, USERNAME_BYTES_MIN, USERS_MAX
from borzoi.model.users import ALL_PERMISSIONS, UserStatus
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions, UpdateUser, UserDetails


def check_username(username: str) -> None:
    """Raises `InvalidUsername` when the name is too short or too long."""
    if not USERNAME_BYTES_MIN <= len(username.encode()) <= USERNAME_BYTES_MAX:
        raise InvalidUsername(
            f"a user name has {USERNAME_BYTES_MIN} to {USERNAME_BYTES_MAX} bytes: {username!r}"
        )


def check_username_is_free(state: Metadata, username: str) -> None:
    """Raises `UserNameTaken`; worth asking before a password is hashed for nothing."""
    if username in state.users.ids:
        raise UserNameTaken(f"user {username!r} exists already")


def root_creation(username: str, password_hash: str) -> SealedCreateUser:
    """The command that creates root; it has to be the first about users."""
    return SealedCreateUser(username, password_hash, permissions=ALL_PERMISSIONS)


def create_user(state: Metadata, command: SealedCreateUser, at: int) -> Change:
    check_username(command.username)
    check_username_is_free(state, command.username)
    if len(state.users) >= USERS_MAX:
        raise UsersLimitReached(f"there are {USERS_MAX} users, which is as many as have ids")
    if not state.users and command.permissions != ALL_PERMISSIONS:
        raise CannotChangeRootPermissions("the first user is root and has every permission")

    def change() -> ApplyResult:
        user = User(
            state.users.next_id,
            command.username,
            command.password_hash,
            command.status,
            by_id(command.permissions),
            at,
            birth=state.next_birth(),
        )
        state.users.add(user.username, user)
        details = UserDetails(user.id, at, user.status, user.username, user.permissions)
        return ApplyResult(details)

    return change


def update_user(state: Metadata, command: UpdateUser) -> Change:
    user = queries.user(state, command.user_id)
    username = user.username if command.username is None else command.username
    check_username(username)
    if username != user.username:
        check_username_is_free(state, username)

    def change() -> ApplyResult:
        state.users.rename(user.username, username)
        user.username = username
        was_active = user.status is UserStatus.ACTIVE
        if command.status is not None:
            user.status = command.status
        if was_active and user.status is UserStatus.INACTIVE:
            return ApplyResult(effects=(DroppedUser(user.id),))
        return ApplyResult()

    return change


def update_permissions(state: Metadata, command: UpdatePermissions) -> Change:
    user = queries.user(state, command.user_id)
    if user.id == ROOT_USER_ID:
        raise CannotChangeRootPermissions("root keeps every permission")

    def change() -> ApplyResult:
        user.permissions = by_id(command.permissions)
        return ApplyResult()

    return change


def change_password(state: Metadata, command: SealedChangePassword) -> Change:
    user = queries.user(state, command.user_id)

    def change() -> ApplyResult:
        user.password_hash = command.password_hash
        return ApplyResult()

    return change


def delete_user(state: Metadata, command: DeleteUser) -> Change:
    user = queries.user(state, command.user_id)
    if user.id == ROOT_USER_ID:
        raise CannotDeleteRoot("root cannot be deleted")

    def change() -> ApplyResult:
        for token in user.tokens.values():
            del state.token_owners[token.token_hash]
        state.users.remove(user.username)
        return ApplyResult(effects=(DroppedUser(user.id),))

    return change
