"""The data plane: operations on partitions, run here because this shard owns all of them.

With more than one shard an operation on a partition of another shard will go over the bus from
here; nothing above this file will notice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from borzoi.metadata.effects import (
    CheckRevocations,
    CreatedPartitions,
    DeletedGroup,
    DeletedPartitions,
    DeletedStream,
    DeletedTopic,
    Effect,
    ForgetPolled,
    PurgedStream,
    PurgedTopic,
)
from borzoi.metadata.groups import CompleteRevocation, VolatileCommand
from borzoi.metadata.planned import Planned, PlannedPartitions, PlannedStream, PlannedTopic
from borzoi.metadata.state import Metadata, Stream, Topic
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import (
    BorzoiError,
    ConsumerOffsetNotFound,
    StorageFailure,
)
from borzoi.model.limits import POLLED_BYTES_MAX
from borzoi.model.namespace import Namespace
from borzoi.partitions.polling import Polled
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.records.batch import Batch
from borzoi.shard.partition_table import PartitionTable, Totals
from borzoi.shard.trash import Trash
from borzoi.shard.upkeep import Upkeep, topics_of

log = logging.getLogger(__name__)


class Folders(msgspec.Struct, frozen=True):
    """Where streams and topics lie; partitions lie below their topic."""

    stream: Callable[[int], Path]
    topic: Callable[[int, int], Path]
    partition: Callable[[Namespace], Path]
    #: Where what is deleted goes first; on the same file system.
    trash: Path


class PartitionPlane:
    """The partitions of this server, and what has been polled from them by groups."""

    def __init__(
        self, table: PartitionTable, upkeep: Upkeep, folders: Folders, trash: Trash
    ) -> None:
        self._table = table
        #: What nobody asks for: retention and compression.
        self.upkeep = upkeep
        self._folders = folders
        self._trash = trash
        #: The next partition of a balanced send, by (stream, topic); kept below the count.
        self._turns: dict[tuple[int, int], int] = {}
        #: The last offset handed to a group, by partition and group: what a handover waits for.
        self._polled: dict[Namespace, dict[int, int]] = {}

    # Messages.

    def append(
        self, namespace: Namespace, batch: Batch, *, now: int
    ) -> "asyncio.Future[None] | None":
        """None when the batch is acknowledged already, else what to wait for."""
        return self._table.find(namespace).append(batch, now=now)

    def next_balanced(self, stream_id: int, topic_id: int, count: int) -> int:
        """Whose turn it is: one step per request, over the partitions there are now."""
        turn = self._turns.get((stream_id, topic_id), 0) % count
        self._turns[stream_id, topic_id] = (turn + 1) % count
        return turn

    def poll(
        self,
        namespace: Namespace,
        strategy: PollingStrategy,
        count: int,
        *,
        kind: ConsumerKind,
        consumer_id: int,
        auto_commit: bool,
    ) -> Polled:
        return self._table.find(namespace).poll(
            strategy,
            count,
            kind=kind,
            consumer_id=consumer_id,
            auto_commit=auto_commit,
            size_max=POLLED_BYTES_MAX,
        )

    async def flush(self, namespace: Namespace, *, sync: bool) -> None:
        waiter = self._table.find(namespace).flush(sync=sync)
        if waiter is not None:
            await waiter

    async def flush_all(self, *, sync: bool) -> None:
        for namespace in self._table.opened():
            try:
                await self.flush(namespace, sync=sync)
            except BorzoiError as fault:
                log.warning("partition %s was not saved: %s", namespace, fault)

    # Offsets.

    def stored_offset(
        self, namespace: Namespace, kind: ConsumerKind, consumer_id: int
    ) -> int | None:
        return self._table.find(namespace).load_offset(kind, consumer_id)

    def store_offset(
        self, namespace: Namespace, kind: ConsumerKind, consumer_id: int, offset: int
    ) -> Awaitable[None] | None:
        return self._table.find(namespace).store_offset(kind, consumer_id, offset)

    def delete_offset(self, namespace: Namespace, kind: ConsumerKind, consumer_id: int) -> None:
        self._table.find(namespace).delete_offset(kind, consumer_id)

    def mark_polled(self, namespace: Namespace, group_id: int, offset: int) -> None:
        marks = self._polled.setdefault(namespace, {})
        marks[group_id] = max(offset, marks.get(group_id, 0))

    def is_settled(self, namespace: Namespace, group_id: int) -> bool:
        """Whether the group has committed everything it was given of the partition."""
        polled = self._polled.get(namespace, {}).get(group_id)
        if polled is None:
            return True
        partition = self._table.get(namespace)
        if partition is None:
            return False
        stored = partition.load_offset(ConsumerKind.GROUP, group_id)
        return stored is not None and stored >= polled

    # Segments, and numbers.

    async def delete_segments(self, namespace: Namespace, count: int) -> None:
        await self.upkeep.delete_segments(namespace, count)

    def statistics(self, namespace: Namespace) -> PartitionStatistics:
        return self._table.statistics(namespace)

    def topic_totals(self, stream_id: int, topic: Topic) -> Totals:
        return self._table.topic_totals(stream_id, topic)

    def stream_totals(self, stream: Stream) -> Totals:
        return self._table.stream_totals(stream)

    def totals(self) -> Totals:
        return self._table.totals()

    # What follows from metadata: the partitions come and go as it says.

    async def carry_out(self, effect: Effect) -> Sequence[VolatileCommand]:
        """Do to the partitions what was decided about them."""
        match effect:
            case CreatedPartitions(stream_id, topic_id, partition_ids):
                await self._create(stream_id, topic_id, partition_ids)
            case DeletedPartitions(stream_id, topic_id, partition_ids):
                for partition_id in partition_ids:
                    namespace = Namespace(stream_id, topic_id, partition_id)
                    await self._drop([namespace], self._folders.partition(namespace))
            case DeletedTopic(stream_id, topic_id, partition_ids):
                self._turns.pop((stream_id, topic_id), None)
                dropped = [Namespace(stream_id, topic_id, number) for number in partition_ids]
                await self._drop(dropped, self._folders.topic(stream_id, topic_id))
            case DeletedStream(stream_id, topics):
                for topic_id, _ in topics:
                    self._turns.pop((stream_id, topic_id), None)
                await self._drop(
                    list(_namespaces(stream_id, topics)), self._folders.stream(stream_id)
                )
            case PurgedTopic(stream_id, topic_id, partition_ids):
                await self._purge(_namespaces(stream_id, [(topic_id, partition_ids)]))
            case PurgedStream(stream_id, topics):
                await self._purge(_namespaces(stream_id, topics))
            case DeletedGroup(stream_id, topic_id, group_id, partition_ids):
                await self._forget_group(
                    _namespaces(stream_id, [(topic_id, partition_ids)]), group_id
                )
            case ForgetPolled(stream_id, topic_id, group_id, partition_ids):
                for namespace in _namespaces(stream_id, [(topic_id, partition_ids)]):
                    self._polled.get(namespace, {}).pop(group_id, None)
            case CheckRevocations(stream_id, topic_id, group_id, partition_ids):
                return [
                    CompleteRevocation(stream_id, topic_id, group_id, namespace.partition_id)
                    for namespace in _namespaces(stream_id, [(topic_id, partition_ids)])
                    if self.is_settled(namespace, group_id)
                ]
            case _:
                pass
        return ()

    async def clear_target(self, planned: Planned) -> None:
        """Clear the places of what is about to be created, before the log says that it exists.

        What a deletion that was cut short (a crash, a full disk) left there belongs to nobody,
        least of all to who gets its number next; after a crash nobody could tell them apart.
        """
        match planned:
            case PlannedStream(stream_id):
                places = [self._folders.stream(stream_id)]
            case PlannedTopic(stream_id, topic_id):
                places = [self._folders.topic(stream_id, topic_id)]
            case PlannedPartitions(stream_id, topic_id, partition_ids):
                coming_ones = _namespaces(stream_id, [(topic_id, partition_ids)])
                places = [self._folders.partition(namespace) for namespace in coming_ones]
        for place in places:
            await self._trash.take(place)
        await self._trash.settled()

    def finish_deletions(self, effects: Sequence[Effect], state: Metadata) -> None:
        """Put what the effects deleted, and the state does not have, into the trash: whoever was
        to do so may have been killed before."""
        kept = {(stream.id, topic.id): topic.partitions for stream, topic in topics_of(state)}
        places: set[Path] = set()
        for effect in effects:
            match effect:
                case DeletedStream(stream_id) if stream_id not in state.streams:
                    places.add(self._folders.stream(stream_id))
                case DeletedTopic(stream_id, topic_id) if (stream_id, topic_id) not in kept:
                    places.add(self._folders.topic(stream_id, topic_id))
                case DeletedPartitions(stream_id, topic_id, partition_ids):
                    gone = set(partition_ids).difference(kept.get((stream_id, topic_id), ()))
                    found = _namespaces(stream_id, [(topic_id, tuple(gone))])
                    places.update(self._folders.partition(namespace) for namespace in found)
        for place in places:
            try:
                self._trash.put(place)
            except StorageFailure as fault:
                log.warning("%s was deleted and is still there: %s", place, fault)

    async def _create(self, stream_id: int, topic_id: int, partition_ids: Sequence[int]) -> None:
        """Make the folder of new partitions, and open them."""
        folder = self._folders.topic(stream_id, topic_id)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            log.error("%s cannot be made yet: %s", folder, fault)  # noqa: TRY400
        await self._table.open_new(list(_namespaces(stream_id, [(topic_id, partition_ids)])))

    async def _drop(self, namespaces: Sequence[Namespace], folder: Path) -> None:
        """Forget the partitions, and move their files out of the way; the trash removes them."""
        for namespace in namespaces:
            self._polled.pop(namespace, None)
            self._table.let_go(namespace)
        try:
            await self._trash.take(folder)
        except StorageFailure as fault:
            # The deletion stands; `clear_target` tries again before the id is used again.
            log.warning("%s is left behind: %s", folder, fault)

    async def _purge(self, namespaces: Iterator[Namespace]) -> None:
        """Empty all of them; one that cannot be emptied does not protect the others."""
        failure: BorzoiError | None = None
        for namespace in namespaces:
            await asyncio.sleep(0)
            self._polled.pop(namespace, None)
            try:
                self._replace(namespace)
            except BorzoiError as fault:
                log.warning("partition %s was not purged: %s", namespace, fault)
                failure = failure or fault
        # One sync for all: what was purged must not come back with a power cut.
        await self._trash.synced()
        if failure is not None:
            raise failure

    def _replace(self, namespace: Namespace) -> None:
        """Put an empty partition in the place of one; the old files go the way of deleted ones.

        In one turn, so that nobody writes to the old one after it has gone.
        """
        try:
            self._trash.put(self._folders.partition(namespace))
        except StorageFailure as fault:
            log.warning("partition %s is emptied where it is: %s", namespace, fault)
            self._table.find(namespace).purge()
            return
        self._table.let_go(namespace, purged=True)
        self._table.open_or_note(namespace)

    async def _forget_group(self, namespaces: Iterator[Namespace], group_id: int) -> None:
        for namespace in namespaces:
            await asyncio.sleep(0)
            self._polled.get(namespace, {}).pop(group_id, None)
            partition = self._table.get(namespace)
            if partition is not None:
                try:
                    partition.delete_offset(ConsumerKind.GROUP, group_id)
                except ConsumerOffsetNotFound:
                    continue
                except BorzoiError as fault:
                    log.warning("partition %s keeps an offset: %s", namespace, fault)

    async def close(self) -> None:
        """Save, sync and close all partitions, and finish removing what was deleted."""
        await self._table.close()
        self._trash.close()


def _namespaces(stream_id: int, topics: Sequence[tuple[int, Sequence[int]]]) -> Iterator[Namespace]:
    for topic_id, partition_ids in topics:
        for partition_id in partition_ids:
            yield Namespace(stream_id, topic_id, partition_id)
