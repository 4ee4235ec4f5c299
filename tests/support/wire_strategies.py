"""Hypothesis strategies for everything that travels: values, requests, responses, chunks.

`REQUESTS` has a strategy for every request class and `RESPONSES` one for every response class, so
a test can ask for one kind or, with `requests` and `responses`, for any. What they draw is valid
on the wire; it need not make sense to a server.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from borzoi.model.consuming import Consumer, ConsumerKind, PollingKind, PollingStrategy
from borzoi.model.identifiers import Identifier
from borzoi.model.limits import U8_MAX, U16_MAX, U32_MAX, U64_MAX
from borzoi.model.partitioning import Partitioning
from borzoi.model.system import (
    NodeRole,
    NodeStatus,
    SnapshotCompression,
    SnapshotKind,
    TransportKind,
)
from borzoi.model.topics import Compression
from borzoi.model.users import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from borzoi.protocol.commands import (
    groups,
    messages,
    offsets,
    partitions,
    segments,
    streams,
    system,
    tokens,
    topics,
    users,
)
from borzoi.protocol.contract import Request, Response

u8: Final = st.integers(0, U8_MAX)
u16: Final = st.integers(0, U16_MAX)
u32: Final = st.integers(0, U32_MAX)
u64: Final = st.integers(0, U64_MAX)
f32: Final = st.floats(width=32, allow_nan=False)

#: A code point has at most four bytes in UTF-8, so 63 of them always fit a length of one byte.
_CHARACTERS: Final = st.characters(codec="utf-8")
names: Final = st.text(_CHARACTERS, min_size=1, max_size=63)
short_texts: Final = st.text(_CHARACTERS, max_size=63)
texts: Final = st.text(_CHARACTERS, max_size=100)

identifiers: Final[SearchStrategy[Identifier]] = st.one_of(u32, names)

#: Inside a send a name may be any bytes; what is not UTF-8 is kept with surrogate escapes.
lenient_identifiers: Final[SearchStrategy[Identifier]] = st.one_of(
    identifiers,
    st.binary(min_size=1, max_size=255).map(lambda name: name.decode("utf-8", "surrogateescape")),
)

consumers: Final = st.builds(Consumer, st.sampled_from(ConsumerKind), identifiers)
polling_strategies: Final = st.builds(PollingStrategy, st.sampled_from(PollingKind), u64)
partitionings: Final = st.one_of(
    st.just(Partitioning.balanced()),
    u32.map(Partitioning.partition),
    st.binary(min_size=1, max_size=255).map(Partitioning.key),
)
optional_partitions: Final = st.none() | u32
compressions: Final = st.sampled_from(Compression)
statuses: Final = st.sampled_from(UserStatus)


T = TypeVar("T")


def _built(made: Callable[..., T], *fields: SearchStrategy[Any]) -> SearchStrategy[T]:
    """The class called with one drawn value per field, in the order of its fields."""
    return st.tuples(*fields).map(lambda drawn: made(*drawn))


def _tuples(elements: SearchStrategy[T], max_size: int = 4) -> SearchStrategy[tuple[T, ...]]:
    return st.lists(elements, max_size=max_size).map(tuple)


_topic_permissions = _built(TopicPermissions, *[st.booleans()] * 4)
_stream_permissions = _built(
    StreamPermissions,
    *[st.booleans()] * 6,
    st.dictionaries(u32, _topic_permissions, max_size=3),
)
permissions: Final = _built(
    Permissions,
    _built(GlobalPermissions, *[st.booleans()] * 10),
    st.dictionaries(u32, _stream_permissions, max_size=3),
)
optional_permissions: Final = st.none() | permissions


def _snapshot_kinds() -> SearchStrategy[tuple[SnapshotKind, ...]]:
    single = [kind for kind in SnapshotKind if kind is not SnapshotKind.ALL]
    return st.just((SnapshotKind.ALL,)) | _tuples(st.sampled_from(single), max_size=8)


@st.composite
def _sends(draw: st.DrawFn) -> messages.SendMessages:
    count = draw(st.integers(0, 4))
    return messages.SendMessages(
        draw(lenient_identifiers),
        draw(lenient_identifiers),
        draw(partitionings),
        count,
        memoryview(draw(st.binary(min_size=16 * count, max_size=16 * count))),
        memoryview(draw(st.binary(max_size=300))),
    )


_ONE = (identifiers,)
_TWO = (identifiers, identifiers)
_THREE = (identifiers, identifiers, identifiers)
_OFFSET = (consumers, identifiers, identifiers, optional_partitions)
_SETTINGS = (compressions, u64, u64, u8)

REQUESTS: Final[Mapping[type[Request], SearchStrategy[Any]]] = MappingProxyType(
    {
        system.Ping: _built(system.Ping),
        system.GetStats: _built(system.GetStats),
        system.GetSnapshot: _built(
            system.GetSnapshot, st.sampled_from(SnapshotCompression), _snapshot_kinds()
        ),
        system.GetClusterMetadata: _built(system.GetClusterMetadata),
        system.GetMe: _built(system.GetMe),
        system.GetClient: _built(system.GetClient, u32),
        system.GetClients: _built(system.GetClients),
        users.GetUser: _built(users.GetUser, *_ONE),
        users.GetUsers: _built(users.GetUsers),
        users.CreateUser: _built(
            users.CreateUser, names, short_texts, statuses, optional_permissions
        ),
        users.DeleteUser: _built(users.DeleteUser, *_ONE),
        users.UpdateUser: _built(
            users.UpdateUser, identifiers, st.none() | names, st.none() | statuses
        ),
        users.UpdatePermissions: _built(users.UpdatePermissions, identifiers, optional_permissions),
        users.ChangePassword: _built(users.ChangePassword, identifiers, short_texts, short_texts),
        users.LoginUser: _built(users.LoginUser, names, short_texts, texts, texts),
        users.LogoutUser: _built(users.LogoutUser),
        tokens.GetPersonalAccessTokens: _built(tokens.GetPersonalAccessTokens),
        tokens.CreatePersonalAccessToken: _built(tokens.CreatePersonalAccessToken, names, u64),
        tokens.DeletePersonalAccessToken: _built(tokens.DeletePersonalAccessToken, names),
        tokens.LoginWithPersonalAccessToken: _built(tokens.LoginWithPersonalAccessToken, names),
        messages.PollMessages: _built(
            messages.PollMessages, *_OFFSET, polling_strategies, u32, st.booleans()
        ),
        messages.SendMessages: _sends(),
        messages.FlushUnsavedBuffer: _built(messages.FlushUnsavedBuffer, *_TWO, u32, st.booleans()),
        offsets.GetConsumerOffset: _built(offsets.GetConsumerOffset, *_OFFSET),
        offsets.StoreConsumerOffset: _built(offsets.StoreConsumerOffset, *_OFFSET, u64),
        offsets.DeleteConsumerOffset: _built(offsets.DeleteConsumerOffset, *_OFFSET),
        streams.GetStream: _built(streams.GetStream, *_ONE),
        streams.GetStreams: _built(streams.GetStreams),
        streams.CreateStream: _built(streams.CreateStream, names),
        streams.DeleteStream: _built(streams.DeleteStream, *_ONE),
        streams.UpdateStream: _built(streams.UpdateStream, identifiers, names),
        streams.PurgeStream: _built(streams.PurgeStream, *_ONE),
        topics.GetTopic: _built(topics.GetTopic, *_TWO),
        topics.GetTopics: _built(topics.GetTopics, *_ONE),
        topics.CreateTopic: _built(topics.CreateTopic, identifiers, names, u32, *_SETTINGS),
        topics.DeleteTopic: _built(topics.DeleteTopic, *_TWO),
        topics.UpdateTopic: _built(topics.UpdateTopic, *_TWO, names, *_SETTINGS),
        topics.PurgeTopic: _built(topics.PurgeTopic, *_TWO),
        partitions.CreatePartitions: _built(partitions.CreatePartitions, *_TWO, u32),
        partitions.DeletePartitions: _built(partitions.DeletePartitions, *_TWO, u32),
        segments.DeleteSegments: _built(segments.DeleteSegments, *_TWO, u32, u32),
        groups.GetConsumerGroup: _built(groups.GetConsumerGroup, *_THREE),
        groups.GetConsumerGroups: _built(groups.GetConsumerGroups, *_TWO),
        groups.CreateConsumerGroup: _built(groups.CreateConsumerGroup, *_TWO, names),
        groups.DeleteConsumerGroup: _built(groups.DeleteConsumerGroup, *_THREE),
        groups.JoinConsumerGroup: _built(groups.JoinConsumerGroup, *_THREE),
        groups.LeaveConsumerGroup: _built(groups.LeaveConsumerGroup, *_THREE),
    }
)

_cache_metrics = _built(system.CacheMetrics, u32, u32, u32, u64, u64, f32)
_nodes = _built(
    system.ClusterNode,
    texts,
    texts,
    u16,
    u16,
    u16,
    u16,
    st.sampled_from(NodeRole),
    st.sampled_from(NodeStatus),
)
#: The largest u32 says "nobody" there.
_sessions = (u32, st.none() | st.integers(0, U32_MAX - 1), st.sampled_from(TransportKind), texts)
_clients = _built(system.ClientInfo, *_sessions, u32)
_client_groups = _built(system.ClientGroup, u32, u32, u32)
_users = _built(users.UserInfo, u32, u64, statuses, names)
_tokens = _built(tokens.TokenInfo, names, u64)
_streams = _built(streams.StreamInfo, u32, u64, u32, u64, u64, names)
_topics = _built(topics.TopicInfo, u32, u64, u32, u64, compressions, u64, u8, u64, u64, names)
_partitions = _built(partitions.PartitionInfo, u32, u64, u32, u64, u64, u64)
_groups = _built(groups.GroupInfo, u32, u32, u32, names)
_members = _built(groups.GroupMember, u32, _tuples(u32))

RESPONSES: Final[Mapping[type[Response], SearchStrategy[Any]]] = MappingProxyType(
    {
        system.Stats: _built(
            system.Stats,
            u32,
            f32,
            f32,
            *[u64] * 8,
            *[u32] * 4,
            u64,
            *[u32] * 2,
            *[texts] * 5,
            st.none() | st.integers(1, U32_MAX),
            _tuples(_cache_metrics),
            u32,
            u64,
            u64,
        ),
        system.Snapshot: _built(system.Snapshot, st.binary(min_size=22, max_size=200)),
        system.ClusterMetadata: _built(system.ClusterMetadata, texts, _tuples(_nodes)),
        system.ClientInfo: _clients,
        system.ClientDetails: _built(system.ClientDetails, *_sessions, _tuples(_client_groups)),
        system.Clients: _built(system.Clients, _tuples(_clients)),
        users.UserInfo: _users,
        users.UserDetails: _built(
            users.UserDetails, u32, u64, statuses, names, optional_permissions
        ),
        users.Users: _built(users.Users, _tuples(_users)),
        users.Identity: _built(users.Identity, u32),
        tokens.TokenInfo: _tokens,
        tokens.Tokens: _built(tokens.Tokens, _tuples(_tokens)),
        tokens.RawToken: _built(tokens.RawToken, names),
        messages.PolledMessages: _built(
            messages.PolledMessages, u32, u64, u32, st.binary(max_size=300).map(memoryview)
        ),
        offsets.ConsumerOffset: _built(offsets.ConsumerOffset, u32, u64, u64),
        streams.StreamInfo: _streams,
        streams.StreamDetails: _built(
            streams.StreamDetails, u32, u64, u64, u64, names, _tuples(_topics)
        ),
        streams.Streams: _built(streams.Streams, _tuples(_streams)),
        topics.TopicInfo: _topics,
        topics.TopicDetails: _built(
            topics.TopicDetails,
            u32,
            u64,
            u64,
            compressions,
            u64,
            u8,
            u64,
            u64,
            names,
            _tuples(_partitions),
        ),
        topics.Topics: _built(topics.Topics, _tuples(_topics)),
        partitions.PartitionInfo: _partitions,
        groups.GroupInfo: _groups,
        groups.GroupMember: _members,
        groups.GroupDetails: _built(groups.GroupDetails, u32, u32, names, _tuples(_members)),
        groups.Groups: _built(groups.Groups, _tuples(_groups)),
    }
)


def requests() -> SearchStrategy[Request]:
    """Any request of any command."""
    return st.sampled_from(list(REQUESTS)).flatmap(REQUESTS.__getitem__)


def responses() -> SearchStrategy[Response]:
    """Any response, also the elements of lists."""
    return st.sampled_from(list(RESPONSES)).flatmap(RESPONSES.__getitem__)


@st.composite
def chunks(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    """The stream cut anywhere, as a socket may deliver it; no piece is lost, some are empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    return [stream[start:stop] for start, stop in pairwise(edges)]
