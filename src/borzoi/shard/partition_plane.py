"""The data plane: runs operations on the owner of each partition, here this shard.

With more than one shard `shard/routing.py` replaces it and sends operations on partitions of other
shards to their owners; nothing above changes.
"""

import asyncio
import logging
from asyncio import Future
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

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
from borzoi.metadata.state import Metadata
from borzoi.model.consuming import ConsumerKind
from borzoi.model.errors import (
    BorzoiError,
    ConsumerOffsetNotFound,
    StorageFailure,
)
from borzoi.model.namespace import Namespace
from borzoi.partitions.futures import arrived, gathered
from borzoi.partitions.operations import Answer, Describe, Flush, IsSettled, PartitionOperation
from borzoi.partitions.statistics import EMPTY, PartitionStatistics
from borzoi.shard.partition_store import PartitionStore, Place
from borzoi.shard.partition_table import PartitionTable, Totals
from borzoi.shard.upkeep import Upkeep, topics_of

log = logging.getLogger(__name__)

DESCRIBE: Final = Describe()


class PartitionPlane:
    """Runs operations on partitions, and creates, purges and deletes them as metadata says."""

    def __init__(self, table: PartitionTable, upkeep: Upkeep, store: PartitionStore) -> None:
        self._table = table
        #: The open partitions of this shard. The hot path calls them without an operation.
        self.owned = table.opened
        #: Retention and compression.
        self.upkeep = upkeep
        self._store = store
        #: The next partition of a balanced send, by (stream, topic); kept below the count.
        self._turns: dict[tuple[int, int], int] = {}

    # Operations.

    def run(
        self, namespace: Namespace, operation: PartitionOperation[Answer], *, now: int
    ) -> "Answer | Future[Answer]":
        """Run an operation on the owner of the partition; return the answer, or a future of it.

        Raises, or resolves with, what the operation raises; `PartitionNotFound` when there is no
        such partition. `now` is in microseconds since the epoch.
        """
        partition = self.owned.get(namespace)
        if partition is None:
            partition = self._table.find(namespace)
        return operation.perform(partition, now)

    def describe(
        self, namespaces: Iterable[Namespace]
    ) -> "list[PartitionStatistics] | Future[list[PartitionStatistics]]":
        """Return the totals of each partition. One that is not open yet counts as empty."""
        opened = self.owned
        return gathered(
            [
                self.run(namespace, DESCRIBE, now=0) if namespace in opened else EMPTY
                for namespace in namespaces
            ]
        )

    def totals(self) -> "Totals | Future[Totals]":
        """Return the totals of all partitions of the server."""
        return self._table.totals()

    def next_balanced(self, stream_id: int, topic_id: int, count: int) -> int:
        """Return the partition of the next balanced send: round robin over the partitions."""
        turn = self._turns.get((stream_id, topic_id), 0) % count
        self._turns[stream_id, topic_id] = (turn + 1) % count
        return turn

    def turn_of(self, stream_id: int, topic_id: int) -> int:
        """The turn of the next balanced send."""
        return self._turns.get((stream_id, topic_id), 0)

    def set_turn(self, stream_id: int, topic_id: int, turn: int) -> None:
        """Continue the round robin of another shard whose client has moved here."""
        self._turns[stream_id, topic_id] = turn

    async def flush_all(self, *, sync: bool) -> None:
        """Flush the partitions of this shard; one that fails does not stop the others."""
        flush = Flush(sync)
        for namespace in list(self.owned):
            try:
                await arrived(self.run(namespace, flush, now=0))
            except BorzoiError as fault:
                log.warning("could not save partition %s: %s", namespace, fault)

    # Effects of metadata changes.

    async def carry_out(self, effect: Effect) -> Sequence[VolatileCommand]:
        """Create, purge or delete partitions as the metadata says; returns follow-up commands."""
        match effect:
            case CreatedPartitions(stream_id, topic_id, partition_ids):
                await self._create(stream_id, topic_id, partition_ids)
            case DeletedPartitions(stream_id, topic_id, partition_ids):
                for partition_id in partition_ids:
                    namespace = Namespace(stream_id, topic_id, partition_id)
                    await self._drop([namespace], namespace)
            case DeletedTopic(stream_id, topic_id, partition_ids):
                self._turns.pop((stream_id, topic_id), None)
                dropped = [Namespace(stream_id, topic_id, number) for number in partition_ids]
                await self._drop(dropped, (stream_id, topic_id))
            case DeletedStream(stream_id, topics):
                for topic_id, _ in topics:
                    self._turns.pop((stream_id, topic_id), None)
                await self._drop(list(_namespaces(stream_id, topics)), (stream_id,))
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
                    partition = self._table.get(namespace)
                    if partition is not None:
                        partition.forget_polled(group_id)
            case CheckRevocations(stream_id, topic_id, group_id, partition_ids):
                return [
                    CompleteRevocation(stream_id, topic_id, group_id, namespace.partition_id)
                    for namespace in _namespaces(stream_id, [(topic_id, partition_ids)])
                    if await self._is_settled(namespace, group_id)
                ]
            case _:
                pass
        return ()

    async def clear_target(self, planned: Planned) -> None:
        """Remove what an interrupted deletion left where something is about to be created.

        This happens before the change is logged: after a crash, files of the deleted partition
        could not be told from files of the new one. `TooManyPartitions` when they would be more
        than can be served.
        """
        match planned:
            case PlannedStream(stream_id):
                await self._store.clear((stream_id,))
            case PlannedTopic(stream_id, topic_id, count):
                self._table.refuse_beyond_limit(count)
                await self._store.clear((stream_id, topic_id))
            case PlannedPartitions(stream_id, topic_id, partition_ids):
                self._table.refuse_beyond_limit(len(partition_ids))
                await self._store.clear(*_namespaces(stream_id, [(topic_id, partition_ids)]))

    def finish_deletions(self, effects: Sequence[Effect], state: Metadata) -> None:
        """Remove what the effects deleted and the state no longer has: the server may have been
        killed before it did."""
        kept = {(stream.id, topic.id): topic.partitions for stream, topic in topics_of(state)}
        places: set[Place] = set()
        for effect in effects:
            match effect:
                case DeletedStream(stream_id) if stream_id not in state.streams:
                    places.add((stream_id,))
                case DeletedTopic(stream_id, topic_id) if (stream_id, topic_id) not in kept:
                    places.add((stream_id, topic_id))
                case DeletedPartitions(stream_id, topic_id, partition_ids):
                    gone = set(partition_ids).difference(kept.get((stream_id, topic_id), ()))
                    places.update(_namespaces(stream_id, [(topic_id, tuple(gone))]))
        for place in places:
            try:
                self._store.set_aside(place)
            except StorageFailure as fault:
                log.warning("could not remove deleted files: %s", fault)

    async def _create(self, stream_id: int, topic_id: int, partition_ids: Sequence[int]) -> None:
        """Prepare the topic's place, and open the new partitions in it."""
        try:
            self._store.make((stream_id, topic_id))
        except StorageFailure as fault:
            log.error("cannot prepare topic %d/%d yet: %s", stream_id, topic_id, fault)  # noqa: TRY400
        await self._table.open_new(list(_namespaces(stream_id, [(topic_id, partition_ids)])))

    async def _drop(self, namespaces: Sequence[Namespace], place: Place) -> None:
        """Discard the partitions, and remove everything at the place."""
        for namespace in namespaces:
            self._table.discard(namespace)
        try:
            await self._store.drop(place)
        except StorageFailure as fault:
            # The deletion stands; `clear_target` tries again before the id is used again.
            log.warning("could not remove deleted files: %s", fault)

    async def _purge(self, namespaces: Iterator[Namespace]) -> None:
        """Empty all of them; a failure of one does not stop the others."""
        failure: BorzoiError | None = None
        for namespace in namespaces:
            await asyncio.sleep(0)
            try:
                self._replace(namespace)
            except BorzoiError as fault:
                log.warning("could not purge partition %s: %s", namespace, fault)
                failure = failure or fault
        # One sync for all: purged messages must not come back after a power cut.
        await self._store.sync()
        if failure is not None:
            raise failure

    def _replace(self, namespace: Namespace) -> None:
        """Replace a partition by an empty one of the next generation.

        In one turn of the event loop, so that nothing is written to the old one afterwards.
        """
        generation = self._table.generation_of(namespace) + 1
        try:
            self._store.set_aside(namespace)
        except StorageFailure as fault:
            log.warning("emptying partition %s in place: %s", namespace, fault)
            self._table.find(namespace).purge()
            return
        self._table.discard(namespace, purged=True)
        self._table.open_or_note(namespace, generation=generation)

    async def _is_settled(self, namespace: Namespace, group_id: int) -> bool:
        """Whether the group has committed what it polled; a partition that cannot be opened has
        nothing it could have polled."""
        try:
            return await arrived(self.run(namespace, IsSettled(group_id), now=0))
        except BorzoiError:
            return True

    async def _forget_group(self, namespaces: Iterator[Namespace], group_id: int) -> None:
        for namespace in namespaces:
            await asyncio.sleep(0)
            partition = self._table.get(namespace)
            if partition is not None:
                partition.forget_polled(group_id)
                try:
                    partition.delete_offset(ConsumerKind.GROUP, group_id)
                except ConsumerOffsetNotFound:
                    continue
                except BorzoiError as fault:
                    log.warning("could not delete an offset of partition %s: %s", namespace, fault)

    def opened(self) -> list[Namespace]:
        """The open partitions."""
        return list(self._table.opened)

    async def close(self) -> None:
        """Save, sync and close all partitions, and finish removing what was deleted."""
        await self._table.close()
        self._store.close()


def _namespaces(stream_id: int, topics: Sequence[tuple[int, Sequence[int]]]) -> Iterator[Namespace]:
    for topic_id, partition_ids in topics:
        for partition_id in partition_ids:
            yield Namespace(stream_id, topic_id, partition_id)
