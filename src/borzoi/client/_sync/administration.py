# Made by tools/unasync.py from src/borzoi/client/_async/administration.py: edit that one.
"""The commands about servers, users, tokens, streams, topics, partitions and groups.

Every method takes `timeout`, the seconds that the call may take in all; None means the client's
default (30 s unless configured).
"""

from collections.abc import Sequence
from datetime import timedelta

from borzoi.client._sync.asking import Asking
from borzoi.client.naming import TopicName, topic_of
from borzoi.client.options import Password, Token
from borzoi.client.spans import expiry_of, size_of
from borzoi.model.identifiers import Identifier
from borzoi.model.system import SnapshotCompression, SnapshotKind
from borzoi.model.topics import Compression
from borzoi.model.users import Permissions, UserStatus
from borzoi.protocol.commands import groups, partitions, segments, streams, system, tokens, topics
from borzoi.protocol.commands import users as accounts


class Administration(Asking):
    """A method for each command that is not about messages."""

    # ---- the server -----------------------------------------------------------------------------

    def ping(self, *, timeout: float | None = None) -> None:
        """Check that the server responds; needs no login."""
        self._do(system.Ping(), timeout)

    def get_stats(self, *, timeout: float | None = None) -> system.Stats:
        """Return statistics of the server: process, machine and counts of everything it stores."""
        return self._ask(system.GetStats(), system.Stats, timeout)

    def get_snapshot(
        self,
        kinds: Sequence[SnapshotKind] = (SnapshotKind.ALL,),
        *,
        compression: SnapshotCompression = SnapshotCompression.DEFLATED,
        timeout: float | None = None,
    ) -> bytes:
        """Return a ZIP archive with a text file for each requested kind of diagnostics."""
        request = system.GetSnapshot(compression, tuple(kinds))
        return bytes((self._ask(request, system.Snapshot, timeout)).archive)

    def get_cluster_metadata(self, *, timeout: float | None = None) -> system.ClusterMetadata:
        """Return the nodes of the cluster with roles and ports; one node without a cluster."""
        return self._ask(system.GetClusterMetadata(), system.ClusterMetadata, timeout)

    def get_me(self, *, timeout: float | None = None) -> system.ClientDetails:
        """Return this connection as the server sees it."""
        return self._ask(system.GetMe(), system.ClientDetails, timeout)

    def get_client(
        self, client_id: int, *, timeout: float | None = None
    ) -> system.ClientDetails | None:
        """Return a connection by its id, with the groups it has joined; None if it has ended."""
        return self._look_up(system.GetClient(client_id), system.ClientDetails, timeout)

    def get_clients(self, *, timeout: float | None = None) -> tuple[system.ClientInfo, ...]:
        """Return all connections of the server."""
        return (self._ask(system.GetClients(), system.Clients, timeout)).clients

    # ---- users ----------------------------------------------------------------------------------

    def login_user(self, username: str, password: str, *, timeout: float | None = None) -> int:
        """Log in, now and after every reconnect; return the id of the user.

        Not needed when the connection string has credentials.
        """
        identity = self._ask(accounts.LoginUser(username, password), accounts.Identity, timeout)
        self._session.credentials = Password(username, password)
        return identity.user_id

    def logout_user(self, *, timeout: float | None = None) -> None:
        """Log out. The connection stays open, and a reconnect does not log in again."""
        self._do(accounts.LogoutUser(), timeout)
        self._session.credentials = None

    def get_user(
        self, user: Identifier, *, timeout: float | None = None
    ) -> accounts.UserDetails | None:
        """Return a user with permissions; None when there is no such user."""
        return self._look_up(accounts.GetUser(user), accounts.UserDetails, timeout)

    def get_users(self, *, timeout: float | None = None) -> tuple[accounts.UserInfo, ...]:
        """All users."""
        return (self._ask(accounts.GetUsers(), accounts.Users, timeout)).users

    def create_user(
        self,
        username: str,
        password: str,
        *,
        status: UserStatus = UserStatus.ACTIVE,
        permissions: Permissions | None = None,
        timeout: float | None = None,
    ) -> accounts.UserDetails:
        """Create a user; without permissions it can only log in."""
        request = accounts.CreateUser(username, password, status, permissions)
        return self._ask(request, accounts.UserDetails, timeout)

    def delete_user(self, user: Identifier, *, timeout: float | None = None) -> None:
        """Delete a user and end the sessions of its connections."""
        self._do(accounts.DeleteUser(user), timeout)

    def update_user(
        self,
        user: Identifier,
        *,
        username: str | None = None,
        status: UserStatus | None = None,
        timeout: float | None = None,
    ) -> None:
        """Change the name or the status of a user; None leaves a field unchanged."""
        self._do(accounts.UpdateUser(user, username, status), timeout)

    def update_permissions(
        self,
        user: Identifier,
        permissions: Permissions | None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Replace the permissions of a user; None revokes them all."""
        self._do(accounts.UpdatePermissions(user, permissions), timeout)

    def change_password(
        self,
        user: Identifier,
        current_password: str,
        new_password: str,
        *,
        timeout: float | None = None,
    ) -> None:
        """Change a password: your own or, with permission, another user's."""
        self._do(accounts.ChangePassword(user, current_password, new_password), timeout)

    # ---- personal access tokens -----------------------------------------------------------------

    def login_with_personal_access_token(self, token: str, *, timeout: float | None = None) -> int:
        """Log in with a token, now and after every reconnect; return the id of its user."""
        request = tokens.LoginWithPersonalAccessToken(token)
        identity = self._ask(request, accounts.Identity, timeout)
        self._session.credentials = Token(token)
        return identity.user_id

    def get_personal_access_tokens(
        self, *, timeout: float | None = None
    ) -> tuple[tokens.TokenInfo, ...]:
        """Return names and expiries of your own tokens; a token itself is shown only once."""
        return (self._ask(tokens.GetPersonalAccessTokens(), tokens.Tokens, timeout)).tokens

    def create_personal_access_token(
        self,
        name: str,
        *,
        expiry: timedelta | str | int = 0,
        timeout: float | None = None,
    ) -> str:
        """Create a token and return it; the server never shows it again.

        `expiry` is a `timedelta`, a text like ``"7 days"``, or microseconds; 0 means never.
        """
        request = tokens.CreatePersonalAccessToken(name, expiry_of(expiry))
        return (self._ask(request, tokens.RawToken, timeout)).token

    def delete_personal_access_token(self, name: str, *, timeout: float | None = None) -> None:
        """Delete one of your own tokens; it can no longer be used to log in."""
        self._do(tokens.DeletePersonalAccessToken(name), timeout)

    # ---- streams --------------------------------------------------------------------------------

    def get_stream(
        self, stream: Identifier, *, timeout: float | None = None
    ) -> streams.StreamDetails | None:
        """Return a stream with its topics; None when there is no such stream."""
        return self._look_up(streams.GetStream(stream), streams.StreamDetails, timeout)

    def get_streams(self, *, timeout: float | None = None) -> tuple[streams.StreamInfo, ...]:
        """Return all streams, by ascending id."""
        return (self._ask(streams.GetStreams(), streams.Streams, timeout)).streams

    def create_stream(self, name: str, *, timeout: float | None = None) -> streams.StreamDetails:
        """Create a stream; `StreamNameTaken` if the name is in use."""
        return self._ask(streams.CreateStream(name), streams.StreamDetails, timeout)

    def delete_stream(self, stream: Identifier, *, timeout: float | None = None) -> None:
        """Delete a stream with all its topics and messages."""
        self._do(streams.DeleteStream(stream), timeout)

    def update_stream(self, stream: Identifier, name: str, *, timeout: float | None = None) -> None:
        """Rename a stream."""
        self._do(streams.UpdateStream(stream, name), timeout)

    def purge_stream(self, stream: Identifier, *, timeout: float | None = None) -> None:
        """Delete the messages and stored offsets of all topics of a stream."""
        self._do(streams.PurgeStream(stream), timeout)

    # ---- topics ---------------------------------------------------------------------------------

    def get_topic(
        self, topic: TopicName, *, timeout: float | None = None
    ) -> topics.TopicDetails | None:
        """Return a topic with its partitions; None when there is no such topic."""
        return self._look_up(topics.GetTopic(*topic_of(topic)), topics.TopicDetails, timeout)

    def get_topics(
        self, stream: Identifier, *, timeout: float | None = None
    ) -> tuple[topics.TopicInfo, ...]:
        """Return all topics of a stream, by ascending id; empty when there is no such stream."""
        return (self._ask(topics.GetTopics(stream), topics.Topics, timeout)).topics

    def create_topic(
        self,
        topic: TopicName,
        *,
        partitions: int = 1,
        compression: Compression = Compression.NONE,
        message_expiry: timedelta | str | int = 0,
        max_size: str | int = 0,
        replication_factor: int = 0,
        timeout: float | None = None,
    ) -> topics.TopicDetails:
        """Create a topic in an existing stream; `TopicNameTaken` if the name is in use.

        `message_expiry` is a `timedelta`, a text like ``"7 days"`` or ``"never_expire"``, or
        microseconds; `max_size` a text like ``"10 GiB"`` or ``"unlimited"``, or bytes. 0 means
        the server's default.
        """
        stream_id, topic_id = topic_of(topic)
        request = topics.CreateTopic(
            stream_id,
            str(topic_id),
            partitions,
            compression,
            expiry_of(message_expiry),
            size_of(max_size),
            replication_factor,
        )
        return self._ask(request, topics.TopicDetails, timeout)

    def delete_topic(self, topic: TopicName, *, timeout: float | None = None) -> None:
        """Delete a topic with all its messages."""
        self._do(topics.DeleteTopic(*topic_of(topic)), timeout)

    def update_topic(
        self,
        topic: TopicName,
        name: str,
        *,
        compression: Compression = Compression.NONE,
        message_expiry: timedelta | str | int = 0,
        max_size: str | int = 0,
        replication_factor: int = 0,
        timeout: float | None = None,
    ) -> None:
        """Replace the name and all settings of a topic; values as for `create_topic`."""
        request = topics.UpdateTopic(
            *topic_of(topic),
            name,
            compression,
            expiry_of(message_expiry),
            size_of(max_size),
            replication_factor,
        )
        self._do(request, timeout)

    def purge_topic(self, topic: TopicName, *, timeout: float | None = None) -> None:
        """Delete the messages and stored offsets of a topic; offsets restart at 0."""
        self._do(topics.PurgeTopic(*topic_of(topic)), timeout)

    # ---- partitions and segments ----------------------------------------------------------------

    def create_partitions(
        self, topic: TopicName, count: int, *, timeout: float | None = None
    ) -> None:
        """Add `count` partitions to a topic; its consumer groups rebalance."""
        self._do(partitions.CreatePartitions(*topic_of(topic), count), timeout)

    def delete_partitions(
        self, topic: TopicName, count: int, *, timeout: float | None = None
    ) -> None:
        """Delete the `count` partitions with the highest ids, and their messages."""
        self._do(partitions.DeletePartitions(*topic_of(topic), count), timeout)

    def delete_segments(
        self, topic: TopicName, partition: int, count: int, *, timeout: float | None = None
    ) -> None:
        """Delete up to `count` of the oldest closed segments of a partition."""
        self._do(segments.DeleteSegments(*topic_of(topic), partition, count), timeout)

    # ---- consumer groups ------------------------------------------------------------------------

    def get_consumer_group(
        self, topic: TopicName, group: Identifier, *, timeout: float | None = None
    ) -> groups.GroupDetails | None:
        """Return a group with its members and their partitions; None when there is none."""
        request = groups.GetConsumerGroup(*topic_of(topic), group)
        return self._look_up(request, groups.GroupDetails, timeout)

    def get_consumer_groups(
        self, topic: TopicName, *, timeout: float | None = None
    ) -> tuple[groups.GroupInfo, ...]:
        """Return all groups of a topic."""
        request = groups.GetConsumerGroups(*topic_of(topic))
        return (self._ask(request, groups.Groups, timeout)).groups

    def create_consumer_group(
        self, topic: TopicName, name: str, *, timeout: float | None = None
    ) -> groups.GroupDetails:
        """Create a group; `GroupNameTaken` if the name is in use."""
        request = groups.CreateConsumerGroup(*topic_of(topic), name)
        return self._ask(request, groups.GroupDetails, timeout)

    def delete_consumer_group(
        self, topic: TopicName, group: Identifier, *, timeout: float | None = None
    ) -> None:
        """Delete a group with its stored offsets."""
        request = groups.DeleteConsumerGroup(*topic_of(topic), group)
        self._do(request, timeout)
        self._session.joined.discard(groups.JoinConsumerGroup(*topic_of(topic), group))

    def join_consumer_group(
        self, topic: TopicName, group: Identifier, *, timeout: float | None = None
    ) -> None:
        """Make this connection a member of a group, now and after every reconnect."""
        request = groups.JoinConsumerGroup(*topic_of(topic), group)
        self._do(request, timeout)
        self._session.joined.add(request)

    def leave_consumer_group(
        self, topic: TopicName, group: Identifier, *, timeout: float | None = None
    ) -> None:
        """Leave a group; its other members get the partitions."""
        self._session.joined.discard(groups.JoinConsumerGroup(*topic_of(topic), group))
        self._do(groups.LeaveConsumerGroup(*topic_of(topic), group), timeout)
