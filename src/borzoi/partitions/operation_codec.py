"""Operations and their answers as bytes, for sending them between shards.

::

    operation   code u8, then MessagePack of its fields
    answer      nothing, or MessagePack

Batches and polled messages are not included: their bytes stay in place, and `shard/routing.py`
sends their location.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from borzoi.model.errors import InvalidFormat
from borzoi.partitions.operations import (
    AwaitMessages,
    DeleteOffset,
    Describe,
    Flush,
    IsSettled,
    LoadOffset,
    OffsetPair,
    PartitionOperation,
    Poll,
    RemoveSegments,
    StoreOffset,
)
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.storage.segments import Removed

# fmt: off
#: The code of each operation, and the type of its answer. Code 1 is a batch to append.
CODES: Final[Mapping[type[PartitionOperation[Any]], tuple[int, Any]]] = MappingProxyType({
    Poll:           (2, None),
    AwaitMessages:  (3, None),
    StoreOffset:    (4, None),
    LoadOffset:     (5, OffsetPair),
    DeleteOffset:   (6, None),
    IsSettled:      (7, bool),
    Flush:          (8, None),
    RemoveSegments: (9, Removed),
    Describe:       (10, PartitionStatistics),
})
# fmt: on

#: Idempotent operations.
REPEATABLE: Final = (AwaitMessages, StoreOffset, LoadOffset, IsSettled, Flush, Describe)

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final[Mapping[int, msgspec.msgpack.Decoder[PartitionOperation[Any]]]] = MappingProxyType(
    {code: msgspec.msgpack.Decoder(kind) for kind, (code, _) in CODES.items()}
)
_ANSWERS: Final[Mapping[int, msgspec.msgpack.Decoder[Any] | None]] = MappingProxyType(
    {code: None if kind is None else msgspec.msgpack.Decoder(kind) for code, kind in CODES.values()}
)


def is_repeatable(operation: PartitionOperation[Any]) -> bool:
    """Whether an operation whose answer was lost may be run again."""
    if isinstance(operation, Poll):
        # The lost answer may have advanced the stored offset; a repeat would skip its messages.
        return not operation.auto_commit
    return isinstance(operation, REPEATABLE)


def encode_operation(operation: PartitionOperation[Any]) -> tuple[int, bytes]:
    """The code of an operation and its fields."""
    code, _ = CODES[type(operation)]
    return code, _ENCODER.encode(operation)


def decode_operation(code: int, fields: bytes | memoryview) -> PartitionOperation[Any]:
    decoder = _DECODERS.get(code)
    if decoder is None:
        raise InvalidFormat(f"no operation has the code {code}")
    try:
        return decoder.decode(fields)
    except msgspec.MsgspecError as error:
        raise InvalidFormat(f"operation {code} cannot be read: {error}") from error


def encode_answer(answer: Any) -> bytes:
    """The answer to any operation but a poll."""
    return b"" if answer is None else _ENCODER.encode(answer)


def decode_answer(code: int, body: bytes | memoryview) -> Any:
    decoder = _ANSWERS[code]
    if decoder is None:
        return None
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise InvalidFormat(f"the answer to operation {code} cannot be read: {error}") from error
