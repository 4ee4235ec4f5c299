"""The commands of this server: one row each.

`scope` is the stream and topic of the request, `rule` the permission it needs, `validate` checks
the request alone before anything is looked up (its faults come first, as recorded), and `run` does
the work: at once, or as a coroutine if it has to wait.
"""

from collections.abc import Callable
from typing import Any

from borzoi.handlers import (
    changes,
    groups,
    messages,
    offsets,
    segments,
    streams,
    system,
    tokens,
    topics,
    users,
)
from borzoi.handlers.call import Call
from borzoi.handlers.scopes import (
    Scope,
    everywhere,
    partition_of,
    stream_of,
    topic_of,
    user_unless_own,
)
from borzoi.handlers.validating import partitions_counted, unchecked
from borzoi.metadata.permissions import Rule
from borzoi.model.value import Value
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PollMessages, SendMessages
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.segments import DeleteSegments
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    UpdateStream,
)
from borzoi.protocol.commands.system import (
    GetClient,
    GetClients,
    GetClusterMetadata,
    GetMe,
    GetSnapshot,
    GetStats,
    Ping,
)
from borzoi.protocol.commands.tokens import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.topics import (
    CreateTopic,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    UpdateTopic,
)
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


class Row(Value):
    """One command: its shape, the permission it needs, and what it does."""

    request: Any
    rule: Rule
    scope: Callable[[Any, Call], Scope]
    run: Callable[[Any, Call], Any]
    validate: Callable[[Any], Any] = unchecked
    #: The binary protocol answers `NotFound` with an empty payload instead of an error.
    missing_is_empty: bool = False
    #: It hashes a password, which is slow and is cancelled when the client disconnects.
    hashes: bool = False
    #: It may wait for messages; the wait is cancelled when the client disconnects.
    waits: bool = False


# fmt: off
COMMANDS: tuple[Row, ...] = (
    Row(Ping,                         Rule.ANYONE,         everywhere, system.ping),
    Row(GetStats,                     Rule.SERVER_INFO,    everywhere, system.get_stats),
    Row(GetSnapshot,                  Rule.SERVER_INFO,    everywhere, system.get_snapshot),
    Row(GetClusterMetadata,           Rule.LOGGED_IN,      everywhere, system.get_cluster_metadata),
    Row(GetMe,                        Rule.LOGGED_IN,      everywhere, system.get_me),
    Row(GetClient,                    Rule.SERVER_INFO,    everywhere, system.get_client,
        missing_is_empty=True),
    Row(GetClients,                   Rule.SERVER_INFO,    everywhere, system.get_clients),

    Row(GetUser,                      Rule.READ_USERS,     user_unless_own, users.get_user,
        missing_is_empty=True),
    Row(GetUsers,                     Rule.READ_USERS,     everywhere, users.get_users),
    Row(CreateUser,                   Rule.MANAGE_USERS,   everywhere, users.create_user,
        hashes=True),
    Row(DeleteUser,                   Rule.MANAGE_USERS,   everywhere, changes.submit),
    Row(UpdateUser,                   Rule.MANAGE_USERS,   everywhere, users.update_user),
    Row(UpdatePermissions,            Rule.MANAGE_USERS,   everywhere, users.update_permissions),
    Row(ChangePassword,               Rule.MANAGE_USERS,   user_unless_own, users.change_password,
        hashes=True),
    Row(LoginUser,                    Rule.ANYONE,         everywhere, users.login_user,
        hashes=True),
    Row(LogoutUser,                   Rule.LOGGED_IN,      everywhere, users.logout_user),

    Row(GetPersonalAccessTokens,      Rule.LOGGED_IN,      everywhere, tokens.get_tokens),
    Row(CreatePersonalAccessToken,    Rule.LOGGED_IN,      everywhere, tokens.create_token),
    Row(DeletePersonalAccessToken,    Rule.LOGGED_IN,      everywhere, tokens.delete_token),
    Row(LoginWithPersonalAccessToken, Rule.ANYONE,         everywhere, tokens.login_with_token),

    Row(PollMessages,                 Rule.POLL,           topic_of,   messages.poll,
        waits=True),
    Row(SendMessages,                 Rule.APPEND,         topic_of,   messages.send,
        validate=messages.batch_received),
    Row(FlushUnsavedBuffer,           Rule.APPEND,         partition_of, messages.flush),

    Row(GetConsumerOffset,            Rule.POLL,           topic_of,   offsets.get_offset,
        missing_is_empty=True),
    Row(StoreConsumerOffset,          Rule.POLL,           topic_of,   offsets.store_offset),
    Row(DeleteConsumerOffset,         Rule.POLL,           topic_of,   offsets.delete_offset),

    Row(GetStream,                    Rule.READ_STREAM,    stream_of,  streams.get_stream,
        missing_is_empty=True),
    Row(GetStreams,                   Rule.READ_STREAMS,   everywhere, streams.get_streams),
    Row(CreateStream,                 Rule.MANAGE_STREAMS, everywhere, changes.create),
    Row(DeleteStream,                 Rule.MANAGE_STREAM,  stream_of,  changes.submit),
    Row(UpdateStream,                 Rule.MANAGE_STREAM,  stream_of,  changes.submit),
    Row(PurgeStream,                  Rule.MANAGE_STREAM,  stream_of,  changes.submit),

    Row(GetTopic,                     Rule.READ_TOPIC,     topic_of,   topics.get_topic,
        missing_is_empty=True),
    Row(GetTopics,                    Rule.READ_TOPICS,    stream_of,  topics.get_topics,
        missing_is_empty=True),
    Row(CreateTopic,                  Rule.CREATE_TOPIC,   stream_of,  changes.create,
        validate=partitions_counted),
    Row(DeleteTopic,                  Rule.MANAGE_TOPIC,   topic_of,   changes.submit),
    Row(UpdateTopic,                  Rule.MANAGE_TOPIC,   topic_of,   changes.submit),
    Row(PurgeTopic,                   Rule.MANAGE_TOPIC,   topic_of,   changes.submit),

    Row(CreatePartitions,             Rule.MANAGE_TOPIC,   topic_of,   changes.submit,
        validate=partitions_counted),
    Row(DeletePartitions,             Rule.MANAGE_TOPIC,   topic_of,   changes.submit,
        validate=partitions_counted),
    Row(DeleteSegments,               Rule.MANAGE_TOPIC,   partition_of, segments.delete_segments),

    Row(GetConsumerGroup,             Rule.READ_TOPIC,     topic_of,   groups.get_group,
        missing_is_empty=True),
    Row(GetConsumerGroups,            Rule.READ_TOPIC,     topic_of,   groups.get_groups,
        missing_is_empty=True),
    Row(CreateConsumerGroup,          Rule.READ_TOPIC,     topic_of,   changes.create),
    Row(DeleteConsumerGroup,          Rule.READ_TOPIC,     topic_of,   changes.submit),
    Row(JoinConsumerGroup,            Rule.READ_TOPIC,     topic_of,   groups.join_group),
    Row(LeaveConsumerGroup,           Rule.READ_TOPIC,     topic_of,   groups.leave_group),
)
# fmt: on
