"""The partitions of this shard: which are open, which are still to be opened, what they hold.

Partitions that metadata knows but that cannot be opened (no room, no right) are kept in mind and
tried again by whoever asks for them.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from borzoi.metadata.state import Metadata, Topic
from borzoi.model.errors import BorzoiError, PartitionNotFound
from borzoi.model.namespace import Namespace
from borzoi.partitions.partition import Partition
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.storage.syncing import Once

log = logging.getLogger(__name__)

#: Partitions that are closed at once; the disk merges what they ask for.
CLOSING_THREADS: Final = 16


class Totals(msgspec.Struct, frozen=True):
    """Sums over partitions."""

    size_bytes: int = 0
    messages_count: int = 0
    segments_count: int = 0

    @classmethod
    def of(cls, partitions: Iterable[PartitionStatistics]) -> "Totals":
        size = messages = segments = 0
        for statistics in partitions:
            size += statistics.size
            messages += statistics.messages_count
            segments += statistics.segments_count
        return cls(size, messages, segments)


class PartitionTable:
    """Partitions by their place."""

    __slots__ = ("_open", "_unopened", "opened")

    def __init__(self, open_partition: Callable[[Namespace], Partition]) -> None:
        self._open = open_partition
        #: To be read by the plane, which looks up a partition for each request.
        self.opened: dict[Namespace, Partition] = {}
        #: Partitions that exist but could not be opened.
        self._unopened: set[Namespace] = set()

    def find(self, namespace: Namespace) -> Partition:
        """The partition, opened now if it could not be before."""
        partition = self.opened.get(namespace)
        if partition is None:
            if namespace not in self._unopened:
                raise PartitionNotFound(f"there is no partition {namespace}")
            partition = self.opened[namespace] = self._open(namespace)
            self._unopened.discard(namespace)
        return partition

    def get(self, namespace: Namespace) -> Partition | None:
        """The partition if it is open."""
        return self.opened.get(namespace)

    def of_topic(self, stream_id: int, topic: Topic) -> Iterator[tuple[Namespace, Partition]]:
        """The open ones of a topic."""
        for partition_id in topic.partitions:
            namespace = Namespace(stream_id, topic.id, partition_id)
            partition = self.opened.get(namespace)
            if partition is not None:
                yield namespace, partition

    # Coming and going.

    def open_all(self, state: Metadata) -> None:
        """Open every partition the metadata knows; one that is damaged is fenced, not fatal."""
        for stream in state.streams.values():
            for topic in stream.topics.values():
                for partition_id in topic.partitions:
                    self.open_or_note(Namespace(stream.id, topic.id, partition_id))

    def open_or_note(self, namespace: Namespace) -> None:
        """Open the partition, now or when the disk has room again: it exists in any case."""
        try:
            self.opened[namespace] = self._open(namespace)
            self._unopened.discard(namespace)
        except (BorzoiError, OSError) as fault:
            self._unopened.add(namespace)
            log.error("partition %s cannot be opened yet: %s", namespace, fault)  # noqa: TRY400

    async def open_new(self, created: list[Namespace]) -> None:
        """Open partitions that are in the metadata already: one that cannot be opened refuses its
        messages until it can, and the others serve."""
        self._unopened.update(created)
        for namespace in created:
            # Making files takes its time: the others have their turn after each.
            await asyncio.sleep(0)
            if namespace in self._unopened:
                self.open_or_note(namespace)

    def let_go(self, namespace: Namespace, *, purged: bool = False) -> None:
        """Forget the partition without writing anything: its files are on their way out."""
        self._unopened.discard(namespace)
        partition = self.opened.pop(namespace, None)
        if partition is not None:
            with logged_failure("let go", namespace):
                partition.abandon(purged=purged)

    async def close(self) -> None:
        """Save, sync and close all; one that cannot is logged, the others still close."""
        # Thousands of partitions lie in the same few directories: each is synced once for all.
        syncs: dict[Path, Once] = {}
        for partition in self.opened.values():
            partition.log.share_syncs(syncs)
        # Side by side, both: thousands of partitions one after another would take longer than a
        # stop may, because each sync waits for the disk and the disk answers many at once.
        await asyncio.gather(*(self._saved(namespace) for namespace in list(self.opened)))
        for namespace, partition in self.opened.items():
            with logged_failure("closed", namespace):
                partition.offsets.close()
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(CLOSING_THREADS, thread_name_prefix="closing") as threads:
            # Nobody else uses a log any more, so it may be another thread that closes it.
            await asyncio.gather(
                *(
                    loop.run_in_executor(threads, _close_log, namespace, partition)
                    for namespace, partition in self.opened.items()
                )
            )
        self.opened.clear()

    async def _saved(self, namespace: Namespace) -> None:
        with logged_failure("saved", namespace):
            waiter = self.opened[namespace].flush(sync=True)
            if waiter is not None:
                await waiter

    # Statistics.

    def totals(self) -> Totals:
        """Over all open partitions."""
        return Totals.of(partition.statistics for partition in self.opened.values())


def _close_log(namespace: Namespace, partition: Partition) -> None:
    with logged_failure("closed", namespace):
        partition.log.close()


@contextmanager
def logged_failure(action: str, namespace: Namespace) -> Iterator[None]:
    """What one partition cannot do must not stop the same being done to the others."""
    try:
        yield
    except BorzoiError as fault:
        log.warning("partition %s was not %s: %s", namespace, action, fault)
