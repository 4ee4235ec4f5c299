"""The state machines the simulated replicas drive: the control plane and one data group.

Both are functions of the applied ops and nothing else: no clock, no order of dictionaries that
depends on timing. Their snapshots are byte-identical on every replica for the same op.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from borzoi.consensus.checkpoint import Artifact, ArtifactKind
from borzoi.consensus.machine import Outcome, Proposal, Stamped
from borzoi.consensus.messages import Prepare
from borzoi.model.namespace import Namespace, pack
from borzoi.simulator import operations as ops
from borzoi.simulator.operations import STATUS, Status, reply

STREAMS_MAX: Final = 6
TOPICS_MAX: Final = 4
PARTITIONS_MAX: Final = 8
ENCODER: Final = msgspec.msgpack.Encoder(order="sorted")


class Divergence(Exception):
    """A committed batch does not continue the partition it names: replicas have drifted apart."""


@dataclass(slots=True)
class Topic:
    name: str
    # Per partition the control op that created it; numbers are reused, incarnations never.
    partitions: list[int] = field(default_factory=list)
    generation: int = 0
    groups: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Stream:
    name: str
    topics: dict[int, Topic] = field(default_factory=dict)


def outcome(answer: bytes) -> Outcome:
    return Outcome(STATUS.unpack_from(answer)[0], answer)


def lowest_free(taken: dict[int, Any]) -> int:
    return next(number for number in range(len(taken) + 1) if number not in taken)


class ControlMachine:
    """Streams, topics, partitions and groups; deletes answer with the partitions to forget."""

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}
        self.restores = 0

    def stamp(self, proposal: Proposal, timestamp: int) -> Stamped | int:
        return Stamped(proposal.payload, 0)

    def forget_prepared(self) -> None:
        """Nothing is kept between stamping and applying."""

    def apply(self, header: Prepare, body: bytes) -> Outcome:
        return outcome(self.execute(header.op, header.operation, body))

    def checkpoint(self, op: int) -> tuple[Artifact, ...]:
        return (Artifact(ArtifactKind.SNAPSHOT, op, self.snapshot()),)

    def restore(self, op: int, artifacts: tuple[Artifact, ...]) -> None:
        self.streams = {}
        self.restores += 1
        for artifact in artifacts:
            if artifact.kind == ArtifactKind.SNAPSHOT:
                self.load(artifact.content)

    def execute(self, op: int, operation: int, body: bytes) -> bytes:
        try:
            arguments = msgspec.msgpack.decode(body)
            match operation, arguments:
                case ops.CREATE_STREAM, [str(name)]:
                    return self._create_stream(name)
                case ops.DELETE_STREAM, [str(name)]:
                    return self._delete_stream(name)
                case ops.PURGE_STREAM, [str(name)]:
                    return self._purge_stream(name)
                case ops.CREATE_TOPIC, [str(stream), str(name), int(count)]:
                    return self._create_topic(op, stream, name, count)
                case ((ops.DELETE_TOPIC | ops.PURGE_TOPIC), [str(stream), str(name)]):
                    return self._change_topic(op, operation, stream, name, None)
                case (
                    (ops.CREATE_PARTITIONS | ops.DELETE_PARTITIONS),
                    [str(stream), str(name), int(count)],
                ):
                    return self._change_topic(op, operation, stream, name, count)
                case ((ops.CREATE_GROUP | ops.DELETE_GROUP), [str(stream), str(name), str(group)]):
                    return self._change_topic(op, operation, stream, name, group)
        except (msgspec.DecodeError, ValueError):
            pass
        return reply(Status.INVALID)

    def _find(self, name: str) -> int | None:
        return next((key for key, value in self.streams.items() if value.name == name), None)

    def _partitions(self, stream_id: int, topic_id: int) -> list[tuple[int, int]]:
        topic = self.streams[stream_id].topics[topic_id]
        return [
            (pack(Namespace(stream_id, topic_id, number)), incarnation)
            for number, incarnation in enumerate(topic.partitions)
        ]

    def _create_stream(self, name: str) -> bytes:
        if self._find(name) is not None:
            return reply(Status.NAME_TAKEN)
        if len(self.streams) >= STREAMS_MAX:
            return reply(Status.LIMIT)
        stream_id = lowest_free(self.streams)
        self.streams[stream_id] = Stream(name)
        return reply(Status.OK, stream_id)

    def _delete_stream(self, name: str) -> bytes:
        stream_id = self._find(name)
        if stream_id is None:
            return reply(Status.NOT_FOUND)
        gone = [
            partition
            for topic_id in sorted(self.streams[stream_id].topics)
            for partition in self._partitions(stream_id, topic_id)
        ]
        del self.streams[stream_id]
        return reply(Status.OK, gone)

    def _purge_stream(self, name: str) -> bytes:
        stream_id = self._find(name)
        if stream_id is None:
            return reply(Status.NOT_FOUND)
        purged = []
        for topic_id, topic in sorted(self.streams[stream_id].topics.items()):
            topic.generation += 1
            purged += [
                (*partition, topic.generation)
                for partition in self._partitions(stream_id, topic_id)
            ]
        return reply(Status.OK, purged)

    def _create_topic(self, op: int, stream: str, name: str, count: int) -> bytes:
        stream_id = self._find(stream)
        if stream_id is None:
            return reply(Status.NOT_FOUND)
        topics = self.streams[stream_id].topics
        if any(topic.name == name for topic in topics.values()):
            return reply(Status.NAME_TAKEN)
        if len(topics) >= TOPICS_MAX or not 0 < count <= PARTITIONS_MAX:
            return reply(Status.LIMIT)
        topic_id = lowest_free(topics)
        topics[topic_id] = Topic(name, [op] * count)
        return reply(Status.OK, self._partitions(stream_id, topic_id))

    def _change_topic(
        self,
        op: int,
        operation: int,
        stream: str,
        name: str,
        argument: Any,
    ) -> bytes:
        stream_id = self._find(stream)
        topics = {} if stream_id is None else self.streams[stream_id].topics
        topic_id = next((key for key, topic in topics.items() if topic.name == name), None)
        if stream_id is None or topic_id is None:
            return reply(Status.NOT_FOUND)
        topic = topics[topic_id]
        partitions = self._partitions(stream_id, topic_id)
        match operation:
            case ops.DELETE_TOPIC:
                del topics[topic_id]
                return reply(Status.OK, partitions)
            case ops.PURGE_TOPIC:
                topic.generation += 1
                return reply(Status.OK, [(*one, topic.generation) for one in partitions])
            case ops.CREATE_PARTITIONS:
                if not 0 < argument <= PARTITIONS_MAX - len(topic.partitions):
                    return reply(Status.LIMIT)
                topic.partitions += [op] * argument
                return reply(Status.OK, self._partitions(stream_id, topic_id)[-argument:])
            case ops.DELETE_PARTITIONS:
                if not 0 < argument < len(topic.partitions):
                    return reply(Status.LIMIT)
                del topic.partitions[-argument:]
                return reply(Status.OK, partitions[-argument:])
            case ops.CREATE_GROUP:
                if argument in topic.groups:
                    return reply(Status.NAME_TAKEN)
                topic.groups = sorted([*topic.groups, argument])
            case _:
                if argument not in topic.groups:
                    return reply(Status.NOT_FOUND)
                topic.groups.remove(argument)
        return reply(Status.OK)

    def snapshot(self) -> bytes:
        return ENCODER.encode(
            [
                (
                    key,
                    one.name,
                    [
                        (topic_id, topic.name, topic.partitions, topic.generation, topic.groups)
                        for topic_id, topic in sorted(one.topics.items())
                    ],
                )
                for key, one in sorted(self.streams.items())
            ]
        )

    def load(self, snapshot: bytes) -> None:
        self.streams = {
            key: Stream(name, {topic[0]: Topic(*topic[1:]) for topic in topics})
            for key, name, topics in msgspec.msgpack.decode(snapshot)
        }


@dataclass(slots=True)
class Partition:
    first_offset: int = 0
    next_offset: int = 0
    generation: int = 0
    messages: list[bytes] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)


class DataMachine:
    """The partitions of one data group: dense offsets that are never minted twice."""

    def __init__(self, control_commit: Callable[[], int] = lambda: 1 << 62) -> None:
        self.partitions: dict[tuple[int, int], Partition] = {}
        self.forgotten: set[tuple[int, int]] = set()
        self.restores = 0
        self._prepared: dict[tuple[int, int], int] = {}
        self._control_commit = control_commit

    def stamp(self, proposal: Proposal, timestamp: int) -> Stamped | int:
        """Offsets continue the prepared end: what is applied plus what is in the pipeline."""
        body = proposal.payload
        if len(body) < ops.DESCRIPTOR.size:
            return Status.INVALID
        descriptor = ops.unpack(body)
        if proposal.operation != ops.SEND_MESSAGES:
            return Stamped(body, descriptor.namespace)
        key = (descriptor.namespace, descriptor.incarnation)
        end = self._prepared.get(key)
        if end is None:
            end = self.next_offset(*key)
        self._prepared[key] = end + descriptor.count
        return Stamped(ops.stamped(body, end, timestamp), descriptor.namespace)

    def forget_prepared(self) -> None:
        self._prepared.clear()

    def apply(self, header: Prepare, body: bytes) -> Outcome | None:
        # X1: the partition's creation may not have been applied here yet; then the op waits.
        if len(body) >= ops.DESCRIPTOR.size:
            incarnation = ops.INCARNATION.unpack_from(body, 8)[0]
            if incarnation > self._control_commit():
                return None
        return outcome(self.execute(header.op, header.operation, body))

    def checkpoint(self, op: int) -> tuple[Artifact, ...]:
        return (Artifact(ArtifactKind.SNAPSHOT, op, self.snapshot()),)

    def restore(self, op: int, artifacts: tuple[Artifact, ...]) -> None:
        self.partitions, self.forgotten = {}, set()
        self.restores += 1
        self._prepared.clear()
        for artifact in artifacts:
            if artifact.kind == ArtifactKind.SNAPSHOT:
                self.load(artifact.content)

    def next_offset(self, namespace: int, incarnation: int) -> int:
        partition = self.partitions.get((namespace, incarnation))
        return partition.next_offset if partition is not None else 0

    def execute(self, op: int, operation: int, body: bytes) -> bytes:
        if len(body) < ops.DESCRIPTOR.size:
            return reply(Status.INVALID)
        descriptor = ops.unpack(body)
        key = (descriptor.namespace, descriptor.incarnation)
        if key in self.forgotten:
            return reply(Status.NO_PARTITION)
        if operation == ops.FORGET_PARTITION:
            self.forgotten.add(key)
            self.partitions.pop(key, None)
            return reply(Status.OK)
        partition = self.partitions.get(key)
        if partition is None:
            partition = self.partitions[key] = Partition()
        if operation == ops.SEND_MESSAGES:
            return self._append(partition, descriptor, body)
        return self._change(partition, operation, descriptor)

    def _append(self, partition: Partition, descriptor: ops.Descriptor, body: bytes) -> bytes:
        if descriptor.base_offset != partition.next_offset:
            raise Divergence(
                f"batch at offset {descriptor.base_offset} after {partition.next_offset}"
                f" in partition {descriptor.namespace:#x}/{descriptor.incarnation}"
            )
        partition.messages += ops.payloads_of(body)
        partition.next_offset += descriptor.count
        return reply(Status.OK, descriptor.base_offset)

    def _change(self, partition: Partition, operation: int, descriptor: ops.Descriptor) -> bytes:
        argument, consumer = descriptor.base_offset, descriptor.count
        match operation:
            case ops.STORE_OFFSET:
                if argument >= partition.next_offset:
                    return reply(Status.INVALID)
                partition.offsets[consumer] = argument
            case ops.DELETE_OFFSET:
                if partition.offsets.pop(consumer, None) is None:
                    return reply(Status.NOT_FOUND)
            case ops.TRUNCATE_PARTITION:
                upto = min(argument, partition.next_offset)
                if upto > partition.first_offset:
                    del partition.messages[: upto - partition.first_offset]
                    partition.first_offset = upto
            case ops.PURGE_PARTITION:
                if argument > partition.generation:
                    partition.generation = argument
                    partition.messages.clear()
                    partition.offsets.clear()
                    partition.first_offset = partition.next_offset
            case _:
                return reply(Status.INVALID)
        return reply(Status.OK, partition.next_offset)

    def snapshot(self) -> bytes:
        return ENCODER.encode(
            (
                sorted(self.forgotten),
                [
                    (
                        key,
                        one.first_offset,
                        one.next_offset,
                        one.generation,
                        one.messages,
                        sorted(one.offsets.items()),
                    )
                    for key, one in sorted(self.partitions.items())
                ],
            )
        )

    def load(self, snapshot: bytes) -> None:
        forgotten, partitions = msgspec.msgpack.decode(snapshot)
        self.forgotten = {(namespace, incarnation) for namespace, incarnation in forgotten}
        self.partitions = {
            (key[0], key[1]): Partition(first, end, generation, list(messages), dict(offsets))
            for key, first, end, generation, messages, offsets in partitions
        }
