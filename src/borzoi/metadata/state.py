"""The state of the control plane as plain values, and its invariants.

Only `machine.apply` changes these objects. Everyone else reads, through `queries`.

Ids are given out again after a deletion. A `birth` is not: it tells a stream, topic, group or user
from the one that had its id before. 0 belongs to records that are older than births.
"""

from typing import NamedTuple

import msgspec

from borzoi.metadata.slots import Slots
from borzoi.model.errors import StateCorrupted
from borzoi.model.identifiers import ROOT_USER_ID
from borzoi.model.limits import PARTITIONS_PER_TOPIC_MAX, STREAMS_MAX, TOPICS_PER_STREAM_MAX
from borzoi.model.topics import Compression
from borzoi.model.users import ALL_PERMISSIONS, Permissions, UserStatus
from borzoi.model.value import Value
from borzoi.protocol.hiding import hiding


class GroupAddress(NamedTuple):
    """The numeric address of a consumer group."""

    stream_id: int
    topic_id: int
    group_id: int


class Member(msgspec.Struct):
    """A session that takes part in a group. Members die with their connection."""

    id: int
    client_id: int
    #: Ascending; a partition pending revocation stays here until it moves.
    partitions: list[int] = msgspec.field(default_factory=list)
    #: Where in `partitions` the next poll without a partition starts looking. It belongs to the
    #: shard that holds the connection: no snapshot has it and no two shards need agree on it.
    position: int = 0


class Revocation(Value):
    """A partition that waits for its owner's commit before it moves."""

    #: The slot of the member it goes to.
    target: int
    since: int


class Group(msgspec.Struct):
    """A consumer group; it persists until it is deleted, its members do not."""

    id: int
    name: str
    #: By slot, found by client id.
    members: Slots[int, Member] = msgspec.field(default_factory=Slots)
    #: By partition.
    pending: dict[int, Revocation] = msgspec.field(default_factory=dict)
    birth: int = 0


class PartitionRecord(Value):
    id: int
    created_at: int


class TopicFacts(msgspec.Struct):
    """What is known of a topic without the things inside it."""

    id: int
    name: str
    created_at: int
    compression: Compression
    #: Never 0: server defaults are resolved before a command is logged.
    message_expiry: int
    max_topic_size: int
    replication_factor: int


class Topic(TopicFacts):
    #: Ids are 0..n-1.
    partitions: dict[int, PartitionRecord] = msgspec.field(default_factory=dict)
    groups: Slots[str, Group] = msgspec.field(default_factory=Slots)
    birth: int = 0


class Stream(msgspec.Struct):
    id: int
    name: str
    created_at: int
    topics: Slots[str, Topic] = msgspec.field(default_factory=Slots)
    birth: int = 0


class Token(Value):
    """A personal access token; `expiry_at` 0 means never."""

    name: str
    token_hash: str
    expiry_at: int = 0
    __repr__ = hiding("token_hash")

    def has_expired(self, now: int) -> bool:
        return self.expiry_at != 0 and self.expiry_at <= now


class UserFacts(msgspec.Struct):
    """What is known of a user without its tokens."""

    id: int
    username: str
    password_hash: str
    status: UserStatus
    permissions: Permissions | None
    created_at: int
    __repr__ = hiding("password_hash")


class User(UserFacts):
    #: By name.
    tokens: dict[str, Token] = msgspec.field(default_factory=dict)
    birth: int = 0


class Metadata(msgspec.Struct):
    """The whole state. A new one is empty: the first user created is root."""

    streams: Slots[str, Stream] = msgspec.field(default_factory=Slots)
    users: Slots[str, User] = msgspec.field(default_factory=Slots)
    #: User id of each token by its hash.
    token_owners: dict[str, int] = msgspec.field(default_factory=dict)
    #: The groups each client is a member of.
    memberships: dict[int, set[GroupAddress]] = msgspec.field(default_factory=dict)
    #: The last birth number given out.
    births: int = 0
    __repr__ = hiding("token_owners")

    def next_birth(self) -> int:
        self.births += 1
        return self.births

    def check(self) -> None:
        """Raises `StateCorrupted` when an invariant does not hold."""
        self.streams.check()
        _require(len(self.streams) <= STREAMS_MAX, "too many streams")
        memberships: dict[int, set[GroupAddress]] = {}
        for stream_id, stream in self.streams.items():
            _require(stream.id == stream_id, "a stream is filed under another id")
            _require(self.streams.ids.get(stream.name) == stream_id, "a stream has a wrong key")
            _check_topics(stream, memberships)
        _require(memberships == self.memberships, "members and memberships differ")
        _check_users(self)
        _check_births(self)


