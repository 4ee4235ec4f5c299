"""Consumer groups.

::

    GetConsumerGroup, DeleteConsumerGroup, JoinConsumerGroup, LeaveConsumerGroup
                         identifier stream_id, identifier topic_id, identifier group_id
    GetConsumerGroups    identifier stream_id, identifier topic_id
    CreateConsumerGroup  identifier stream_id, identifier topic_id, name

    GroupInfo            u32 id, u32 partitions_count (of the topic), u32 members_count, name
    GroupMember          u32 id, u32 n, n × u32 partition_id
    GroupDetails         GroupInfo, then GroupMember × members_count
    Groups               GroupInfo × n, no count
"""

import struct
from typing import Self

from borzoi.model.identifiers import Identifier
from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.contract import Details, Listing, Request
from borzoi.protocol.layout import IDENTIFIER, NAME, Named
from borzoi.protocol.naming import OfGroup, OfTopic


class GroupMember(Value):
    """`id` is a small number inside the group, not the id of the client."""

    id: int
    partitions: tuple[int, ...]

    @property
    def partitions_count(self) -> int:
        return len(self.partitions)

    def encode(self, out: Writer) -> None:
        out.u32(self.id).u32(len(self.partitions))
        for partition_id in self.partitions:
            out.u32(partition_id)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        member_id = reader.u32()
        return cls(member_id, tuple(reader.u32() for _ in range(reader.u32())))


class GroupInfo(Named):
    STRUCT = struct.Struct("<III")
    id: int
    partitions_count: int
    members_count: int
    name: str


class GroupDetails(Details):
    INFO, ITEM = GroupInfo, GroupMember
    id: int
    partitions_count: int
    name: str
    members: tuple[GroupMember, ...]

    @property
    def members_count(self) -> int:
        return len(self.members)


class Groups(Listing):
    ITEM = GroupInfo
    groups: tuple[GroupInfo, ...]


class GetConsumerGroup(OfGroup):
    RESPONSE = GroupDetails


class GetConsumerGroups(OfTopic):
    RESPONSE = Groups


class CreateConsumerGroup(Request):
    RESPONSE = GroupDetails
    LAYOUT = (IDENTIFIER, IDENTIFIER, NAME)
    stream_id: Identifier
    topic_id: Identifier
    name: str


class DeleteConsumerGroup(OfGroup): ...


class JoinConsumerGroup(OfGroup): ...


class LeaveConsumerGroup(OfGroup): ...
