"""The data plane: operations on partitions, run here because this shard owns all of them.

With more than one shard an operation on a partition of another shard will go over the bus from
here; nothing above this file will notice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from borzoi.metadata.coming import Coming, ComingPartitions, ComingStream, ComingTopic
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
from borzoi.metadata.state import Metadata, Stream, Topic
from borzoi.model.consuming import ConsumerKind, PollingStrategy
from borzoi.model.errors import (
    BorzoiError,
    ConsumerOffsetNotFound,
    FeatureUnavailable,
    PartitionNotFound,
    StorageFailure,
)
from borzoi.model.limits import NEVER, POLLED_BYTES_MAX, UNLIMITED
from borzoi.model.namespace import Namespace
from borzoi.model.topics import Compression
from borzoi.partitions.partition import Partition
from borzoi.partitions.polling import Polled
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.records.batch import Batch
from borzoi.shard.trash import Trash
from borzoi.storage.compressed import TwinOpener, compress_sealed
from borzoi.storage.retention import PartitionFacts, expired, oversized

log = logging.getLogger(__name__)

#: Partitions that are closed at once; the disk merges what they ask for.
CLOSING_THREADS: Final = 16


class Totals(msgspec.Struct):
    """Sums over partitions."""

    size_bytes: int = 0
    messages_count: int = 0
    segments_count: int = 0

    def add(self, statistics: PartitionStatistics) -> None:
        self.size_bytes += statistics.size
        self.messages_count += statistics.messages_count
        self.segments_count += statistics.segments_count


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
        self,
        open_partition: Callable[[Namespace], Partition],
        folders: Folders,
        twins: TwinOpener,
        trash: Trash,
        *,
        keep_unread: bool,
    ) -> None:
        self._open = open_partition
        self._folders = folders
        self._trash = trash
        self._twins = twins
        self._cannot_compress: set[Compression] = set()
        #: Whether retention waits for the slowest stored offset.
        self._keep_unread = keep_unread
        self._partitions: dict[Namespace, Partition] = {}
        #: Partitions that exist but could not be opened; tried again by who asks for them.
        self._unopened: set[Namespace] = set()
        #: The next partition of a balanced send, by (stream, topic); kept below the count.
        self._turns: dict[tuple[int, int], int] = {}
        #: The last offset handed to a group, by partition and group: what a handover waits for.
        self._polled: dict[Namespace, dict[int, int]] = {}

    def open_all(self, state: Metadata) -> None:
        """Open every partition the metadata knows; one that is damaged is fenced, not fatal."""
        for stream in state.streams.values():
            for topic in stream.topics.values():
                for partition_id in topic.partitions:
                    self._open_or_note(Namespace(stream.id, topic.id, partition_id))

    def _open_or_note(self, namespace: Namespace) -> None:
        """Open the partition, now or when the disk has room again: it exists in any case."""
        try:
            self._partitions[namespace] = self._open(namespace)
            self._unopened.discard(namespace)
        except (BorzoiError, OSError) as fault:
            self._unopened.add(namespace)
            log.error("partition %s cannot be opened yet: %s", namespace, fault)  # noqa: TRY400

    def _partition(self, namespace: Namespace) -> Partition:
        partition = self._partitions.get(namespace)
        if partition is None:
            partition = self._opened_late(namespace)
        return partition

    def _opened_late(self, namespace: Namespace) -> Partition:
        if namespace not in self._unopened:
            raise PartitionNotFound(f"there is no partition {namespace}")
        partition = self._partitions[namespace] = self._open(namespace)
        self._unopened.discard(namespace)
        return partition

    # Messages.

    def append(
        self, namespace: Namespace, batch: Batch, *, now: int
    ) -> "asyncio.Future[None] | None":
        """None when the batch is acknowledged already, else what to wait for."""
        return self._partition(namespace).append(batch, now=now)

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
        return self._partition(namespace).poll(
            strategy,
            count,
            kind=kind,
            consumer_id=consumer_id,
            auto_commit=auto_commit,
            size_max=POLLED_BYTES_MAX,
        )

    async def flush(self, namespace: Namespace, *, sync: bool) -> None:
        waiter = self._partition(namespace).flush(sync=sync)
        if waiter is not None:
            await waiter

    async def flush_all(self, *, sync: bool) -> None:
        for namespace in list(self._partitions):
            try:
                await self.flush(namespace, sync=sync)
            except BorzoiError as fault:
                log.warning("partition %s was not saved: %s", namespace, fault)

    # Offsets.

    def stored_offset(
        self, namespace: Namespace, kind: ConsumerKind, consumer_id: int
    ) -> int | None:
        return self._partition(namespace).load_offset(kind, consumer_id)

    def store_offset(
        self, namespace: Namespace, kind: ConsumerKind, consumer_id: int, offset: int
    ) -> Awaitable[None] | None:
        return self._partition(namespace).store_offset(kind, consumer_id, offset)

    def delete_offset(self, namespace: Namespace, kind: ConsumerKind, consumer_id: int) -> None:
        self._partition(namespace).delete_offset(kind, consumer_id)

    def mark_polled(self, namespace: Namespace, group_id: int, offset: int) -> None:
        marks = self._polled.setdefault(namespace, {})
        marks[group_id] = max(offset, marks.get(group_id, 0))

    def is_settled(self, namespace: Namespace, group_id: int) -> bool:
        """Whether the group has committed everything it was given of the partition."""
        polled = self._polled.get(namespace, {}).get(group_id)
        if polled is None:
            return True
        partition = self._partitions.get(namespace)
        if partition is None:
            return False
        stored = partition.load_offset(ConsumerKind.GROUP, group_id)
        return stored is not None and stored >= polled

    # Segments.

    async def delete_segments(self, namespace: Namespace, count: int) -> None:
        await self._delete_oldest(namespace, self._partition(namespace), count)

    async def _delete_oldest(self, namespace: Namespace, partition: Partition, count: int) -> None:
        """Delete up to so many segments, one at a time: each waits for the disk, and the others
        have their turn in between."""
        for _ in range(count):
            removed = partition.delete_segments(1, keep_unread=self._keep_unread)
            await asyncio.sleep(0)
            if not removed.segments or self._partitions.get(namespace) is not partition:
                return

    async def clean(self, state: Metadata, *, now: int) -> None:
        """Delete what is older than its topic keeps, then what is more than its topic holds."""
        for stream, topic in _topics_of(state):
            for namespace, partition in list(self._of_topic(stream.id, topic)):
                if topic.message_expiry == NEVER:
                    break
                old = expired(partition.log.segments(), now=now, expiry=topic.message_expiry)
                with _logged_failure("cleaned", namespace):
                    await self._delete_oldest(namespace, partition, old)
            if topic.max_topic_size != UNLIMITED:
                await self._shrink(stream.id, topic)
            await asyncio.sleep(0)

    async def compress(self, state: Metadata, algorithm_of: Callable[[Topic], Compression]) -> None:
        """Rewrite sealed segments of compressed topics, one after another, off the loop."""
        for stream, topic in _topics_of(state):
            algorithm = algorithm_of(topic)
            if algorithm is Compression.NONE or algorithm in self._cannot_compress:
                continue
            for namespace, partition in list(self._of_topic(stream.id, topic)):
                if self._partitions.get(namespace) is not partition:
                    continue  # deleted while another one was compressed
                try:
                    await compress_sealed(partition.log, algorithm, self._twins)
                except FeatureUnavailable as missing:
                    self._cannot_compress.add(algorithm)
                    log.warning("segments stay uncompressed: %s", missing)
                    break
                except BorzoiError as fault:
                    log.warning("partition %s was not compressed: %s", namespace, fault)

    async def _shrink(self, stream_id: int, topic: Topic) -> None:
        found = list(self._of_topic(stream_id, topic))
        partitions = [partition for _, partition in found]
        surplus = oversized(
            [
                PartitionFacts(
                    partition.log.segments(), partition.barrier(keep_unread=self._keep_unread)
                )
                for partition in partitions
            ],
            topic_size=sum(partition.statistics.size for partition in partitions),
            topic_size_max=topic.max_topic_size,
        )
        for (namespace, partition), count in zip(found, surplus, strict=True):
            if count:
                with _logged_failure("shrunk", namespace):
                    await self._delete_oldest(namespace, partition, count)

    # Numbers.

    def statistics(self, namespace: Namespace) -> PartitionStatistics:
        if namespace in self._unopened:
            return PartitionStatistics(0, 0, 0, 0)
        return self._partition(namespace).statistics

    def topic_totals(self, stream_id: int, topic: Topic) -> Totals:
        totals = Totals()
        for _, partition in self._of_topic(stream_id, topic):
            totals.add(partition.statistics)
        return totals

    def stream_totals(self, stream: Stream) -> Totals:
        totals = Totals()
        for topic in stream.topics.values():
            for _, partition in self._of_topic(stream.id, topic):
                totals.add(partition.statistics)
        return totals

    def totals(self) -> Totals:
        totals = Totals()
        for partition in self._partitions.values():
            totals.add(partition.statistics)
        return totals

    def _of_topic(self, stream_id: int, topic: Topic) -> Iterator[tuple[Namespace, Partition]]:
        for partition_id in topic.partitions:
            namespace = Namespace(stream_id, topic.id, partition_id)
            partition = self._partitions.get(namespace)
            if partition is not None:
                yield namespace, partition

    # What follows from metadata.

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

    async def make_way(self, coming: Coming) -> None:
        """Clear the places of what is about to be created, before the log says that it exists.

        What a deletion that was cut short (a crash, a full disk) left there belongs to nobody,
        least of all to who gets its number next; after a crash nobody could tell them apart.
        """
        match coming:
            case ComingStream(stream_id):
                places = [self._folders.stream(stream_id)]
            case ComingTopic(stream_id, topic_id):
                places = [self._folders.topic(stream_id, topic_id)]
            case ComingPartitions(stream_id, topic_id, partition_ids):
                coming_ones = _namespaces(stream_id, [(topic_id, partition_ids)])
                places = [self._folders.partition(namespace) for namespace in coming_ones]
        for place in places:
            await self._trash.take(place)
        await self._trash.settled()

    def finish_deletions(self, effects: Sequence[Effect], state: Metadata) -> None:
        """Put what the effects deleted, and the state does not have, into the trash: whoever was
        to do so may have been killed before."""
        kept = {(stream.id, topic.id): topic.partitions for stream, topic in _topics_of(state)}
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
        """Open new partitions. They are in the metadata already, so one that cannot be opened
        refuses its messages until it can, and the others serve."""
        folder = self._folders.topic(stream_id, topic_id)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            log.error("%s cannot be made yet: %s", folder, fault)  # noqa: TRY400
        created = list(_namespaces(stream_id, [(topic_id, partition_ids)]))
        self._unopened.update(created)
        for namespace in created:
            # Making files takes its time: the others have their turn after each.
            await asyncio.sleep(0)
            if namespace in self._unopened:
                self._open_or_note(namespace)

    async def _drop(self, namespaces: Sequence[Namespace], folder: Path) -> None:
        """Forget the partitions, and move their files out of the way; the trash removes them."""
        for namespace in namespaces:
            self._polled.pop(namespace, None)
            self._unopened.discard(namespace)
            partition = self._partitions.pop(namespace, None)
            if partition is not None:
                with _logged_failure("let go", namespace):
                    partition.abandon()
        try:
            await self._trash.take(folder)
        except StorageFailure as fault:
            # It is deleted all the same; `make_way` tries again before the number is used again.
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
            self._partition(namespace).purge()
            return
        partition = self._partitions.pop(namespace, None)
        if partition is not None:
            with _logged_failure("let go", namespace):
                partition.abandon(purged=True)
        self._open_or_note(namespace)

    async def _forget_group(self, namespaces: Iterator[Namespace], group_id: int) -> None:
        for namespace in namespaces:
            await asyncio.sleep(0)
            self._polled.get(namespace, {}).pop(group_id, None)
            partition = self._partitions.get(namespace)
            if partition is not None:
                try:
                    partition.delete_offset(ConsumerKind.GROUP, group_id)
                except ConsumerOffsetNotFound:
                    continue
                except BorzoiError as fault:
                    log.warning("partition %s keeps an offset: %s", namespace, fault)

    async def close(self) -> None:
        """Save, sync and close all; one that cannot is logged, the others still close."""
        # Side by side, both: thousands of partitions one after another would take longer than a
        # stop may, because each sync waits for the disk and the disk answers many at once.
        await asyncio.gather(*(self._saved(namespace) for namespace in list(self._partitions)))
        for namespace, partition in self._partitions.items():
            with _logged_failure("closed", namespace):
                partition.offsets.close()
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(CLOSING_THREADS, thread_name_prefix="closing") as threads:
            # Nobody else uses a log any more, so it may be another thread that closes it.
            await asyncio.gather(
                *(
                    loop.run_in_executor(threads, _close_log, namespace, partition)
                    for namespace, partition in self._partitions.items()
                )
            )
        self._partitions.clear()
        self._trash.close()

    async def _saved(self, namespace: Namespace) -> None:
        with _logged_failure("saved", namespace):
            waiter = self._partitions[namespace].flush(sync=True)
            if waiter is not None:
                await waiter


def _close_log(namespace: Namespace, partition: Partition) -> None:
    with _logged_failure("closed", namespace):
        partition.log.close()


@contextmanager
def _logged_failure(action: str, namespace: Namespace) -> Iterator[None]:
    """What one partition cannot do must not stop the same being done to the others."""
    try:
        yield
    except BorzoiError as fault:
        log.warning("partition %s was not %s: %s", namespace, action, fault)


def _topics_of(state: Metadata) -> Iterator[tuple[Stream, Topic]]:
    """Every topic, for who goes through them with pauses: what was deleted meanwhile, and what
    got its number, is not among them."""
    for stream in list(state.streams.values()):
        for topic in list(stream.topics.values()):
            if state.streams.get(stream.id) is stream and stream.topics.get(topic.id) is topic:
                yield stream, topic


def _namespaces(stream_id: int, topics: Sequence[tuple[int, Sequence[int]]]) -> Iterator[Namespace]:
    for topic_id, partition_ids in topics:
        for partition_id in partition_ids:
            yield Namespace(stream_id, topic_id, partition_id)
