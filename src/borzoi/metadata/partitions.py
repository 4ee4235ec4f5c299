"""What the commands about partitions do to the state.

Partitions of a topic are numbered 0..n-1 without gaps: new ones follow the last, and the ones
deleted are the last. Every group of the topic reassigns them.
"""

from typing import Final

from borzoi.metadata import queries
from borzoi.metadata.effects import (
    ApplyResult,
    Change,
    CreatedPartitions,
    DeletedPartitions,
    Effect,
)
from borzoi.metadata.groups import deal_anew
from borzoi.metadata.state import GroupAddress, Metadata, PartitionRecord, Stream, Topic
from borzoi.model.errors import InvalidPartitionsCount, TooManyPartitions
from borzoi.model.limits import PARTITIONS_PER_REQUEST_MAX, PARTITIONS_PER_TOPIC_MAX, U32_MAX
from borzoi.protocol.commands.partitions import CreatePartitions, DeletePartitions
from borzoi.protocol.commands.topics import CreateTopic

#: How many partitions each request may be about.
COUNT_BOUNDS: Final = {
    CreateTopic: (0, PARTITIONS_PER_REQUEST_MAX),
    CreatePartitions: (1, PARTITIONS_PER_REQUEST_MAX),
    DeletePartitions: (1, U32_MAX),
}


def check_partitions_count(command: CreateTopic | CreatePartitions | DeletePartitions) -> None:
    """Raises `TooManyPartitions` for a count that no topic could make right.

    Checked before anything is looked up and before permissions, as the published servers do.
    """
    least, most = COUNT_BOUNDS[type(command)]
    if not least <= command.partitions_count <= most:
        raise TooManyPartitions(
            f"{command.partitions_count} partitions are not within {least}..{most}"
        )


def create_partitions(state: Metadata, command: CreatePartitions, at: int) -> Change:
    check_partitions_count(command)
    stream = queries.stream(state, command.stream_id)
    topic = queries.topic_of(stream, command.topic_id)
    count = len(topic.partitions)
    if count + command.partitions_count > PARTITIONS_PER_TOPIC_MAX:
        raise TooManyPartitions(
            f"topic {topic.name!r} has {count} partitions, and {command.partitions_count} more"
            f" would exceed the {PARTITIONS_PER_TOPIC_MAX} that can be addressed"
        )

    def change() -> ApplyResult:
        created = new_partitions(count, command.partitions_count, at)
        topic.partitions.update(created)
        effect = CreatedPartitions(stream.id, topic.id, tuple(created))
        return ApplyResult(effects=(effect, *_deal_to_groups(stream, topic)))

    return change


def delete_partitions(state: Metadata, command: DeletePartitions) -> Change:
    check_partitions_count(command)
    stream = queries.stream(state, command.stream_id)
    topic = queries.topic_of(stream, command.topic_id)
    left = len(topic.partitions) - command.partitions_count
    if left < 0:
        raise InvalidPartitionsCount(
            f"topic {topic.name!r} has {len(topic.partitions)} partitions,"
            f" so {command.partitions_count} cannot be deleted"
        )

    def change() -> ApplyResult:
        deleted = tuple(range(left, len(topic.partitions)))
        for partition_id in deleted:
            del topic.partitions[partition_id]
        effect = DeletedPartitions(stream.id, topic.id, deleted)
        return ApplyResult(effects=(effect, *_deal_to_groups(stream, topic)))

    return change


def new_partitions(first: int, count: int, at: int) -> dict[int, PartitionRecord]:
    return {number: PartitionRecord(number, at) for number in range(first, first + count)}


def _deal_to_groups(stream: Stream, topic: Topic) -> list[Effect]:
    effects: list[Effect] = []
    for group in topic.groups.in_order():
        effects += deal_anew(GroupAddress(stream.id, topic.id, group.id), topic, group)
    return effects
