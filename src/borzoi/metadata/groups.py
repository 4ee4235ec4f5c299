"""Consumer groups: creation, members, and partitions that change hands without losing a commit.

Joining is cooperative. The new member is assigned its fair share at once, but a partition that its
owner has polled only moves when the owner has committed, or after a timeout. Until then it is
*pending revocation*: it stays with its owner, whose polls without a partition skip it. When a
member leaves, or partitions are added or removed, all partitions are reassigned.

Membership belongs to connections. It takes the same door as every other change, so that all
shards agree on it, but it is never logged: after a restart a group has no members.
"""

from collections.abc import Collection
from typing import TypeAlias

from borzoi.metadata import queries
from borzoi.metadata.assignment import deal, levelling
from borzoi.metadata.effects import (
    ApplyResult,
    Change,
    CheckRevocations,
    DeletedGroup,
    Effect,
    ForgetPolled,
)
from borzoi.metadata.state import Group, GroupAddress, Member, Metadata, Revocation, Topic
from borzoi.model.errors import GroupNameTaken
from borzoi.model.identifiers import checked_name
from borzoi.model.value import Value
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GroupInfo,
    GroupMember,
)


class JoinGroup(Value):
    """A client becomes a member; joining twice changes nothing."""

    stream_id: int
    topic_id: int
    group_id: int
    client_id: int


class LeaveGroup(Value):
    """A member leaves while its connection stays open."""

    stream_id: int
    topic_id: int
    group_id: int
    client_id: int


class ClientGone(Value):
    """A connection ended, or was found stale: it leaves every group it had joined."""

    client_id: int


class CompleteRevocation(Value):
    """The owner of a pending partition has committed: the partition moves.

    Means nothing when the partition is not, or no longer, pending.
    """

    stream_id: int
    topic_id: int
    group_id: int
    partition_id: int


class ExpireRevocations(Value):
    """Partitions pending since `before` or longer move, committed or not."""

    before: int


VolatileCommand: TypeAlias = (
    JoinGroup | LeaveGroup | ClientGone | CompleteRevocation | ExpireRevocations
)


def create_group(state: Metadata, command: CreateConsumerGroup) -> Change:
    topic = queries.topic(state, command.stream_id, command.topic_id)
    name = checked_name(command.name)
    if name in topic.groups.ids:
        raise GroupNameTaken(f"consumer group {name!r} exists already in topic {topic.name!r}")

    def change() -> ApplyResult:
        group = Group(topic.groups.next_id, name, birth=state.next_birth())
        topic.groups.add(name, group)
        return ApplyResult(GroupInfo(group.id, len(topic.partitions), 0, name))

    return change


def delete_group(state: Metadata, command: DeleteConsumerGroup) -> Change:
    stream = queries.stream(state, command.stream_id)
    topic = queries.topic_of(stream, command.topic_id)
    group = queries.group_of(topic, command.group_id)
    address = GroupAddress(stream.id, topic.id, group.id)

    def change() -> ApplyResult:
        forget_members(state, address, group)
        topic.groups.remove(group.name)
        return ApplyResult(effects=(DeletedGroup(*address, tuple(topic.partitions)),))

    return change


def join_group(state: Metadata, command: JoinGroup, at: int) -> Change:
    address = GroupAddress(command.stream_id, command.topic_id, command.group_id)
    group = queries.group(state, *address)
    topic = queries.topic(state, command.stream_id, command.topic_id)

    def change() -> ApplyResult:
        known = group.members.named(command.client_id)
        if known is not None:
            return ApplyResult(GroupMember(known.id, tuple(known.partitions)))
        member = Member(_next_member_id(group), command.client_id)
        group.members.add(command.client_id, member)
        state.memberships.setdefault(command.client_id, set()).add(address)
        pending = _promise_shares(topic, group, at)
        effects = (CheckRevocations(*address, pending),) if pending else ()
        return ApplyResult(GroupMember(member.id, tuple(member.partitions)), effects)

    return change


def handovers_of(stream_id: int, topic: Topic) -> tuple[CheckRevocations, ...]:
    """Return the handovers to check again when the messages they wait for were removed."""
    return tuple(
        CheckRevocations(stream_id, topic.id, group.id, tuple(group.pending))
        for group in topic.groups.in_order()
        if group.pending
    )


def leave_group(state: Metadata, command: LeaveGroup) -> Change:
    address = GroupAddress(command.stream_id, command.topic_id, command.group_id)
    queries.member(queries.group(state, *address), command.client_id)
    return lambda: ApplyResult(effects=_part(state, address, command.client_id))


