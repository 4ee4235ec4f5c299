"""Consumer groups: listed, made, joined, left, deleted."""

from collections.abc import Coroutine
from typing import Any

from borzoi.handlers.call import Call
from borzoi.metadata import queries
from borzoi.metadata.groups import JoinGroup, LeaveGroup
from borzoi.metadata.guards import GroupIs
from borzoi.metadata.state import Group, Topic
from borzoi.protocol.commands.groups import (
    GetConsumerGroup,
    GetConsumerGroups,
    GroupDetails,
    GroupInfo,
    GroupMember,
    Groups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)


def get_group(request: GetConsumerGroup, call: Call) -> GroupDetails:
    topic = queries.topic(call.state, request.stream_id, request.topic_id)
    group = queries.group_of(topic, request.group_id)
    members = tuple(
        GroupMember(member.id, tuple(member.partitions)) for member in group.members.in_order()
    )
    return GroupDetails(group.id, len(topic.partitions), group.name, members)


def get_groups(request: GetConsumerGroups, call: Call) -> Groups:
    topic = queries.topic(call.state, request.stream_id, request.topic_id)
    return Groups(tuple(group_info(group, topic) for group in topic.groups.in_order()))


def group_info(group: Group, topic: Topic) -> GroupInfo:
    return GroupInfo(group.id, len(topic.partitions), len(group.members), group.name)


def join_group(request: JoinConsumerGroup, call: Call) -> Coroutine[Any, Any, None]:
    group = _group_of(request, call)
    # Not a coroutine itself, because this must be set before anything else runs: if the client
    # hangs up now, the server proposes `ClientGone`, whose turn comes after this join's.
    call.session.joined = True
    return _join(group, call)


async def _join(group: GroupIs, call: Call) -> None:
    await call.submit(JoinGroup(*group.address, call.session.client_id), group)


async def leave_group(request: LeaveConsumerGroup, call: Call) -> None:
    group = _group_of(request, call)
    await call.submit(LeaveGroup(*group.address, call.session.client_id), group)


def _group_of(request: JoinConsumerGroup | LeaveConsumerGroup, call: Call) -> GroupIs:
    """Return the group's ids and birth. Ids of deleted groups are reused, hence the birth."""
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    group = queries.group_of(topic, request.group_id)
    return GroupIs(stream.id, topic.id, group.id, group.birth)