def _check_topics(stream: Stream, memberships: dict[int, set[GroupAddress]]) -> None:
    stream.topics.check()
    _require(len(stream.topics) <= TOPICS_PER_STREAM_MAX, "too many topics in a stream")
    for topic_id, topic in stream.topics.items():
        _require(topic.id == topic_id, "a topic is filed under another id")
        _require(stream.topics.ids.get(topic.name) == topic_id, "a topic has a wrong key")
        _require(
            topic.message_expiry > 0 and topic.max_topic_size > 0 and topic.replication_factor > 0,
            "a topic holds an unresolved server default",
        )
        _require(
            list(topic.partitions) == list(range(len(topic.partitions))), "partitions have gaps"
        )
        _require(
            len(topic.partitions) <= PARTITIONS_PER_TOPIC_MAX, "too many partitions in a topic"
        )
        _require(
            all(record.id == number for number, record in topic.partitions.items()),
            "a partition is filed under another id",
        )
        topic.groups.check()
        for group_id, group in topic.groups.items():
            _require(group.id == group_id, "a group is filed under another id")
            _require(topic.groups.ids.get(group.name) == group_id, "a group has a wrong key")
            _check_group(group, len(topic.partitions))
            for client_id in group.members.ids:
                address = GroupAddress(stream.id, topic_id, group_id)
                memberships.setdefault(client_id, set()).add(address)


def _check_group(group: Group, partitions_count: int) -> None:
    group.members.check()
    members = group.members
    for slot, member in members.items():
        _require(members.ids.get(member.client_id) == slot, "a member has a wrong key")
        _require(member.partitions == sorted(member.partitions), "a member's partitions are mixed")
    _require(len({member.id for member in members.values()}) == len(members), "two members, one id")
    owned = sorted(p for member in members.values() for p in member.partitions)
    _require(
        owned == (list(range(partitions_count)) if members else []),
        "not every partition has exactly one owner",
    )
    planned = {slot: len(member.partitions) for slot, member in members.items()}
    for partition_id, revocation in group.pending.items():
        owner = owner_slot(group, partition_id)
        if owner is None or owner == revocation.target:
            raise StateCorrupted("metadata: a revocation moves nothing")
        _require(revocation.target in members, "a revocation has no target")
        planned[owner] -= 1
        planned[revocation.target] += 1
    _require(
        not planned or max(planned.values()) - min(planned.values()) <= 1,
        "the planned assignment is not fair",
    )


def _check_users(state: Metadata) -> None:
    state.users.check()
    owners: dict[str, int] = {}
    for user_id, user in state.users.items():
        _require(user.id == user_id, "a user is filed under another id")
        _require(state.users.ids.get(user.username) == user_id, "a user has a wrong key")
        for name, token in user.tokens.items():
            _require(token.name == name, "a token is filed under another name")
            _require(token.token_hash not in owners, "two tokens have one hash")
            owners[token.token_hash] = user_id
    _require(owners == state.token_owners, "tokens and their owners differ")
    if state.users:
        root = state.users.get(ROOT_USER_ID)
        _require(root is not None and root.permissions == ALL_PERMISSIONS, "root is restricted")


def _check_births(state: Metadata) -> None:
    births = [user.birth for user in state.users.values()]
    for stream in state.streams.values():
        births.append(stream.birth)
        for topic in stream.topics.values():
            births.append(topic.birth)
            births += [group.birth for group in topic.groups.values()]
    given = [birth for birth in births if birth]
    _require(len(set(given)) == len(given), "a birth number was given out twice")
    _require(max(given, default=0) <= state.births, "a birth number was not given out yet")


def owner_slot(group: Group, partition_id: int) -> int | None:
    """The slot of the member that has the partition."""
    for slot, member in group.members.items():
        if partition_id in member.partitions:
            return slot
    return None


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise StateCorrupted(f"metadata: {what}")