def client_gone(state: Metadata, command: ClientGone) -> Change:
    def change() -> ApplyResult:
        effects: list[Effect] = []
        for address in queries.groups_of(state, command.client_id):
            effects += _part(state, address, command.client_id)
        return ApplyResult(effects=tuple(effects))

    return change


def complete_revocation(state: Metadata, command: CompleteRevocation) -> Change:
    group = queries.find_group(state, command.stream_id, command.topic_id, command.group_id)

    def change() -> ApplyResult:
        if group is not None and command.partition_id in group.pending:
            _hand_over(group, command.partition_id)
        return ApplyResult()

    return change


def expire_revocations(state: Metadata, command: ExpireRevocations) -> Change:
    def change() -> ApplyResult:
        effects: list[Effect] = []
        for address in queries.groups_with_members(state):
            group = queries.group(state, *address)
            overdue = [p for p in sorted(group.pending) if group.pending[p].since <= command.before]
            for partition_id in overdue:
                _hand_over(group, partition_id)
            if overdue:
                effects.append(ForgetPolled(*address, tuple(overdue)))
        return ApplyResult(effects=tuple(effects))

    return change


def deal_anew(
    address: GroupAddress, topic: Topic, group: Group, *, orphaned: Collection[int] = ()
) -> tuple[Effect, ...]:
    """Hands out all partitions of the topic in turn, regardless of their former owners.

    `orphaned` are the partitions of a member that has just been removed.
    """
    before = _owners(group)
    group.pending.clear()
    members = group.members.in_order()
    if members:
        hands = deal(list(topic.partitions), len(members))
        for member, partitions in zip(members, hands, strict=True):
            member.partitions = partitions
    after = _owners(group)
    moved = tuple(
        p for p in topic.partitions if p in orphaned or (p in before and before[p] != after[p])
    )
    return (ForgetPolled(*address, moved),) if moved else ()


def forget_members(state: Metadata, address: GroupAddress, group: Group) -> None:
    """Remove all members: the group is being deleted."""
    for client_id in group.members.ids:
        _forget_membership(state, address, client_id)


def _part(state: Metadata, address: GroupAddress, client_id: int) -> tuple[Effect, ...]:
    topic = queries.topic(state, address.stream_id, address.topic_id)
    group = topic.groups[address.group_id]
    leaver = group.members.remove(client_id)
    _forget_membership(state, address, client_id)
    return deal_anew(address, topic, group, orphaned=frozenset(leaver.partitions))


def _forget_membership(state: Metadata, address: GroupAddress, client_id: int) -> None:
    joined = state.memberships[client_id]
    joined.remove(address)
    if not joined:
        del state.memberships[client_id]


def _promise_shares(topic: Topic, group: Group, at: int) -> tuple[int, ...]:
    """Levels the promised shares; assigns unowned partitions and returns what became pending."""
    slots = sorted(group.members)
    position = {slot: index for index, slot in enumerate(slots)}
    # What a member has been promised but not received comes last in its list, so that it is the
    # first to be promised to another member: moving a promise costs nothing.
    held = [[p for p in group.members[slot].partitions if p not in group.pending] for slot in slots]
    for partition_id in sorted(group.pending):
        held[position[group.pending[partition_id].target]].append(partition_id)
    owned = {p for member in group.members.values() for p in member.partitions}
    started: list[int] = []
    for move in levelling(held, [p for p in topic.partitions if p not in owned]):
        target = slots[move.target]
        if move.source is None:
            group.members[target].partitions.append(move.partition_id)
        elif move.partition_id in group.pending:
            since = group.pending[move.partition_id].since
            group.pending[move.partition_id] = Revocation(target, since)
        else:
            group.pending[move.partition_id] = Revocation(target, at)
            started.append(move.partition_id)
    return tuple(sorted(started))


def _hand_over(group: Group, partition_id: int) -> None:
    revocation = group.pending.pop(partition_id)
    for member in group.members.values():
        if partition_id in member.partitions:
            member.partitions.remove(partition_id)
    receiver = group.members[revocation.target]
    receiver.partitions = sorted([*receiver.partitions, partition_id])


def _owners(group: Group) -> dict[int, int]:
    """Client id of the owner of each partition."""
    return {p: member.client_id for member in group.members.values() for p in member.partitions}


def _next_member_id(group: Group) -> int:
    return max((member.id for member in group.members.values()), default=-1) + 1
