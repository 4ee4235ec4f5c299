"""The state as bytes, for a checkpoint of the log and for a shard that starts late.

::

    snapshot   MessagePack array [version, state]
    version    1
    state      map  streams, freed_streams, users, freed_users, births
    stream     map  id, name, created_at, topics, freed_topics, birth
    topic      map  id, name, created_at, compression, message_expiry, max_topic_size,
                    replication_factor, partitions (created_at of each), groups, freed_groups,
                    birth
    group      map  id, name, birth, and where it has had members: members, freed_slots,
                    pending (arrays of partition, target slot, since)
    member     map  slot, id, client_id, partitions
    user       map  id, username, password_hash, status, permissions, created_at, tokens, birth
    token      map  name, token_hash, expiry_at

Lists are by ascending id, tokens by name, freed ids in the order they were freed. Births are 0 in
snapshots that were written without them.
Equal states have equal bytes. Members die with their connections, so a checkpoint is without
them; what one shard hands to another has them.
"""

from hashlib import blake2b
from typing import Final

import msgspec

from borzoi.metadata.slots import Slots
from borzoi.metadata.state import (
    Group,
    GroupAddress,
    Member,
    Metadata,
    PartitionRecord,
    Revocation,
    Stream,
    Token,
    Topic,
    TopicFacts,
    User,
    UserFacts,
)
from borzoi.model.errors import StateCorrupted
from borzoi.model.value import like

VERSION: Final = 1


class _Member(msgspec.Struct):
    slot: int
    id: int
    client_id: int
    partitions: list[int]


class _Group(msgspec.Struct, omit_defaults=True):
    id: int
    name: str
    members: list[_Member] = []
    freed_slots: list[int] = []
    pending: list[tuple[int, int, int]] = []
    birth: int = 0


class _Topic(TopicFacts):
    partitions: list[int]
    groups: list[_Group]
    freed_groups: list[int]
    birth: int = 0


class _Stream(msgspec.Struct):
    id: int
    name: str
    created_at: int
    topics: list[_Topic]
    freed_topics: list[int]
    birth: int = 0


class _User(UserFacts):
    tokens: list[Token]
    birth: int = 0


class _State(msgspec.Struct):
    streams: list[_Stream]
    freed_streams: list[int]
    users: list[_User]
    freed_users: list[int]
    births: int = 0


#: Permissions hold read-only views of dicts, which MessagePack does not know.
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=dict)
_ENVELOPE: Final = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_DECODER: Final = msgspec.msgpack.Decoder(_State)


def encode(state: Metadata, *, members: bool = False) -> bytes:
    """The state as bytes, with the members of the groups or, for the disk, without them."""
    return _ENCODER.encode(
        (
            VERSION,
            _State(
                [_stream_record(stream, members) for stream in state.streams.in_order()],
                state.streams.freed,
                [_user_record(user) for user in state.users.in_order()],
                state.users.freed,
                state.births,
            ),
        )
    )


def decode(data: bytes | memoryview) -> Metadata:
    """The state that `encode` made the bytes of; `StateCorrupted` when they are damaged."""
    try:
        version, body = _ENVELOPE.decode(data)
        if version != VERSION:
            raise StateCorrupted(f"the snapshot was written in version {version} of its format")
        record = _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateCorrupted(f"the snapshot cannot be read: {error}") from error
    state = Metadata()
    for stream in record.streams:
        state.streams.restore(stream.id, stream.name, _stream(stream))
    state.streams.freed = record.freed_streams
    for user in record.users:
        state.users.restore(user.id, user.username, _user(user))
        state.token_owners.update({token.token_hash: user.id for token in user.tokens})
    state.users.freed = record.freed_users
    state.births = record.births
    _restore_memberships(state)
    state.check()
    return state


def digest(state: Metadata, *, members: bool = False) -> str:
    """A short text that is the same for equal states, for comparing shards and replays."""
    return blake2b(encode(state, members=members), digest_size=16).hexdigest()


def _stream_record(stream: Stream, members: bool) -> _Stream:
    topics = [_topic_record(topic, members) for topic in stream.topics.in_order()]
    return like(_Stream, stream, topics=topics, freed_topics=stream.topics.freed)


def _topic_record(topic: Topic, members: bool) -> _Topic:
    return like(
        _Topic,
        topic,
        partitions=[record.created_at for record in topic.partitions.values()],
        groups=[_group_record(group, members) for group in topic.groups.in_order()],
        freed_groups=topic.groups.freed,
    )


def _group_record(group: Group, members: bool) -> _Group:
    if not members:
        return _Group(group.id, group.name, birth=group.birth)
    return _Group(
        group.id,
        group.name,
        [
            _Member(slot, member.id, member.client_id, member.partitions)
            for slot, member in sorted(group.members.items())
        ],
        group.members.freed,
        [(p, pending.target, pending.since) for p, pending in sorted(group.pending.items())],
        group.birth,
    )


def _user_record(user: User) -> _User:
    return like(_User, user, tokens=[token for _, token in sorted(user.tokens.items())])


def _stream(record: _Stream) -> Stream:
    stream = Stream(record.id, record.name, record.created_at, birth=record.birth)
    for topic in record.topics:
        stream.topics.restore(topic.id, topic.name, _topic(topic))
    stream.topics.freed = record.freed_topics
    return stream


def _topic(record: _Topic) -> Topic:
    partitions = {p: PartitionRecord(p, at) for p, at in enumerate(record.partitions)}
    topic = like(Topic, record, partitions=partitions, groups=Slots())
    for group in record.groups:
        topic.groups.restore(group.id, group.name, _group(group))
    topic.groups.freed = record.freed_groups
    return topic


def _group(record: _Group) -> Group:
    group = Group(record.id, record.name, birth=record.birth)
    for member in record.members:
        restored = Member(member.id, member.client_id, member.partitions)
        group.members.restore(member.slot, member.client_id, restored)
    group.members.freed = record.freed_slots
    group.pending = {p: Revocation(target, since) for p, target, since in record.pending}
    return group


def _user(record: _User) -> User:
    return like(User, record, tokens={token.name: token for token in record.tokens})


def _restore_memberships(state: Metadata) -> None:
    for stream in state.streams.values():
        for topic in stream.topics.values():
            for group in topic.groups.values():
                for client_id in group.members.ids:
                    address = GroupAddress(stream.id, topic.id, group.id)
                    state.memberships.setdefault(client_id, set()).add(address)
