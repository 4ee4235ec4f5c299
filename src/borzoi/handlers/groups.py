"""Consumer groups: listed, made, joined, left, deleted."""

from borzoi.handlers.call import Call
from borzoi.metadata import queries
from borzoi.metadata.groups import JoinGroup, LeaveGroup
from borzoi.metadata.state import Group, Topic
from borzoi.model.errors import ClientNotFound, GroupNotFound
from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
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


async def create_group(request: CreateConsumerGroup, call: Call) -> GroupInfo:
    created = await call.create(request)
    # Looked up afterwards: while it waited for its turn another topic may have got the name.
    topic = queries.topic(call.state, request.stream_id, request.topic_id)
    return group_info(topic.groups[created], topic)


async def delete_group(request: DeleteConsumerGroup, call: Call) -> None:
    await call.submit(request)


async def join_group(request: JoinConsumerGroup, call: Call) -> None:
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    group = queries.group_of(topic, request.group_id)
    client_id = call.session.client_id

    def are_there() -> None:
        # Who hung up while the join waited for its turn would never be taken out of the group
        # again, and its number may be that of a new client.
        if call.services.sessions.get(client_id) is not call.session:
            raise ClientNotFound("the client is gone")
        _ensure_same(group, stream.id, topic.id, call)

    await call.submit(JoinGroup(stream.id, topic.id, group.id, client_id), provided=are_there)


async def leave_group(request: LeaveConsumerGroup, call: Call) -> None:
    stream = queries.stream(call.state, request.stream_id)
    topic = queries.topic_of(stream, request.topic_id)
    group = queries.group_of(topic, request.group_id)
    await call.submit(
        LeaveGroup(stream.id, topic.id, group.id, call.session.client_id),
        provided=lambda: _ensure_same(group, stream.id, topic.id, call),
    )


def _ensure_same(group: Group, stream_id: int, topic_id: int, call: Call) -> None:
    """Numbers of what was deleted are given out again, and a turn may be long in coming."""
    if queries.group(call.state, stream_id, topic_id, group.id) is not group:
        raise GroupNotFound(f"group {group.name!r} was deleted")
