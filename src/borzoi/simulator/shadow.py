"""The auditor's own idea of the state: it predicts the reply to every committed op.

Written apart from the state machines and in another shape (flat rows and plain dictionaries, no
snapshots), so that a mistake would have to be made twice to stay unseen. It sees each committed op
once, in order.
"""

from typing import Any

import msgspec

from borzoi.simulator import machines
from borzoi.simulator import operations as ops
from borzoi.simulator.operations import Status, reply

Key = tuple[int, int]


class ControlShadow:
    """Rows `(stream, topic, incarnation)` by partition, and names by number."""

    def __init__(self) -> None:
        self.streams: dict[str, int] = {}
        self.topics: dict[tuple[int, str], int] = {}
        self.partitions: dict[tuple[int, int], list[int]] = {}
        self.generations: dict[tuple[int, int], int] = {}
        self.groups: set[tuple[int, int, str]] = set()

    def predict(self, op: int, operation: int, body: bytes) -> bytes:
        try:
            arguments = msgspec.msgpack.decode(body)
        except (msgspec.DecodeError, ValueError):
            return reply(Status.INVALID)
        shape = SHAPES.get(operation)
        if (
            shape is None
            or not isinstance(arguments, list)
            or len(arguments) != len(shape)
            or not all(type(got) is want for got, want in zip(arguments, shape, strict=True))
        ):
            return reply(Status.INVALID)
        status, value = self._execute(op, operation, arguments)
        return reply(status, value)

    def _topic(self, stream: str, topic: str) -> tuple[int, int] | None:
        stream_id = self.streams.get(stream)
        if stream_id is None or (stream_id, topic) not in self.topics:
            return None
        return stream_id, self.topics[stream_id, topic]

    def _rows(self, where: tuple[int, int]) -> list[Key]:
        stream_id, topic_id = where
        return [
            (stream_id << 32 | topic_id << 20 | number, incarnation)
            for number, incarnation in enumerate(self.partitions[where])
        ]

    def _execute(self, op: int, operation: int, arguments: list[Any]) -> tuple[Status, Any]:
        name = arguments[0]
        if operation == ops.CREATE_STREAM:
            return self._create_stream(name)
        if name not in self.streams:
            return Status.NOT_FOUND, None
        stream_id = self.streams[name]
        if operation in (ops.DELETE_STREAM, ops.PURGE_STREAM):
            wheres = sorted(where for where in self.partitions if where[0] == stream_id)
            if operation == ops.DELETE_STREAM:
                gone = [row for where in wheres for row in self._drop(where)]
                del self.streams[name]
                return Status.OK, gone
            return Status.OK, [row for where in wheres for row in self._purge(where)]
        if operation == ops.CREATE_TOPIC:
            return self._create_topic(op, stream_id, arguments[1], arguments[2])
        where = self._topic(name, arguments[1])
        if where is None:
            return Status.NOT_FOUND, None
        return self._change(op, operation, where, arguments[2] if len(arguments) > 2 else None)

    def _create_stream(self, name: str) -> tuple[Status, Any]:
        if name in self.streams:
            return Status.NAME_TAKEN, None
        if len(self.streams) == machines.STREAMS_MAX:
            return Status.LIMIT, None
        free = min(set(range(machines.STREAMS_MAX)) - set(self.streams.values()))
        self.streams[name] = free
        return Status.OK, free

    def _create_topic(self, op: int, stream_id: int, name: str, count: int) -> tuple[Status, Any]:
        if (stream_id, name) in self.topics:
            return Status.NAME_TAKEN, None
        used = {topic for stream, topic in self.partitions if stream == stream_id}
        if len(used) == machines.TOPICS_MAX or not 1 <= count <= machines.PARTITIONS_MAX:
            return Status.LIMIT, None
        where = (stream_id, min(set(range(machines.TOPICS_MAX)) - used))
        self.topics[stream_id, name] = where[1]
        self.partitions[where] = [op] * count
        self.generations[where] = 0
        return Status.OK, self._rows(where)

    def _drop(self, where: tuple[int, int]) -> list[Key]:
        rows = self._rows(where)
        del self.partitions[where], self.generations[where]
        self.topics = {
            (stream, name): number
            for (stream, name), number in self.topics.items()
            if (stream, number) != where
        }
        self.groups = {row for row in self.groups if row[:2] != where}
        return rows

    def _purge(self, where: tuple[int, int]) -> list[tuple[int, int, int]]:
        self.generations[where] += 1
        return [(*row, self.generations[where]) for row in self._rows(where)]

    def _change(
        self,
        op: int,
        operation: int,
        where: tuple[int, int],
        argument: Any,
    ) -> tuple[Status, Any]:
        incarnations = self.partitions[where]
        if operation == ops.DELETE_TOPIC:
            return Status.OK, self._drop(where)
        if operation == ops.PURGE_TOPIC:
            return Status.OK, self._purge(where)
        if operation == ops.CREATE_PARTITIONS:
            if argument < 1 or len(incarnations) + argument > machines.PARTITIONS_MAX:
                return Status.LIMIT, None
            incarnations.extend([op] * argument)
            return Status.OK, self._rows(where)[-argument:]
        if operation == ops.DELETE_PARTITIONS:
            if argument < 1 or argument >= len(incarnations):
                return Status.LIMIT, None
            rows = self._rows(where)[-argument:]
            self.partitions[where] = incarnations[:-argument]
            return Status.OK, rows
        group = (*where, argument)
        if operation == ops.CREATE_GROUP:
            if group in self.groups:
                return Status.NAME_TAKEN, None
            self.groups.add(group)
            return Status.OK, None
        if group not in self.groups:
            return Status.NOT_FOUND, None
        self.groups.remove(group)
        return Status.OK, None


