"""The JSON that answers carry, to and from the response dataclasses.

Sizes are texts (``"1.103 KB"``), timestamps are numbers of microseconds, and every u64 is a number.
A list answers with a bare array. `encode_document` is for the server, `decode_document` for a
client; `DOCUMENTS` is the whole of what can be said.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Self

import msgspec

from borzoi.model.errors import InvalidFormat
from borzoi.model.topics import Compression
from borzoi.model.units import format_bytes, parse_bytes
from borzoi.protocol.commands.groups import GroupDetails, GroupInfo, GroupMember, Groups
from borzoi.protocol.commands.messages import PolledMessages
from borzoi.protocol.commands.offsets import ConsumerOffset
from borzoi.protocol.commands.partitions import PartitionInfo
from borzoi.protocol.commands.streams import StreamDetails, StreamInfo, Streams
from borzoi.protocol.commands.system import (
    ClientDetails,
    ClientGroup,
    ClientInfo,
    Clients,
    ClusterMetadata,
    Stats,
)
from borzoi.protocol.commands.tokens import RawToken, TokenInfo, Tokens
from borzoi.protocol.commands.topics import TopicDetails, TopicInfo, Topics
from borzoi.protocol.commands.users import UserDetails, UserInfo, Users
from borzoi.protocol.rest.messages import PolledDocument, polled_document, polled_of
from borzoi.protocol.rest.permissions import (
    PermissionsDocument,
    permissions_document,
    permissions_of,
)
from borzoi.protocol.rest.system import (
    ClusterDocument,
    StatsDocument,
    cluster_document,
    cluster_of,
    stats_document,
    stats_of,
)
from borzoi.protocol.rest.words import COMPRESSIONS, TRANSPORTS, USER_STATUSES


@dataclass(frozen=True, slots=True)
class AccessIdentity:
    """Who logged in, and the token that says so from now on; `expiry` is in seconds."""

    user_id: int
    token: str = field(repr=False)
    expiry: int


class AccessToken(msgspec.Struct):
    token: str
    expiry: int


class IdentityDocument(msgspec.Struct):
    user_id: int
    access_token: AccessToken

    @classmethod
    def of(cls, identity: AccessIdentity) -> Self:
        return cls(identity.user_id, AccessToken(identity.token, identity.expiry))

    def response(self) -> AccessIdentity:
        return AccessIdentity(self.user_id, self.access_token.token, self.access_token.expiry)


class PartitionDocument(msgspec.Struct):
    id: int
    created_at: int
    segments_count: int
    current_offset: int
    size: str | int
    messages_count: int

    @classmethod
    def of(cls, partition: PartitionInfo) -> Self:
        return cls(
            partition.id,
            partition.created_at,
            partition.segments_count,
            partition.current_offset,
            format_bytes(partition.size_bytes),
            partition.messages_count,
        )

    def response(self) -> PartitionInfo:
        return PartitionInfo(
            self.id,
            self.created_at,
            self.segments_count,
            self.current_offset,
            parse_bytes(self.size),
            self.messages_count,
        )


class TopicDocument(msgspec.Struct):
    id: int
    created_at: int
    name: str
    size: str | int
    message_expiry: int
    compression_algorithm: str
    max_topic_size: int
    replication_factor: int
    messages_count: int
    partitions_count: int

    @classmethod
    def of(cls, topic: TopicInfo | TopicDetails) -> Self:
        return cls(
            topic.id,
            topic.created_at,
            topic.name,
            format_bytes(topic.size_bytes),
            topic.message_expiry,
            COMPRESSIONS.word(topic.compression),
            topic.max_topic_size,
            topic.replication_factor,
            topic.messages_count,
            topic.partitions_count,
        )

    def response(self) -> TopicInfo:
        return TopicInfo(
            self.id,
            self.created_at,
            self.partitions_count,
            self.message_expiry,
            COMPRESSIONS.member(self.compression_algorithm),
            self.max_topic_size,
            self.replication_factor,
            parse_bytes(self.size),
            self.messages_count,
            self.name,
        )


class TopicDetailsDocument(TopicDocument):
    partitions: list[PartitionDocument] = []

    @classmethod
    def of_details(cls, topic: TopicDetails) -> Self:
        document = cls.of(topic)
        document.partitions = [PartitionDocument.of(partition) for partition in topic.partitions]
        return document

    def details(self) -> TopicDetails:
        topic = self.response()
        return TopicDetails(
            topic.id,
            topic.created_at,
            topic.message_expiry,
            topic.compression,
            topic.max_topic_size,
            topic.replication_factor,
            topic.size_bytes,
            topic.messages_count,
            topic.name,
            tuple(partition.response() for partition in self.partitions),
        )


class StreamDocument(msgspec.Struct):
    id: int
    created_at: int
    name: str
    size: str | int
    messages_count: int
    topics_count: int

    @classmethod
    def of(cls, stream: StreamInfo | StreamDetails) -> Self:
        return cls(
            stream.id,
            stream.created_at,
            stream.name,
            format_bytes(stream.size_bytes),
            stream.messages_count,
            stream.topics_count,
        )

    def response(self) -> StreamInfo:
        return StreamInfo(
            self.id,
            self.created_at,
            self.topics_count,
            parse_bytes(self.size),
            self.messages_count,
            self.name,
        )


class StreamDetailsDocument(StreamDocument):
    topics: list[TopicDocument] = []

    @classmethod
    def of_details(cls, stream: StreamDetails) -> Self:
        document = cls.of(stream)
        document.topics = [TopicDocument.of(topic) for topic in stream.topics]
        return document

    def details(self) -> StreamDetails:
        return StreamDetails(
            self.id,
            self.created_at,
            parse_bytes(self.size),
            self.messages_count,
            self.name,
            tuple(topic.response() for topic in self.topics),
        )


class GroupDocument(msgspec.Struct):
    id: int
    name: str
    partitions_count: int
    members_count: int

    @classmethod
    def of(cls, group: GroupInfo | GroupDetails) -> Self:
        return cls(group.id, group.name, group.partitions_count, group.members_count)

    def response(self) -> GroupInfo:
        return GroupInfo(self.id, self.partitions_count, self.members_count, self.name)


class MemberDocument(msgspec.Struct):
    id: int
    partitions_count: int
    partitions: list[int]


class GroupDetailsDocument(GroupDocument):
    members: list[MemberDocument] = []

    @classmethod
    def of_details(cls, group: GroupDetails) -> Self:
        document = cls.of(group)
        document.members = [
            MemberDocument(member.id, member.partitions_count, list(member.partitions))
            for member in group.members
        ]
        return document

    def details(self) -> GroupDetails:
        return GroupDetails(
            self.id,
            self.partitions_count,
            self.name,
            tuple(GroupMember(member.id, tuple(member.partitions)) for member in self.members),
        )


class OffsetDocument(msgspec.Struct):
    partition_id: int
    current_offset: int
    stored_offset: int

    @classmethod
    def of(cls, offset: ConsumerOffset) -> Self:
        return cls(offset.partition_id, offset.current_offset, offset.stored_offset)

    def response(self) -> ConsumerOffset:
        return ConsumerOffset(self.partition_id, self.current_offset, self.stored_offset)


class UserDocument(msgspec.Struct):
    id: int
    created_at: int
    status: str
    username: str

    @classmethod
    def of(cls, user: UserInfo | UserDetails) -> Self:
        return cls(user.id, user.created_at, USER_STATUSES.word(user.status), user.username)

    def response(self) -> UserInfo:
        status = USER_STATUSES.member(self.status)
        return UserInfo(self.id, self.created_at, status, self.username)


class UserDetailsDocument(UserDocument):
    permissions: PermissionsDocument | None = None

    @classmethod
    def of_details(cls, user: UserDetails) -> Self:
        document = cls.of(user)
        document.permissions = permissions_document(user.permissions)
        return document

    def details(self) -> UserDetails:
        user = self.response()
        permissions = permissions_of(self.permissions)
        return UserDetails(user.id, user.created_at, user.status, user.username, permissions)


class TokenDocument(msgspec.Struct):
    """On the wire a token that never expires says 0, here it says null."""

    name: str
    expiry_at: int | None = None

    @classmethod
    def of(cls, token: TokenInfo) -> Self:
        return cls(token.name, token.expiry_at or None)

    def response(self) -> TokenInfo:
        return TokenInfo(self.name, self.expiry_at or 0)


class RawTokenDocument(msgspec.Struct):
    token: str

    @classmethod
    def of(cls, token: RawToken) -> Self:
        return cls(token.token)

    def response(self) -> RawToken:
        return RawToken(self.token)


class ClientDocument(msgspec.Struct):
    client_id: int
    user_id: int | None
    address: str
    transport: str
    consumer_groups_count: int

    @classmethod
    def of(cls, client: ClientInfo | ClientDetails) -> Self:
        return cls(
            client.client_id,
            client.user_id,
            client.address,
            TRANSPORTS.word(client.transport),
            client.consumer_groups_count,
        )

    def response(self) -> ClientInfo:
        return ClientInfo(
            self.client_id,
            self.user_id,
            TRANSPORTS.member(self.transport),
            self.address,
            self.consumer_groups_count,
        )


class ClientGroupDocument(msgspec.Struct):
    stream_id: int
    topic_id: int
    group_id: int


class ClientDetailsDocument(ClientDocument):
    consumer_groups: list[ClientGroupDocument] = []

    @classmethod
    def of_details(cls, client: ClientDetails) -> Self:
        document = cls.of(client)
        document.consumer_groups = [
            ClientGroupDocument(group.stream_id, group.topic_id, group.group_id)
            for group in client.consumer_groups
        ]
        return document

    def details(self) -> ClientDetails:
        groups = tuple(
            ClientGroup(group.stream_id, group.topic_id, group.group_id)
            for group in self.consumer_groups
        )
        transport = TRANSPORTS.member(self.transport)
        return ClientDetails(self.client_id, self.user_id, transport, self.address, groups)


class Shape:
    """How one type of response is written and read."""

    __slots__ = ("document_of", "read", "response_of")

    def __init__(
        self,
        document: Any,
        document_of: Callable[[Any], object],
        response_of: Callable[[Any], object],
    ) -> None:
        self.read = msgspec.json.Decoder(document).decode
        self.document_of = document_of
        self.response_of = response_of


def _one(document: Any) -> Shape:
    return Shape(document, document.of, document.response)


def _detailed(document: Any) -> Shape:
    return Shape(document, document.of_details, document.details)


def _many(
    collection: Callable[[Any], object],
    items: str,
    document: Any,
    order: Callable[[Any], Any] | None = None,
) -> Shape:
    def document_of(response: object) -> object:
        each: Iterable[object] = getattr(response, items)
        return [document.of(item) for item in (sorted(each, key=order) if order else each)]

    return Shape(
        list[document],
        document_of,
        lambda documents: collection(tuple(each.response() for each in documents)),
    )


#: Every response that is JSON over HTTP; the others are texts, archives or nothing.
DOCUMENTS: Final[Mapping[type, Shape]] = MappingProxyType(
    {
        AccessIdentity: _one(IdentityDocument),
        Streams: _many(Streams, "streams", StreamDocument),
        StreamDetails: _detailed(StreamDetailsDocument),
        Topics: _many(Topics, "topics", TopicDocument),
        TopicDetails: _detailed(TopicDetailsDocument),
        Groups: _many(Groups, "groups", GroupDocument),
        GroupDetails: _detailed(GroupDetailsDocument),
        ConsumerOffset: _one(OffsetDocument),
        PolledMessages: Shape(PolledDocument, polled_document, polled_of),
        Users: _many(Users, "users", UserDocument),
        UserDetails: _detailed(UserDetailsDocument),
        Tokens: _many(Tokens, "tokens", TokenDocument, lambda token: token.name),
        RawToken: _one(RawTokenDocument),
        Clients: _many(Clients, "clients", ClientDocument, lambda client: client.client_id),
        ClientDetails: _detailed(ClientDetailsDocument),
        ClusterMetadata: Shape(ClusterDocument, cluster_document, cluster_of),
        Stats: Shape(StatsDocument, stats_document, stats_of),
    }
)


def encode_document(response: object, *, all_compressions: bool = False) -> bytes:
    """The JSON of a response.

    The published clients refuse a topic that says LZ4 or ZSTD, so GZIP is said instead unless
    `all_compressions` tells that whoever asked knows them.
    """
    document = DOCUMENTS[type(response)].document_of(response)
    if not all_compressions:
        for topic in _topics_in(document):
            if topic.compression_algorithm not in _KNOWN_TO_ALL:
                topic.compression_algorithm = COMPRESSIONS.word(Compression.GZIP)
    return msgspec.json.encode(document)


_KNOWN_TO_ALL: Final = frozenset(map(COMPRESSIONS.word, (Compression.NONE, Compression.GZIP)))


def _topics_in(document: object) -> Iterable[TopicDocument]:
    match document:
        case TopicDocument():
            return (document,)
        case StreamDetailsDocument():
            return document.topics
        case list():
            return (each for each in document if isinstance(each, TopicDocument))
    return ()


def decode_document(response: type, body: bytes) -> Any:
    """The response a JSON body stands for; `InvalidFormat` when it does not."""
    shape = DOCUMENTS[response]
    try:
        return shape.response_of(shape.read(body))
    except (msgspec.DecodeError, ValueError, RecursionError) as fault:
        raise InvalidFormat(f"this is no {response.__name__}: {fault}") from None
