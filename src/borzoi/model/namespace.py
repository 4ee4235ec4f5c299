"""Where a partition lives, as one number: 12 bits of stream, 12 of topic, 20 of partition."""

from typing import NamedTuple

from borzoi.model.errors import LimitReached
from borzoi.model.hashing import murmur3_32
from borzoi.model.limits import PARTITIONS_PER_TOPIC_MAX, STREAMS_MAX, TOPICS_PER_STREAM_MAX

STREAM_SHIFT = 32
TOPIC_SHIFT = 20
TOPIC_MASK = (1 << 12) - 1
PARTITION_MASK = (1 << 20) - 1


class Namespace(NamedTuple):
    """The numeric address of a partition."""

    stream_id: int
    topic_id: int
    partition_id: int

    def __str__(self) -> str:
        return f"{self.stream_id}/{self.topic_id}/{self.partition_id}"


def pack(namespace: Namespace) -> int:
    """One u64 for the namespace; `LimitReached` for what does not fit, never a masked value."""
    stream_id, topic_id, partition_id = namespace
    if not (
        0 <= stream_id < STREAMS_MAX
        and 0 <= topic_id < TOPICS_PER_STREAM_MAX
        and 0 <= partition_id < PARTITIONS_PER_TOPIC_MAX
    ):
        raise LimitReached(
            f"partition {namespace} is outside {STREAMS_MAX} streams, {TOPICS_PER_STREAM_MAX}"
            f" topics per stream, {PARTITIONS_PER_TOPIC_MAX} partitions per topic"
        )
    return stream_id << STREAM_SHIFT | topic_id << TOPIC_SHIFT | partition_id


def unpack(packed: int) -> Namespace:
    """The namespace that `pack` made the number of."""
    return Namespace(
        packed >> STREAM_SHIFT, packed >> TOPIC_SHIFT & TOPIC_MASK, packed & PARTITION_MASK
    )


def shard_of(namespace: Namespace, shards: int) -> int:
    """The shard that owns the partition, the same on every shard and after every start."""
    # The upper half of the hash: that is what the published servers use, so a data directory
    # keeps its distribution when it moves here.
    return (murmur3_32(pack(namespace).to_bytes(8, "little")) >> 16) % shards