SHAPES: dict[int, tuple[type, ...]] = {
    ops.CREATE_STREAM: (str,),
    ops.DELETE_STREAM: (str,),
    ops.PURGE_STREAM: (str,),
    ops.CREATE_TOPIC: (str, str, int),
    ops.DELETE_TOPIC: (str, str),
    ops.PURGE_TOPIC: (str, str),
    ops.CREATE_PARTITIONS: (str, str, int),
    ops.DELETE_PARTITIONS: (str, str, int),
    ops.CREATE_GROUP: (str, str, str),
    ops.DELETE_GROUP: (str, str, str),
}


class DataShadow:
    """Every message ever committed, by place; and which of them a reader should still find."""

    def __init__(self) -> None:
        # Never shrinks: an offset must not hold two different messages over the whole run.
        self.minted: dict[tuple[int, int, int], bytes] = {}
        self.ends: dict[Key, int] = {}
        self.starts: dict[Key, int] = {}
        self.generations: dict[Key, int] = {}
        self.offsets: dict[tuple[int, int, int], int] = {}
        self.forgotten: dict[Key, int] = {}
        self.payloads: dict[bytes, tuple[int, int, int]] = {}
        self.twice: list[bytes] = []

    def predict(self, op: int, operation: int, body: bytes) -> bytes:
        if len(body) < ops.DESCRIPTOR.size:
            return reply(Status.INVALID)
        fields = ops.unpack(body)
        key = (fields.namespace, fields.incarnation)
        if key in self.forgotten:
            return reply(Status.NO_PARTITION)
        if operation == ops.FORGET_PARTITION:
            self.forgotten[key] = op
            self.ends.pop(key, None)
            return reply(Status.OK)
        end = self.ends.setdefault(key, 0)
        if operation == ops.SEND_MESSAGES:
            return self._mint(key, end, ops.payloads_of(body))
        return self._change(key, end, operation, fields.base_offset, fields.count)

    def _mint(self, key: Key, end: int, payloads: list[bytes]) -> bytes:
        for number, payload in enumerate(payloads):
            place = (*key, end + number)
            if payload in self.payloads:
                self.twice.append(payload)
            self.payloads[payload] = place
            self.minted[place] = payload
        self.ends[key] = end + len(payloads)
        return reply(Status.OK, end)

    def _change(self, key: Key, end: int, operation: int, argument: int, consumer: int) -> bytes:
        register = (*key, consumer)
        if operation == ops.STORE_OFFSET:
            if argument >= end:
                return reply(Status.INVALID)
            self.offsets[register] = argument
        elif operation == ops.DELETE_OFFSET:
            if register not in self.offsets:
                return reply(Status.NOT_FOUND)
            del self.offsets[register]
        elif operation == ops.TRUNCATE_PARTITION:
            self.starts[key] = max(self.starts.get(key, 0), min(argument, end))
        elif operation == ops.PURGE_PARTITION:
            if argument > self.generations.get(key, 0):
                self.generations[key] = argument
                self.starts[key] = end
                self.offsets = {row: at for row, at in self.offsets.items() if row[:2] != key}
        else:
            return reply(Status.INVALID)
        return reply(Status.OK, end)

    def contents(self) -> dict[Key, tuple[int, list[bytes], dict[int, int]]]:
        """Per living partition: first offset, messages from there, consumer offsets."""
        return {
            key: (
                self.starts.get(key, 0),
                [self.minted[*key, at] for at in range(self.starts.get(key, 0), end)],
                {row[2]: at for row, at in sorted(self.offsets.items()) if row[:2] == key},
            )
            for key, end in sorted(self.ends.items())
        }
