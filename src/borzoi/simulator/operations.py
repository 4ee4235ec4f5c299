"""The operations of both planes as the simulated clients write them, and how answers are read.

Bodies are those of production: commands of `borzoi.metadata` for the control plane, descriptors and
commands of `consensus.partition_ops` for the data plane. Answers of the data plane are a status and
nothing else; those of the control plane are::

    MessagePack array [created id or nil, rows]
    row   [namespace, incarnation, purge generation] of every partition the command was about
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from borzoi.consensus.messages import Operation
from borzoi.consensus.partition_ops import (
    DESCRIPTOR_BYTES,
    BatchDescriptor,
    PartitionCommand,
    decode_batch,
    encode_command,
    propose_batch,
)
from borzoi.metadata.commands import Command
from borzoi.metadata.commands import decode_command as decode_control
from borzoi.metadata.commands import encode_command as encode_control
from borzoi.protocol.codes import Code
from borzoi.records.message import Message, decode_messages, encode_messages

CONTROL: Final = (
    Operation.CREATE_STREAM, Operation.UPDATE_STREAM, Operation.DELETE_STREAM,
    Operation.PURGE_STREAM, Operation.CREATE_TOPIC, Operation.UPDATE_TOPIC, Operation.DELETE_TOPIC,
    Operation.PURGE_TOPIC, Operation.CREATE_PARTITIONS, Operation.DELETE_PARTITIONS,
    Operation.CREATE_CONSUMER_GROUP, Operation.DELETE_CONSUMER_GROUP, Operation.CREATE_USER,
    Operation.UPDATE_USER, Operation.DELETE_USER, Operation.CHANGE_PASSWORD,
    Operation.UPDATE_PERMISSIONS, Operation.CREATE_PERSONAL_ACCESS_TOKEN,
    Operation.DELETE_PERSONAL_ACCESS_TOKEN, Operation.JOIN_CONSUMER_GROUP,
    Operation.LEAVE_CONSUMER_GROUP,
)  # fmt: skip
DATA: Final = (
    Operation.TRUNCATE_PARTITION, Operation.PURGE_PARTITION, Operation.FORGET_PARTITION,
    Operation.SEND_MESSAGES, Operation.STORE_CONSUMER_OFFSET, Operation.DELETE_CONSUMER_OFFSET,
)  # fmt: skip
# The number of a command in the log of metadata, by the number of its operation.
CODES: Final[Mapping[int, int]] = MappingProxyType(
    {operation.value: Code[operation.name].value for operation in CONTROL}
)
OPERATIONS: Final[Mapping[int, int]] = MappingProxyType(
    {code: operation for operation, code in CODES.items()}
)

OK: Final = 0
# Refused before it became an op: nothing in the log stands behind such an answer.
INVALID_COMMAND: Final = 3
CONSUMER: Final = 1


class PartitionRow(NamedTuple):
    """A partition as an answer of the control plane names it."""

    namespace: int
    incarnation: int
    generation: int


def control(command: Command) -> tuple[int, bytes]:
    """Operation and body."""
    code, body = encode_control(command)
    return OPERATIONS[code], body


@lru_cache(maxsize=256)
def read_control(operation: int, body: bytes) -> Command:
    """A value that never changes: the primary, every replica and the auditor share it."""
    return decode_control(CODES[operation], body)


def control_answer(created: int | None, rows: Sequence[PartitionRow]) -> bytes:
    return msgspec.msgpack.encode((created, rows))


def read_rows(payload: bytes) -> list[PartitionRow]:
    return [PartitionRow(*row) for row in msgspec.msgpack.decode(payload)[1]]


def send_body(namespace: int, incarnation: int, payloads: Sequence[bytes]) -> bytes:
    """A send as the leader proposes it: no offsets, no timestamps, no ids, no checksums yet."""
    _, run = encode_messages([Message(payload) for payload in payloads])
    return propose_batch(namespace, incarnation, len(payloads), run)


def data_body(namespace: int, incarnation: int, argument: int = 0, consumer: int = 0) -> bytes:
    return encode_command(PartitionCommand(namespace, incarnation, argument, consumer, CONSUMER))


class Sent(NamedTuple):
    descriptor: BatchDescriptor
    messages: list[Message]


def read_send(body: bytes) -> Sent:
    decoded: Any = decode_batch(body)
    return Sent(decoded[0], decode_messages(body[DESCRIPTOR_BYTES:]))


def payloads_of(body: bytes) -> list[bytes]:
    return [message.payload for message in read_send(body).messages]
