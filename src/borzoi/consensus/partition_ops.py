"""Bodies of data-plane ops: the batch descriptor and the small commands on one partition (D3, X1).

::

    bytes    field            SendMessages: descriptor, then the run of messages as in the .log file
    0..8     namespace        u64, packed stream, topic, partition
    8..16    incarnation      u64, control op that created the partition (X1)
    16..24   base_offset      u64, stamped by the primary
    24..32   base_timestamp   u64 µs, stamped by the primary
    32..36   count            u32 messages
    36..40   run_length       u32 bytes
    40..48   run_checksum     u64, XXH3-64 of the run
    48..52   flags            u32
    52..60   generation       u64, of the partition, stamped by the primary; grows with every purge
    60..64   reserved         zero

    bytes    field            every other op
    0..8     namespace        u64
    8..16    incarnation      u64
    16..24   argument         u64: TruncatePartition and StoreConsumerOffset an offset,
                              PurgePartition a generation, else zero
    24..28   consumer         u32
    28       consumer_kind    u8, 1 consumer, 2 group
    29..32   reserved         zero
"""

from struct import Struct
from typing import Final, NamedTuple

from borzoi.records.checksum import checksum

DESCRIPTOR: Final = Struct("<QQQQIIQIQ4x")
COMMAND: Final = Struct("<QQQIB3x")
DESCRIPTOR_BYTES: Final = DESCRIPTOR.size
COMMAND_BYTES: Final = COMMAND.size
# What a named tuple's own constructor ends with; every replica decodes every body.
_new: Final = tuple.__new__


class BatchDescriptor(NamedTuple):
    namespace: int
    incarnation: int
    base_offset: int
    base_timestamp: int
    messages_count: int
    run_length: int
    run_checksum: int
    flags: int = 0
    generation: int = 0


class PartitionCommand(NamedTuple):
    namespace: int
    incarnation: int
    argument: int = 0
    consumer: int = 0
    consumer_kind: int = 0


def encode_batch(descriptor: BatchDescriptor, run: bytes | bytearray | memoryview) -> bytes:
    return DESCRIPTOR.pack(*descriptor) + run


def propose_batch(namespace: int, incarnation: int, count: int, run: bytes) -> bytes:
    """What a leader proposes: everything but what the primary stamps."""
    return encode_batch(BatchDescriptor(namespace, incarnation, 0, 0, count, len(run), 0), run)


def decode_batch(body: bytes) -> tuple[BatchDescriptor, memoryview] | None:
    """Descriptor and a view of the run; None when the lengths do not fit each other."""
    if len(body) < DESCRIPTOR_BYTES:
        return None
    descriptor = _new(BatchDescriptor, DESCRIPTOR.unpack_from(body))
    if descriptor.run_length != len(body) - DESCRIPTOR_BYTES or descriptor.messages_count == 0:
        return None
    return descriptor, memoryview(body)[DESCRIPTOR_BYTES:]


def run_is_whole(descriptor: BatchDescriptor, run: memoryview) -> bool:
    return checksum(run) == descriptor.run_checksum


def encode_command(command: PartitionCommand) -> bytes:
    return COMMAND.pack(*command)


def decode_command(body: bytes) -> PartitionCommand | None:
    if len(body) != COMMAND_BYTES:
        return None
    return _new(PartitionCommand, COMMAND.unpack(body))
