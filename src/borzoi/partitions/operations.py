"""What a partition can be asked, as values: what crosses from the shard that was asked to the one
that owns the partition.

`run` is the owner's side. Names are resolved and permissions checked before there is an operation.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeAlias

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.records.batch import Batch
from borzoi.storage.segments import Removed


@dataclass(frozen=True, slots=True)
class Append:
    batch: Batch


@dataclass(frozen=True, slots=True)
class Poll:
    strategy: PollingStrategy
    count: int
    kind: ConsumerKind
    consumer_id: int
    auto_commit: bool = False
    size_max: int | None = None


@dataclass(frozen=True, slots=True)
class StoreOffset:
    kind: ConsumerKind
    consumer_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class LoadOffset:
    kind: ConsumerKind
    consumer_id: int


@dataclass(frozen=True, slots=True)
class DeleteOffset:
    kind: ConsumerKind
    consumer_id: int


@dataclass(frozen=True, slots=True)
class Flush:
    sync: bool = False


@dataclass(frozen=True, slots=True)
class DeleteSegments:
    count: int
    keep_unread: bool = True


@dataclass(frozen=True, slots=True)
class Purge:
    pass


@dataclass(frozen=True, slots=True)
class Describe:
    pass


Operation: TypeAlias = (
    Append
    | Poll
    | StoreOffset
    | LoadOffset
    | DeleteOffset
    | Flush
    | DeleteSegments
    | Purge
    | Describe
)
#: An awaitable is waited for before the answer; what it resolves to says nothing.
Answer: TypeAlias = Polled | Removed | PartitionStatistics | Awaitable[None] | int | None


def run(partition: Partition, operation: Operation, *, now: int) -> Answer:
    """Do what is asked; returns or raises what the method of the same name does."""
    match operation:
        case Append(batch):
            return partition.append(batch, now=now)
        case Poll(strategy, count, kind, consumer_id, auto_commit, size_max):
            return partition.poll(
                strategy,
                count,
                kind=kind,
                consumer_id=consumer_id,
                auto_commit=auto_commit,
                size_max=size_max,
            )
        case StoreOffset(kind, consumer_id, offset):
            return partition.store_offset(kind, consumer_id, offset)
        case LoadOffset(kind, consumer_id):
            return partition.load_offset(kind, consumer_id)
        case DeleteOffset(kind, consumer_id):
            partition.delete_offset(kind, consumer_id)
        case Flush(sync):
            return partition.flush(sync=sync)
        case DeleteSegments(count, keep_unread):
            return partition.delete_segments(count, keep_unread=keep_unread)
        case Purge():
            partition.purge()
        case Describe():
            return partition.statistics
    return None
