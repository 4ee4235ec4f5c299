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
from typing import ClassVar, Final, Self

from borzoi.model.errors import InvalidFormat
from borzoi.model.identifiers import Identifier
from borzoi.model.value import Value
from borzoi.protocol.buffers import Reader, Writer
from borzoi.protocol.codes import Code
from borzoi.protocol.contract import Listing, RequestValue, Response
from borzoi.protocol.naming import OfGroup, OfTopic

_GROUP: Final = struct.Struct("<III")


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


class GroupInfo(Value):
    id: int
    partitions_count: int
    members_count: int
    name: str

    def encode(self, out: Writer) -> None:
        _write_group(out, self)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        group_id, partitions_count, members_count = reader.unpack(_GROUP)
        return cls(group_id, partitions_count, members_count, reader.name())


class GroupDetails(Value):
    id: int
    partitions_count: int
    name: str
    members: tuple[GroupMember, ...]

    @property
    def members_count(self) -> int:
        return len(self.members)

    def encode(self, out: Writer) -> None:
        _write_group(out, self)
        out.all_of(self.members)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        group_id, partitions_count, members_count = reader.unpack(_GROUP)
        name = reader.name()
        members = reader.all_of(GroupMember.decode)
        if len(members) != members_count:
            raise InvalidFormat(
                f"{len(members)} members follow a group that claims {members_count}"
            )
        return cls(group_id, partitions_count, name, members)


def _write_group(out: Writer, group: GroupInfo | GroupDetails) -> None:
    out.pack(_GROUP, group.id, group.partitions_count, group.members_count).name(group.name)


class Groups(Listing):
    ITEM = GroupInfo
    groups: tuple[GroupInfo, ...]


class GetConsumerGroup(OfGroup):
    CODE = Code.GET_CONSUMER_GROUP
    RESPONSE: ClassVar[type[Response] | None] = GroupDetails


class GetConsumerGroups(OfTopic):
    CODE = Code.GET_CONSUMER_GROUPS
    RESPONSE: ClassVar[type[Response] | None] = Groups


class CreateConsumerGroup(RequestValue):
    CODE = Code.CREATE_CONSUMER_GROUP
    RESPONSE: ClassVar[type[Response] | None] = GroupDetails
    stream_id: Identifier
    topic_id: Identifier
    name: str

    def encode(self, out: Writer) -> None:
        out.identifier(self.stream_id).identifier(self.topic_id).name(self.name)

    @classmethod
    def decode(cls, reader: Reader) -> Self:
        return cls(reader.identifier(), reader.identifier(), reader.name())


class DeleteConsumerGroup(OfGroup):
    CODE = Code.DELETE_CONSUMER_GROUP


class JoinConsumerGroup(OfGroup):
    CODE = Code.JOIN_CONSUMER_GROUP


class LeaveConsumerGroup(OfGroup):
    CODE = Code.LEAVE_CONSUMER_GROUP
