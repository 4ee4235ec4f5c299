"""What the shell has to do after an entry was applied, and what came out of applying it.

Effects name things by their numbers, because by the time they are carried out the names may be
gone. Every shard gets every effect and carries out what concerns the partitions it owns.
"""

from collections.abc import Callable
from typing import TypeAlias

from borzoi.model.value import Value
from borzoi.protocol.commands.groups import GroupInfo, GroupMember
from borzoi.protocol.commands.streams import StreamInfo
from borzoi.protocol.commands.topics import TopicDetails
from borzoi.protocol.commands.users import UserDetails
from borzoi.protocol.hiding import hiding

PartitionIds: TypeAlias = tuple[int, ...]


class CreatedPartitions(Value):
    """New, empty partitions; none for a topic created without any, whose directory is still due."""

    stream_id: int
    topic_id: int
    partition_ids: PartitionIds


class DeletedPartitions(Value):
    """Partitions to close and delete with their data and offsets."""

    stream_id: int
    topic_id: int
    partition_ids: PartitionIds


class DeletedTopic(Value):
    """A topic to delete with all it held; the partitions are those it had."""

    stream_id: int
    topic_id: int
    partition_ids: PartitionIds


class DeletedStream(Value):
    """A stream to delete with all it held: (topic id, its partitions) by ascending topic id."""

    stream_id: int
    topics: tuple[tuple[int, PartitionIds], ...]


class PurgedTopic(Value):
    """Partitions to empty: messages, stored offsets and marks of what was polled go."""

    stream_id: int
    topic_id: int
    partition_ids: PartitionIds


class PurgedStream(Value):
    """As `PurgedTopic`, for every topic of the stream."""

    stream_id: int
    topics: tuple[tuple[int, PartitionIds], ...]


class DeletedGroup(Value):
    """A group whose stored offsets and marks are to be deleted in these partitions."""

    stream_id: int
    topic_id: int
    group_id: int
    partition_ids: PartitionIds


class DroppedUser(Value):
    """A user was deleted or deactivated: end the sessions logged in as that user."""

    user_id: int


class DroppedToken(Value):
    """A user deleted a token: end the sessions opened with it. Expiry alone ends none."""

    user_id: int
    name: str
    token_hash: str
    __repr__ = hiding("token_hash")


class CheckRevocations(Value):
    """Partitions about to change hands: answer with `CompleteRevocation` for each that the group
    never polled, or whose last polled offset it has committed."""

    stream_id: int
    topic_id: int
    group_id: int
    partition_ids: PartitionIds


class ForgetPolled(Value):
    """Partitions that changed hands without waiting for a commit: what the former owner polled
    no longer counts, or the next handover would wait for a commit that cannot come."""

    stream_id: int
    topic_id: int
    group_id: int
    partition_ids: PartitionIds


Effect: TypeAlias = (
    CreatedPartitions
    | DeletedPartitions
    | DeletedTopic
    | DeletedStream
    | PurgedTopic
    | PurgedStream
    | DeletedGroup
    | DroppedUser
    | DroppedToken
    | CheckRevocations
    | ForgetPolled
)


#: What a creation answers: everything a client is shown about the new thing.
Created: TypeAlias = StreamInfo | TopicDetails | GroupInfo | GroupMember | UserDetails


class ApplyResult(Value):
    """What was created, if anything, and what has to be done about the change."""

    created: Created | None = None
    effects: tuple[Effect, ...] = ()

    @property
    def created_id(self) -> int | None:
        return None if self.created is None else self.created.id


#: What a command that passed its checks still has to do. Command functions check, and return
#: the change: that is how a refused command is known to have left no trace.
Change: TypeAlias = Callable[[], ApplyResult]
