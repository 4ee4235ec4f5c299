"""What the commands about streams do to the state."""

from borzoi.metadata import queries
from borzoi.metadata.effects import ApplyResult, Change, DeletedStream, PartitionIds, PurgedStream
from borzoi.metadata.grants import withdraw_stream
from borzoi.metadata.groups import forget_members, handovers_of
from borzoi.metadata.state import GroupAddress, Metadata, Stream
from borzoi.model.errors import LimitReached, StreamNameTaken
from borzoi.model.identifiers import checked_name
from borzoi.model.limits import STREAMS_MAX
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    PurgeStream,
    StreamInfo,
    UpdateStream,
)


def create_stream(state: Metadata, command: CreateStream, at: int) -> Change:
    name = checked_name(command.name)
    if name in state.streams.ids:
        raise StreamNameTaken(f"stream {name!r} exists already")
    if len(state.streams) >= STREAMS_MAX:
        raise LimitReached(f"there are {STREAMS_MAX} streams, which is as many as can be addressed")

    def change() -> ApplyResult:
        stream = Stream(state.streams.next_id, name, at, birth=state.next_birth())
        state.streams.add(name, stream)
        return ApplyResult(StreamInfo(stream.id, at, 0, 0, 0, name))

    return change


def update_stream(state: Metadata, command: UpdateStream) -> Change:
    stream = queries.stream(state, command.stream_id)
    name = checked_name(command.name)
    if state.streams.ids.get(name, stream.id) != stream.id:
        raise StreamNameTaken(f"stream {name!r} exists already")

    def change() -> ApplyResult:
        state.streams.rename(stream.name, name)
        stream.name = name
        return ApplyResult()

    return change


def delete_stream(state: Metadata, command: DeleteStream) -> Change:
    stream = queries.stream(state, command.stream_id)

    def change() -> ApplyResult:
        for topic in stream.topics.values():
            for group in topic.groups.values():
                forget_members(state, GroupAddress(stream.id, topic.id, group.id), group)
        state.streams.remove(stream.name)
        withdraw_stream(state, stream.id)
        return ApplyResult(effects=(DeletedStream(stream.id, _partitions_by_topic(stream)),))

    return change


def purge_stream(state: Metadata, command: PurgeStream) -> Change:
    stream = queries.stream(state, command.stream_id)
    effect = PurgedStream(stream.id, _partitions_by_topic(stream))

    def change() -> ApplyResult:
        topics = stream.topics.in_order()
        handovers = [check for topic in topics for check in handovers_of(stream.id, topic)]
        return ApplyResult(effects=(effect, *handovers))

    return change


def _partitions_by_topic(stream: Stream) -> tuple[tuple[int, PartitionIds], ...]:
    return tuple((topic.id, tuple(topic.partitions)) for topic in stream.topics.in_order())
