"""Which partition a batch goes to: the next one, the one named, or the one its key hashes to."""

from enum import IntEnum
from typing import Self

from xxhash import xxh32_intdigest

from borzoi.model.errors import InvalidKeyLength
from borzoi.model.limits import MESSAGES_KEY_BYTES_MAX
from borzoi.model.value import Value


class PartitioningKind(IntEnum):
    BALANCED = 1
    PARTITION_ID = 2
    MESSAGES_KEY = 3


class Partitioning(Value):
    """The choice as it travels: `value` is empty, a u32 in little-endian, or the raw key."""

    kind: PartitioningKind
    value: bytes = b""

    @classmethod
    def balanced(cls) -> Self:
        return cls(PartitioningKind.BALANCED)

    @classmethod
    def partition(cls, partition_id: int) -> Self:
        return cls(PartitioningKind.PARTITION_ID, partition_id.to_bytes(4, "little"))

    @classmethod
    def key(cls, key: bytes) -> Self:
        if not 1 <= len(key) <= MESSAGES_KEY_BYTES_MAX:
            raise InvalidKeyLength(f"a messages key has 1 to {MESSAGES_KEY_BYTES_MAX} bytes")
        return cls(PartitioningKind.MESSAGES_KEY, key)

    @property
    def partition_id(self) -> int:
        """The partition named, for the kind that names one."""
        return int.from_bytes(self.value, "little")


def partition_for_key(key: bytes, partitions_count: int) -> int:
    """The partition every message with this key goes to while the count stays the same."""
    return xxh32_intdigest(key) % partitions_count
