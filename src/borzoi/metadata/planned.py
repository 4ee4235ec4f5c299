"""What a command is about to create, known before it is logged.

Ids are reused. Leftover files under an id must be removed before the log says that the id
belongs to something new: afterwards old and new files cannot be distinguished.
"""

from typing import TypeAlias

from borzoi.metadata import queries
from borzoi.metadata.commands import Command
from borzoi.metadata.effects import PartitionIds
from borzoi.metadata.state import Metadata
from borzoi.model.value import Value
from borzoi.protocol.commands.partitions import CreatePartitions
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic


class PlannedStream(Value):
    stream_id: int


class PlannedTopic(Value):
    stream_id: int
    topic_id: int
    partitions_count: int


class PlannedPartitions(Value):
    """More partitions of a topic that exists."""

    stream_id: int
    topic_id: int
    partition_ids: PartitionIds


Planned: TypeAlias = PlannedStream | PlannedTopic | PlannedPartitions


def planned(state: Metadata, command: Command) -> Planned | None:
    """What a command that `machine.verify` lets pass will create, if it has a place on the disk."""
    match command:
        case CreateStream():
            return PlannedStream(state.streams.next_id)
        case CreateTopic():
            stream = queries.stream(state, command.stream_id)
            return PlannedTopic(stream.id, stream.topics.next_id, command.partitions_count)
        case CreatePartitions():
            stream = queries.stream(state, command.stream_id)
            topic = queries.topic_of(stream, command.topic_id)
            first = len(topic.partitions)
            numbers = range(first, first + command.partitions_count)
            return PlannedPartitions(stream.id, topic.id, tuple(numbers))
        case _:
            return None
