"""The byte layout of operations and answers between shards.

::

    operation   namespace u64, now i64 (µs since the epoch), code u8, fields
    code 1      a batch: place u8, then
                  place 0   its bytes
                  place 1   position u64, length u32 in the arena of the requesting shard
    other       MessagePack, see `partitions/operation_codec.py`

    polled      length u32 of the MessagePack, MessagePack of `_Polled`, bytes of the tail

A batch in an arena is lent: its shard keeps the buffer until the answer arrives, and the owner of
the partition stamps it in place and writes it from there.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

import msgspec

from borzoi.memory.pool import NOWHERE, Arena
from borzoi.model.errors import InvalidFormat
from borzoi.model.namespace import Namespace, pack, unpack
from borzoi.partitions.operation_codec import CODES, decode_operation, encode_operation
from borzoi.partitions.operations import Append, PartitionOperation, Poll
from borzoi.partitions.polling import Polled
from borzoi.records.batch import walk
from borzoi.shard.envelopes import Bytes
from borzoi.storage.media import File, ReadOnlyFile
from borzoi.storage.reading import FileRange, Produced, Reading

APPEND: Final = 1
POLL: Final = CODES[Poll][0]
INLINE: Final = 0
LENT: Final = 1

HEAD: Final = struct.Struct("<QqB")
LENT_BATCH: Final = struct.Struct("<QqBBQI")
INLINE_BATCH: Final = struct.Struct("<QqBB")
_LENGTH: Final = struct.Struct("<I")

#: Returns the view of (position, length) in the arena of the requesting shard.
Lent = Callable[[int, int], memoryview]


class CrossedOperation(msgspec.Struct, frozen=True):
    """An operation received from another shard."""

    namespace: Namespace
    now: int
    code: int
    operation: PartitionOperation[Any]


def encode_request(
    namespace: Namespace, operation: PartitionOperation[Any], now: int, arena: Arena | None
) -> tuple[int, bytes]:
    """Encode an operation; return its code and bytes."""
    if isinstance(operation, Append):
        return APPEND, _encode_append(namespace, operation.batch.messages, now, arena)
    code, fields = encode_operation(operation)
    return code, HEAD.pack(pack(namespace), now, code) + fields


def _encode_append(
    namespace: Namespace, messages: memoryview, now: int, arena: Arena | None
) -> bytes:
    position = NOWHERE if arena is None else arena.position_of(messages)
    if position == NOWHERE:
        return INLINE_BATCH.pack(pack(namespace), now, APPEND, INLINE) + messages
    return LENT_BATCH.pack(pack(namespace), now, APPEND, LENT, position, len(messages))


def decode_request(body: Bytes, lent: Lent) -> CrossedOperation:
    """Decode an operation; `lent` finds a batch that was not copied."""
    packed, now, code = HEAD.unpack_from(body)
    namespace = unpack(packed)
    if code != APPEND:
        operation = decode_operation(code, memoryview(body)[HEAD.size :])
        return CrossedOperation(namespace, now, code, operation)
    if body[HEAD.size] == LENT:
        _, _, _, _, position, length = LENT_BATCH.unpack_from(body)
        messages = lent(position, length)
    else:
        # A copy: received bytes are read-only, and a batch is stamped in place.
        messages = memoryview(bytearray(memoryview(body)[INLINE_BATCH.size :]))
    # The receiving shard has validated the batch; its headers say where messages end.
    return CrossedOperation(namespace, now, code, Append(walk(messages)))


class _Polled(msgspec.Struct, frozen=True, array_like=True):
    current_offset: int
    first_offset: int
    count: int
    left_out: int
    #: Number of a file, position, length.
    ranges: list[tuple[int, int, int]]
    #: Lengths of the pieces that follow.
    tail: list[int]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Polled)


def encode_polled(polled: Polled, number_of: Callable[[ReadOnlyFile], int]) -> bytes:
    """Encode the answer to a poll; `number_of` announces a file to the peer if necessary."""
    reading = polled.reading
    # Compressed or encrypted messages are read whole here: only the owner can decode them.
    tail = [b"".join(one.slices()) if isinstance(one, Produced) else one for one in reading.tail]
    head = _ENCODER.encode(
        _Polled(
            polled.current_offset,
            reading.first_offset,
            reading.count,
            reading.left_out,
            [(number_of(file), position, length) for file, position, length in reading.ranges],
            [len(piece) for piece in tail],
        )
    )
    return b"".join((_LENGTH.pack(len(head)), head, *tail))


def decode_polled(body: Bytes, file_of: Callable[[int], File]) -> Polled:
    view = memoryview(body)
    (length,) = _LENGTH.unpack_from(view)
    start = _LENGTH.size + length
    try:
        head = _DECODER.decode(view[_LENGTH.size : start])
    except msgspec.MsgspecError as error:
        raise InvalidFormat(f"the answer to a poll cannot be read: {error}") from error
    tail: list[memoryview | Produced] = []
    for size in head.tail:
        tail.append(view[start : start + size])
        start += size
    ranges = [FileRange(file_of(number), position, size) for number, position, size in head.ranges]
    reading = Reading(head.first_offset, head.count, ranges, tail, head.left_out)
    return Polled(reading, head.current_offset)
