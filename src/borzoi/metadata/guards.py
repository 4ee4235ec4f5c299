"""Preconditions of a change, as values.

A change waits for its turn. Until then its author can be deleted, a permission withdrawn, or an id
given out again. A proposal names what must still hold, and `check` raises where it no longer does.
Guards are plain values, so a proposal can cross to the process that applies it, and every replica
that applies it reaches the same verdict.
"""

from typing import TypeAlias, assert_never

from borzoi.metadata import queries
from borzoi.metadata.permissions import Rule, allows, covers
from borzoi.metadata.state import GroupAddress, Metadata, Stream, Topic
from borzoi.model.errors import GroupNotFound, InvalidCredentials, Unauthenticated, Unauthorized
from borzoi.model.identifiers import ROOT_USER_ID, Identifier
from borzoi.model.users import Permissions, UserStatus
from borzoi.model.value import Value


class CallerIs(Value, tag=True):
    """The user that proposed the change still exists and is active."""

    birth: int


class Allowed(Value, tag=True):
    """The user that proposed the change has the permission for what the identifiers name now."""

    rule: Rule
    stream_id: Identifier | None = None
    topic_id: Identifier | None = None


class UserIs(Value, tag=True):
    """The id still belongs to the user whose password was checked."""

    user_id: int
    birth: int


class GroupIs(Value, tag=True):
    """The id still belongs to the group that was named."""

    stream_id: int
    topic_id: int
    group_id: int
    birth: int

    @property
    def address(self) -> GroupAddress:
        return GroupAddress(self.stream_id, self.topic_id, self.group_id)


class MayGrant(Value, tag=True):
    """The user that proposed the change has all permissions that it grants."""

    permissions: Permissions | None
    #: Who gets them; what this user has already is not given away.
    user_id: Identifier | None = None


class IsNotRoot(Value, tag=True):
    """The identifier leads to another user than root."""

    user_id: Identifier


Guard: TypeAlias = CallerIs | Allowed | UserIs | GroupIs | MayGrant | IsNotRoot


def check(state: Metadata, guard: Guard, *, caller_id: int) -> None:
    """Raises unless the guard holds for a change that the caller proposes."""
    match guard:
        case CallerIs(birth):
            caller = state.users.get(caller_id)
            if caller is None or caller.birth != birth or caller.status is not UserStatus.ACTIVE:
                raise Unauthenticated(f"user {caller_id} was deleted or is inactive")
        case Allowed():
            permit(state, guard, caller_id=caller_id)
        case UserIs(user_id, birth):
            user = state.users.get(user_id)
            if user is None or user.birth != birth:
                raise InvalidCredentials(f"user {user_id} was deleted")
        case GroupIs(stream_id, topic_id, group_id, birth):
            group = queries.group(state, stream_id, topic_id, group_id)
            if group.birth != birth:
                raise GroupNotFound(f"group {group_id} of topic {topic_id} was deleted")
        case MayGrant(permissions, user_id):
            already = None if user_id is None else queries.user(state, user_id).permissions
            caller = state.users.get(caller_id)
            if caller is None or not covers(caller.permissions, permissions, already):
                raise Unauthorized("a user can grant only permissions that it has itself")
        case IsNotRoot(user_id):
            if queries.user(state, user_id).id == ROOT_USER_ID:
                raise Unauthorized("root stays active: no user could activate it again")
        case _:
            assert_never(guard)


def permit(
    state: Metadata, guard: Allowed, *, caller_id: int
) -> tuple[Stream | None, Topic | None]:
    """The stream and topic that the guard names; raises unless the caller has the permission."""
    # Resolved before the permission is checked: clients distinguish missing from denied.
    stream = topic = stream_id = topic_id = None
    if guard.stream_id is not None:
        stream = queries.stream(state, guard.stream_id)
        stream_id = stream.id
        if guard.topic_id is not None:
            topic = queries.topic_of(stream, guard.topic_id)
            topic_id = topic.id
    caller = state.users.get(caller_id)
    permissions = None if caller is None else caller.permissions
    if not allows(guard.rule, permissions, stream_id, topic_id):
        raise Unauthorized(f"user {caller_id} lacks the permission {guard.rule.name}")
    return stream, topic
