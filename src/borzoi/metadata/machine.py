"""Applies entries: every change of the metadata is one entry applied here.

An entry is checked completely before anything changes, so a rejected one has no effect. The result
depends only on the state and the entry, so every shard and every replay that applies the same
entries in the same order, rejected ones included, reaches the same state.
"""

from typing import assert_never

from borzoi.metadata import groups, partitions, streams, tokens, topics, users
from borzoi.metadata.commands import Command, LoggedCommand
from borzoi.metadata.effects import ApplyResult, Change
from borzoi.metadata.guards import Guard, check
from borzoi.metadata.sealed import (
    SealedChangePassword,
    SealedCreatePersonalAccessToken,
    SealedCreateUser,
)
from borzoi.metadata.state import Metadata
from borzoi.metadata.tokens import ExpireTokens
from borzoi.model.value import Value
from borzoi.protocol.commands.groups import CreateConsumerGroup, DeleteConsumerGroup
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from borzoi.protocol.commands.tokens import DeletePersonalAccessToken
from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic, UpdateTopic
from borzoi.protocol.commands.users import DeleteUser, UpdatePermissions, UpdateUser


class Entry(Value):
    """A command, the user it comes from, its time (µs since the epoch), and its preconditions.

    The state log keeps no guards: an entry in it has passed them.
    """

    at: int
    user_id: int
    command: Command
    guards: tuple[Guard, ...] = ()


def apply(state: Metadata, entry: Entry) -> ApplyResult:
    """Changes the state as the entry says; raises a `BorzoiError`, and changes nothing, if it
    may not."""
    return _checked(state, entry)()


def verify(state: Metadata, entry: Entry) -> None:
    """Raises what `apply` would raise now; for refusing a command before it is logged."""
    _checked(state, entry)


def _checked(state: Metadata, entry: Entry) -> Change:
    at, user_id, command = entry.at, entry.user_id, entry.command
    for guard in entry.guards:
        check(state, guard, caller_id=user_id)
    if isinstance(command, groups.VolatileCommand):
        return _checked_volatile(state, command, at)
    return _checked_logged(state, command, at, user_id)


def _checked_logged(state: Metadata, command: LoggedCommand, at: int, user_id: int) -> Change:
    match command:
        case CreateStream():
            return streams.create_stream(state, command, at)
        case UpdateStream():
            return streams.update_stream(state, command)
        case DeleteStream():
            return streams.delete_stream(state, command)
        case PurgeStream():
            return streams.purge_stream(state, command)
        case CreateTopic():
            return topics.create_topic(state, command, at)
        case UpdateTopic():
            return topics.update_topic(state, command)
        case DeleteTopic():
            return topics.delete_topic(state, command)
        case PurgeTopic():
            return topics.purge_topic(state, command)
        case CreatePartitions():
            return partitions.create_partitions(state, command, at)
        case DeletePartitions():
            return partitions.delete_partitions(state, command)
        case CreateConsumerGroup():
            return groups.create_group(state, command)
        case DeleteConsumerGroup():
            return groups.delete_group(state, command)
        case SealedCreateUser():
            return users.create_user(state, command, at)
        case UpdateUser():
            return users.update_user(state, command)
        case UpdatePermissions():
            return users.update_permissions(state, command)
        case SealedChangePassword():
            return users.change_password(state, command)
        case DeleteUser():
            return users.delete_user(state, command)
        case SealedCreatePersonalAccessToken():
            return tokens.create_token(state, command, user_id)
        case DeletePersonalAccessToken():
            return tokens.delete_token(state, command, user_id)
        case ExpireTokens():
            return tokens.expire_tokens(state, command)
        case _:
            assert_never(command)


def _checked_volatile(state: Metadata, command: groups.VolatileCommand, at: int) -> Change:
    match command:
        case groups.JoinGroup():
            return groups.join_group(state, command, at)
        case groups.LeaveGroup():
            return groups.leave_group(state, command)
        case groups.ClientGone():
            return groups.client_gone(state, command)
        case groups.CompleteRevocation():
            return groups.complete_revocation(state, command)
        case groups.ExpireRevocations():
            return groups.expire_revocations(state, command)
        case _:
            assert_never(command)
