"""Reading the state: find by number or by name, list, and resolve what a group member reads.

`find_x` gives None for what is not there, `x` raises the not-found error that clients know.
Nothing here changes the state, except that a poll moves the member's own position.
"""

from borzoi.metadata.slots import Item, Slots
from borzoi.metadata.state import (
    Group,
    GroupAddress,
    Member,
    Metadata,
    PartitionRecord,
    Stream,
    Token,
    Topic,
    User,
)
from borzoi.model.errors import (
    GroupNotFound,
    MemberNotFound,
    PartitionNotFound,
    ResourceNotFound,
    StreamNotFound,
    TopicNotFound,
)
from borzoi.model.identifiers import Identifier


def find_stream(state: Metadata, stream_id: Identifier) -> Stream | None:
    return _find(state.streams, stream_id)


def stream(state: Metadata, stream_id: Identifier) -> Stream:
    found = _find(state.streams, stream_id)
    if found is None:
        raise StreamNotFound(f"there is no stream {stream_id!r}")
    return found


def find_topic(state: Metadata, stream_id: Identifier, topic_id: Identifier) -> Topic | None:
    parent = _find(state.streams, stream_id)
    return None if parent is None else _find(parent.topics, topic_id)


def topic(state: Metadata, stream_id: Identifier, topic_id: Identifier) -> Topic:
    return topic_of(stream(state, stream_id), topic_id)


def topic_of(parent: Stream, topic_id: Identifier) -> Topic:
    """The topic within a stream already at hand."""
    found = _find(parent.topics, topic_id)
    if found is None:
        raise TopicNotFound(f"there is no topic {topic_id!r} in stream {parent.name!r}")
    return found


def find_partition(
    state: Metadata, stream_id: Identifier, topic_id: Identifier, partition_id: int
) -> PartitionRecord | None:
    parent = find_topic(state, stream_id, topic_id)
    return None if parent is None else parent.partitions.get(partition_id)


def partition(
    state: Metadata, stream_id: Identifier, topic_id: Identifier, partition_id: int
) -> PartitionRecord:
    return partition_of(topic(state, stream_id, topic_id), partition_id)


def partition_of(parent: Topic, partition_id: int) -> PartitionRecord:
    """The partition within a topic already at hand."""
    found = parent.partitions.get(partition_id)
    if found is None:
        raise PartitionNotFound(f"there is no partition {partition_id} in topic {parent.name!r}")
    return found


def find_group(
    state: Metadata, stream_id: Identifier, topic_id: Identifier, group_id: Identifier
) -> Group | None:
    parent = find_topic(state, stream_id, topic_id)
    return None if parent is None else _find(parent.groups, group_id)


def group(
    state: Metadata, stream_id: Identifier, topic_id: Identifier, group_id: Identifier
) -> Group:
    return group_of(topic(state, stream_id, topic_id), group_id)


def group_of(parent: Topic, group_id: Identifier) -> Group:
    """The group within a topic already at hand."""
    found = _find(parent.groups, group_id)
    if found is None:
        raise GroupNotFound(f"there is no consumer group {group_id!r} in topic {parent.name!r}")
    return found


def find_user(state: Metadata, user_id: Identifier) -> User | None:
    return _find(state.users, user_id)


def user(state: Metadata, user_id: Identifier) -> User:
    found = _find(state.users, user_id)
    if found is None:
        raise ResourceNotFound(f"there is no user {user_id!r}")
    return found


def tokens_of(state: Metadata, user_id: Identifier) -> list[Token]:
    """The user's tokens by name, including expired ones that are not cleared yet."""
    tokens = user(state, user_id).tokens
    return [tokens[name] for name in sorted(tokens)]


def token_owner(state: Metadata, token_hash: str) -> tuple[User, Token] | None:
    """The user a token opens the door for; whether it has expired is for the caller to ask."""
    user_id = state.token_owners.get(token_hash)
    if user_id is None:
        return None
    owner = state.users[user_id]
    return owner, next(token for token in owner.tokens.values() if token.token_hash == token_hash)


def has_expired_tokens(state: Metadata, now: int) -> bool:
    """Whether an `ExpireTokens` would change anything; otherwise none is logged."""
    return any(
        token.has_expired(now) for owner in state.users.values() for token in owner.tokens.values()
    )


def groups_of(state: Metadata, client_id: int) -> list[GroupAddress]:
    """The groups a client is a member of, in ascending order."""
    return sorted(state.memberships.get(client_id, ()))


def groups_with_members(state: Metadata) -> list[GroupAddress]:
    """Groups with at least one member, in ascending order."""
    return sorted({address for joined in state.memberships.values() for address in joined})


def find_member(group: Group, client_id: int) -> Member | None:
    return group.members.named(client_id)


def member(group: Group, client_id: int) -> Member:
    found = group.members.named(client_id)
    if found is None:
        raise MemberNotFound(f"client {client_id} is not a member of consumer group {group.name!r}")
    return found


def member_partitions(group: Group, client_id: int) -> list[int]:
    """The partitions a member may read and commit, those pending revocation included."""
    return member(group, client_id).partitions


def next_polled_partition(group: Group, client_id: int) -> int | None:
    """The partition a poll without one reads: the next in turn that is not about to leave.

    None when the member has no such partition. Moves the member's position on.
    """
    polling = member(group, client_id)
    index = _next_index(group, polling)
    if index is None:
        return None
    polling.position = (index + 1) % len(polling.partitions)
    return polling.partitions[index]


def current_partition(group: Group, client_id: int) -> int | None:
    """The partition an offset command without one is about: the next poll's, which stays so."""
    polling = member(group, client_id)
    index = _next_index(group, polling)
    return None if index is None else polling.partitions[index]


def is_pending(group: Group, partition_id: int) -> bool:
    """Whether the partition waits for a commit before it moves to another member."""
    return partition_id in group.pending


def has_expired_revocations(state: Metadata, before: int) -> bool:
    """Whether an `ExpireRevocations` would find anything to do."""
    return any(
        revocation.since <= before
        for address in groups_with_members(state)
        for revocation in group(state, *address).pending.values()
    )


def _next_index(group: Group, polling: Member) -> int | None:
    partitions = polling.partitions
    for step in range(len(partitions)):
        index = (polling.position + step) % len(partitions)
        if partitions[index] not in group.pending:
            return index
    return None


def _find(slots: Slots[str, Item], identifier: Identifier) -> Item | None:
    return slots.get(identifier) if isinstance(identifier, int) else slots.named(identifier)
