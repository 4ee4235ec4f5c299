"""The operations of both planes as the simulator speaks them: numbers, bodies, replies.

#  control body: MessagePack array of the arguments        reply: u32 status, then MessagePack
#  data body, bytes   field
#  0..8               namespace        u64, packed stream, topic, partition
#  8..16              incarnation      u64, control op that created the partition
#  16..24             base_offset      u64, stamped by the primary (sends); argument elsewhere
#  24..32             base_timestamp   u64, stamped by the primary
#  32..36             count            u32, messages in the run; consumer elsewhere
#  36..40             run_length       u32
#  40..48             run_checksum     u64, XXH3-64 of the run
#  48..52             flags            u32
#  52..64             reserved         zero
#  64..               run: per message u32 length, payload
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import msgspec
import xxhash

REGISTER: Final = 1
UNREGISTER: Final = 3
NOOP: Final = 4

CREATE_STREAM: Final = 128
DELETE_STREAM: Final = 130
PURGE_STREAM: Final = 131
CREATE_TOPIC: Final = 132
DELETE_TOPIC: Final = 134
PURGE_TOPIC: Final = 135
CREATE_PARTITIONS: Final = 136
DELETE_PARTITIONS: Final = 137
CREATE_GROUP: Final = 139
DELETE_GROUP: Final = 140

TRUNCATE_PARTITION: Final = 68
PURGE_PARTITION: Final = 80
FORGET_PARTITION: Final = 81
SEND_MESSAGES: Final = 160
STORE_OFFSET: Final = 161
DELETE_OFFSET: Final = 162

CONTROL: Final = (
    CREATE_STREAM, DELETE_STREAM, PURGE_STREAM, CREATE_TOPIC, DELETE_TOPIC, PURGE_TOPIC,
    CREATE_PARTITIONS, DELETE_PARTITIONS, CREATE_GROUP, DELETE_GROUP,
)  # fmt: skip
DATA: Final = (
    TRUNCATE_PARTITION, PURGE_PARTITION, FORGET_PARTITION, SEND_MESSAGES, STORE_OFFSET,
    DELETE_OFFSET,
)  # fmt: skip

DESCRIPTOR: Final = struct.Struct("<QQQQIIQI12x")
INCARNATION: Final = struct.Struct("<Q")
LENGTH: Final = struct.Struct("<I")
STATUS: Final = struct.Struct("<I")


class Status(IntEnum):
    OK = 0
    NOT_FOUND = 1
    NAME_TAKEN = 2
    LIMIT = 3
    INVALID = 4
    NO_PARTITION = 5


@dataclass(frozen=True, slots=True)
class Descriptor:
    namespace: int
    incarnation: int
    base_offset: int = 0
    base_timestamp: int = 0
    count: int = 0
    run_length: int = 0
    run_checksum: int = 0
    flags: int = 0


def pack(descriptor: Descriptor, run: bytes = b"") -> bytes:
    return (
        DESCRIPTOR.pack(
            descriptor.namespace,
            descriptor.incarnation,
            descriptor.base_offset,
            descriptor.base_timestamp,
            descriptor.count,
            descriptor.run_length,
            descriptor.run_checksum,
            descriptor.flags,
        )
        + run
    )


def unpack(body: bytes) -> Descriptor:
    return Descriptor(*DESCRIPTOR.unpack_from(body))


def send_body(namespace: int, incarnation: int, payloads: Sequence[bytes]) -> bytes:
    """A send as the client wrote it: no offset, no timestamp yet."""
    run = b"".join(LENGTH.pack(len(payload)) + payload for payload in payloads)
    checksum = xxhash.xxh3_64_intdigest(run)
    return pack(Descriptor(namespace, incarnation, 0, 0, len(payloads), len(run), checksum, 0), run)


def data_body(namespace: int, incarnation: int, argument: int, consumer: int = 0) -> bytes:
    return pack(Descriptor(namespace, incarnation, argument, 0, consumer))


def stamped(body: bytes, base_offset: int, timestamp: int) -> bytes:
    return body[:16] + struct.pack("<QQ", base_offset, timestamp) + body[32:]


def payloads_of(body: bytes) -> list[bytes]:
    position, payloads = DESCRIPTOR.size, []
    while position < len(body):
        (length,) = LENGTH.unpack_from(body, position)
        position += LENGTH.size
        payloads.append(bytes(body[position : position + length]))
        position += length
    return payloads


def control_body(*arguments: str | int) -> bytes:
    return msgspec.msgpack.encode(arguments)


def reply(status: Status, value: object = None) -> bytes:
    return STATUS.pack(status) + msgspec.msgpack.encode(value)


def read_reply(payload: bytes) -> tuple[Status, Any]:
    (status,) = STATUS.unpack_from(payload)
    return Status(status), msgspec.msgpack.decode(payload[STATUS.size :])
