"""The auditor's own idea of the state: it predicts the answer to every committed op.

The control plane is foretold by one copy of `borzoi.metadata` that is never replicated, never
checkpointed and sees each committed op once, in order; which partitions an answer must name is
worked out from the state before and after, not from effects. The data plane is foretold by a model
written apart, in another shape (flat rows, no segments of bytes), so that a mistake would have to
be made twice to stay unseen.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from borzoi.consensus import partition_ops
from borzoi.consensus.messages import Operation, Prepare
from borzoi.metadata import queries
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.state import Metadata, Topic
from borzoi.model.errors import BorzoiError
from borzoi.model.limits import HEADER_BYTES
from borzoi.protocol.commands.streams import PurgeStream
from borzoi.protocol.commands.topics import PurgeTopic
from borzoi.protocol.errors import code_of
from borzoi.simulator.operations import (
    INVALID_COMMAND,
    OK,
    PartitionRow,
    control_answer,
    read_control,
    read_send,
)

# Under names of their own: looking up a member of an enum costs as much as a call.
SEND_MESSAGES: Final = Operation.SEND_MESSAGES
FORGET_PARTITION: Final = Operation.FORGET_PARTITION
# What a named tuple's own constructor ends with.
_new: Final = tuple.__new__
Key = tuple[int, int]
Answer = tuple[int, bytes]

PARTITION_NOT_FOUND: Final = 3007
OFFSET_NOT_FOUND: Final = 3021
INVALID_OFFSET: Final = 4100
CREATIONS: Final = frozenset({Operation.CREATE_TOPIC, Operation.CREATE_PARTITIONS})
DELETIONS: Final = frozenset(
    {Operation.DELETE_STREAM, Operation.DELETE_TOPIC, Operation.DELETE_PARTITIONS}
)


class ControlShadow:
    """The linearised control plane, and what follows from the times at which things were made."""

    def __init__(self) -> None:
        self.state = Metadata()
        # Timestamps of ops are unique within a group: what was made at a time was made by an op.
        self.op_at: dict[int, int] = {}
        # Purges by (stream, topic, time the topic was made).
        self.purges: dict[tuple[int, int, int], int] = {}

    def predict(self, header: Prepare, body: bytes) -> Answer:
        self.op_at[header.timestamp] = header.op
        command = read_control(header.operation, body)
        before = self._all_rows() if header.operation in DELETIONS else []
        try:
            created = apply(self.state, Entry(header.timestamp, header.user_id, command)).created_id
        except BorzoiError as error:
            return code_of(error), b""
        rows: list[PartitionRow] = []
        if header.operation in CREATIONS:
            rows = self._made_at(header.timestamp)
        elif header.operation in DELETIONS:
            left = {row[:2] for row in self._all_rows()}
            rows = [row for row in before if row[:2] not in left]
        elif isinstance(command, PurgeStream):
            stream = queries.stream(self.state, command.stream_id)
            rows = [row for one in stream.topics.in_order() for row in self._purge(stream.id, one)]
        elif isinstance(command, PurgeTopic):
            stream = queries.stream(self.state, command.stream_id)
            rows = self._purge(stream.id, queries.topic_of(stream, command.topic_id))
        return OK, control_answer(created, rows)

    def _all_rows(self) -> list[PartitionRow]:
        return [row for place in self._topics() for row in self._rows(*place)]

    def _topics(self) -> Iterator[tuple[int, Topic]]:
        for stream in self.state.streams.in_order():
            for topic in stream.topics.in_order():
                yield stream.id, topic

    def _made_at(self, timestamp: int) -> list[PartitionRow]:
        """Partitions created by the op of that time: few of very many, so checked first."""
        return [
            row
            for place in self._topics()
            if timestamp in [one.created_at for one in place[1].partitions.values()]
            for row in self._rows(*place)
            if row.incarnation == self.op_at[timestamp]
        ]

    def _rows(self, stream: int, topic: Topic) -> list[PartitionRow]:
        generation = self.purges.get((stream, topic.id, topic.created_at), 0)
        place = stream << 32 | topic.id << 20
        return [
            _new(PartitionRow, (place | one.id, self.op_at[one.created_at], generation))
            for one in topic.partitions.values()
        ]

    def _purge(self, stream: int, topic: Topic) -> list[PartitionRow]:
        key = (stream, topic.id, topic.created_at)
        self.purges[key] = self.purges.get(key, 0) + 1
        return self._rows(stream, topic)


class Contents(msgspec.Struct, eq=False):
    """One partition as a reader should find it."""

    start: int = 0
    end: int = 0
    generation: int = 0
    offsets: dict[int, int] = {}
    #: [end offset, bytes] of each segment: what is removed is removed in whole segments (X3).
    segments: list[list[int]] = []


class DataShadow:
    """Every message ever committed, by place; and which of them a reader should still find."""

    def __init__(self, segment_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        # By partition, generation and offset. Never shrinks: an offset of one generation must not
        # hold two different messages over the whole run.
        self.minted: dict[tuple[int, int, int, int], bytes] = {}
        self.partitions: dict[Key, Contents] = {}
        self.forgotten: dict[int, int] = {}
        self.payloads: set[bytes] = set()
        # What is wrong with the messages themselves, whatever the answer says.
        self.objections: list[str] = []

    def predict(self, header: Prepare, body: bytes) -> Answer:
        operation = header.operation
        command = None
        if operation == SEND_MESSAGES:
            namespace, incarnation = partition_ops.DESCRIPTOR.unpack_from(body)[:2]
        else:
            command = partition_ops.decode_command(body)
            if command is None:
                return INVALID_COMMAND, b""
            namespace, incarnation = command.namespace, command.incarnation
        if operation == FORGET_PARTITION:
            self._forget(namespace, incarnation)
            return OK, b""
        if incarnation <= self.forgotten.get(namespace, -1):
            return PARTITION_NOT_FOUND, b""
        key = (namespace, incarnation)
        contents = self.partitions.get(key)
        if contents is None:
            contents = self.partitions[key] = Contents()
        if command is None:
            self._mint(key, contents, header, body)
            return OK, b""
        return self._change(contents, operation, command.argument, command.consumer), b""

    def _forget(self, namespace: int, incarnation: int) -> None:
        newest = self.forgotten[namespace] = max(incarnation, self.forgotten.get(namespace, -1))
        self.partitions = {
            key: contents
            for key, contents in self.partitions.items()
            if key[0] != namespace or key[1] > newest
        }

    def _mint(self, key: Key, contents: Contents, header: Prepare, body: bytes) -> None:
        descriptor, messages = read_send(body)
        if descriptor.base_offset != contents.end:
            self.objections.append(f"a batch at {descriptor.base_offset} after {contents.end}")
        if descriptor.generation != contents.generation:
            self.objections.append(f"a batch of generation {descriptor.generation}")
        if not contents.segments or contents.segments[-1][1] >= self.segment_bytes:
            contents.segments.append([contents.end, 0])
        for message in messages:
            place = (*key, contents.generation, contents.end)
            if message.payload in self.payloads or place in self.minted:
                self.objections.append(f"message {message.payload!r} or its offset is there twice")
            if message.offset != contents.end or message.timestamp != header.timestamp:
                self.objections.append(f"message at {contents.end} is stamped {message.offset}")
            if not message.id:
                self.objections.append(f"message at {contents.end} has no id")
            self.payloads.add(message.payload)
            self.minted[place] = message.payload
            contents.end += 1
            contents.segments[-1][1] += HEADER_BYTES + len(message.payload)
        contents.segments[-1][0] = contents.end

    def _change(self, contents: Contents, operation: int, argument: int, consumer: int) -> int:
        if operation == Operation.STORE_CONSUMER_OFFSET:
            if argument >= contents.end:
                return INVALID_OFFSET
            contents.offsets[consumer] = argument
        elif operation == Operation.DELETE_CONSUMER_OFFSET:
            if consumer not in contents.offsets:
                return OFFSET_NOT_FOUND
            del contents.offsets[consumer]
        elif operation == Operation.TRUNCATE_PARTITION:
            while len(contents.segments) > 1 and contents.segments[0][0] <= argument:
                contents.start = contents.segments.pop(0)[0]
        elif operation == Operation.PURGE_PARTITION:
            if argument > contents.generation:
                contents.generation, contents.start, contents.end = argument, 0, 0
                contents.offsets, contents.segments = {}, []
        else:
            return INVALID_COMMAND
        return OK

    def messages(self, key: Key) -> list[bytes]:
        contents = self.partitions[key]
        generation = contents.generation
        return [self.minted[*key, generation, at] for at in range(contents.start, contents.end)]
