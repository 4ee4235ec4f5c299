"""Operations on a partition, as values: they and their answers can be sent between the shard that
serves the client and the shard that owns the partition.

`perform` is the owner's side. Names are resolved and permissions are checked before there is an
operation. An operation that need not wait returns its answer; otherwise it returns a future, so
that work on a local partition creates neither a task nor a future.
"""

from abc import abstractmethod
from asyncio import Future, ensure_future, get_running_loop
from typing import Generic, TypeVar

from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.limits import POLLED_BYTES_MAX
from borzoi.model.value import Value
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.records.batch import Batch
from borzoi.storage.segments import Removed

Answer = TypeVar("Answer")


class PartitionOperation(Value, Generic[Answer]):
    """One request to one partition; the type parameter is its answer."""

    @abstractmethod
    def perform(self, partition: Partition, now: int) -> "Answer | Future[Answer]":
        """Run on the owner of the partition; `now` is in microseconds since the epoch."""


class Append(PartitionOperation[None]):
    """Store a batch that `records.batch.receive` has checked; it is changed in place."""

    batch: Batch

    def perform(self, partition: Partition, now: int) -> "Future[None] | None":
        return partition.append(self.batch, now=now)


class Poll(PartitionOperation[Polled]):
    """Read messages, and commit the last of them when `auto_commit` is set."""

    strategy: PollingStrategy
    count: int
    kind: ConsumerKind
    #: A consumer's key or the number of a group.
    consumer_id: int
    auto_commit: bool = False
    #: Bytes of all messages together; the first message is returned whatever its size.
    size_max: int = POLLED_BYTES_MAX

    def perform(self, partition: Partition, now: int) -> "Polled | Future[Polled]":
        return partition.poll(
            self.strategy,
            self.count,
            self.kind,
            self.consumer_id,
            self.auto_commit,
            self.size_max,
        )


class AwaitMessages(PartitionOperation[None]):
    """Wait until a new message arrives, or until the timeout."""

    microseconds: int
    #: The last offset that the consumer has seen; 0 if it may have seen none. If later messages
    #: have arrived meanwhile, it does not wait.
    known_offset: int = 0

    def perform(self, partition: Partition, now: int) -> "Future[None]":
        if 0 < self.known_offset < partition.current_offset:
            there: Future[None] = get_running_loop().create_future()
            there.set_result(None)
            return there
        return partition.arrivals.wait(self.microseconds / 1_000_000)


class StoreOffset(PartitionOperation[None]):
    """Commit an offset."""

    kind: ConsumerKind
    consumer_id: int
    offset: int

    def perform(self, partition: Partition, now: int) -> "Future[None] | None":
        return partition.store_offset(self.kind, self.consumer_id, self.offset)


class OffsetPair(Value):
    """The stored offset of a consumer, and the last offset of the partition."""

    #: None when the consumer never stored an offset.
    stored: int | None
    current: int


class LoadOffset(PartitionOperation[OffsetPair]):
    """Return the stored offset of a consumer, and the partition's last offset."""

    kind: ConsumerKind
    consumer_id: int

    def perform(self, partition: Partition, now: int) -> OffsetPair:
        stored = partition.load_offset(self.kind, self.consumer_id)
        return OffsetPair(stored, partition.current_offset)


class DeleteOffset(PartitionOperation[None]):
    """Delete a stored offset; `ConsumerOffsetNotFound` when there is none."""

    kind: ConsumerKind
    consumer_id: int

    def perform(self, partition: Partition, now: int) -> None:
        partition.delete_offset(self.kind, self.consumer_id)


class IsSettled(PartitionOperation[bool]):
    """Whether a group has committed everything it polled."""

    group_id: int

    def perform(self, partition: Partition, now: int) -> bool:
        return partition.is_settled(self.group_id)


class Flush(PartitionOperation[None]):
    """Write what is only in memory; with `sync` also force it to the disk."""

    sync: bool = False

    def perform(self, partition: Partition, now: int) -> "Future[None] | None":
        return partition.flush(sync=self.sync)


class RemoveSegments(PartitionOperation[Removed]):
    """Remove up to `count` of the oldest sealed segments that retention may remove."""

    count: int

    def perform(self, partition: Partition, now: int) -> "Future[Removed]":
        return ensure_future(partition.delete_oldest(self.count))


class Describe(PartitionOperation[PartitionStatistics]):
    """Return the statistics of the partition."""

    def perform(self, partition: Partition, now: int) -> PartitionStatistics:
        return partition.statistics
