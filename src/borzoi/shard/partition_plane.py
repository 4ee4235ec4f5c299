"""The data plane: operations on partitions, run here because this shard owns all of them.

With more than one shard an operation on a partition of another shard will go over the bus from
here; nothing above this file will notice.
"""

import asyncio
import logging
from asyncio import Future
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

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
from borzoi.metadata.state import Metadata
from borzoi.model.consuming import ConsumerKind
from borzoi.model.errors import (
    BorzoiError,
    ConsumerOffsetNotFound,
    StorageFailure,
)
from borzoi.model.namespace import Namespace
from borzoi.partitions.futures import arrived, gathered
from borzoi.partitions.operations import Answer, Describe, Flush, IsSettled, Operation
from borzoi.partitions.statistics import EMPTY, PartitionStatistics
from borzoi.shard.partition_table import PartitionTable, Totals
from borzoi.shard.trash import Trash
from borzoi.shard.upkeep import Upkeep, topics_of

log = logging.getLogger(__name__)

DESCRIBE: Final = Describe()


class Folders(msgspec.Struct, frozen=True):
    """Where streams and topics lie; partitions lie below their topic."""

    stream: Callable[[int], Path]
    topic: Callable[[int, int], Path]
    partition: Callable[[Namespace], Path]
    #: Where what is deleted goes first; on the same file system.
    trash: Path


class PartitionPlane:
    """Runs operations on partitions, and creates, purges and deletes them as metadata says."""

    def __init__(
        self, table: PartitionTable, upkeep: Upkeep, folders: Folders, trash: Trash
    ) -> None:
        self._table = table
        self._opened = table.opened
        #: Retention and compression.
        self.upkeep = upkeep
        self._folders = folders
        self._trash = trash
        #: The next partition of a balanced send, by (stream, topic); kept below the count.
        self._turns: dict[tuple[int, int], int] = {}

    # Operations.

    def run(
        self, namespace: Namespace, operation: Operation[Answer], *, now: int
    ) -> "Answer | Future[Answer]":
        """Run an operation on the owner of the partition; the answer, or a future of it.

        Raises, or resolves with, what the operation raises; `PartitionNotFound` when there is no
        such partition. `now` is in microseconds since the epoch.
        """
        partition = self._opened.get(namespace)
        if partition is None:
            partition = self._table.find(namespace)
        return operation.perform(partition, now)

    def describe(
        self, namespaces: Iterable[Namespace]
    ) -> "list[PartitionStatistics] | Future[list[PartitionStatistics]]":
        """How much each of the partitions holds. One that is not open yet counts as empty."""
        opened = self._opened
        return gathered(
            [
                self.run(namespace, DESCRIBE, now=0) if namespace in opened else EMPTY
                for namespace in namespaces
            ]
        )

    def totals(self) -> "Totals | Future[Totals]":
        """How much all partitions of the server hold together."""
        return self._table.totals()

    def next_balanced(self, stream_id: int, topic_id: int, count: int) -> int:
        """The partition of the next balanced send: round robin over the partitions there are."""
        turn = self._turns.get((stream_id, topic_id), 0) % count
        self._turns[stream_id, topic_id] = (turn + 1) % count
        return turn

    async def flush_all(self, *, sync: bool) -> None:
        """Flush the partitions of this shard; one that fails does not stop the others."""
        flush = Flush(sync)
        for namespace in list(self._opened):
            try:
                await arrived(self.run(namespace, flush, now=0))
            except BorzoiError as fault:
                log.warning("partition %s was not saved: %s", namespace, fault)

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

    async def _is_settled(self, namespace: Namespace, group_id: int) -> bool:
        """A partition that cannot be opened has nothing that a group could have polled."""
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
                    log.warning("partition %s keeps an offset: %s", namespace, fault)

    async def close(self) -> None:
        """Save, sync and close all partitions, and finish removing what was deleted."""
        await self._table.close()
        self._trash.close()


def _namespaces(stream_id: int, topics: Sequence[tuple[int, Sequence[int]]]) -> Iterator[Namespace]:
    for topic_id, partition_ids in topics:
        for partition_id in partition_ids:
            yield Namespace(stream_id, topic_id, partition_id)
