"""The partitions of this shard: which are open, which could not be opened yet, and their totals.

Partitions that exist in the metadata but cannot be opened (no space, no permission) are noted, and
opened by the next request for them.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import msgspec

from borzoi.metadata.state import Metadata, Topic
from borzoi.model.errors import BorzoiError, PartitionNotFound, TooManyPartitions
from borzoi.model.namespace import Namespace
from borzoi.partitions.partition import Partition
from borzoi.partitions.statistics import PartitionStatistics
from borzoi.shard.partition_store import PartitionStore

log = logging.getLogger(__name__)

#: Partitions that are closed concurrently; the disk merges their writes. With 64 a stop takes half
#: as long as with 16.
CLOSING_THREADS: Final = 64


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

    __slots__ = ("_generations", "_partitions_max", "_store", "opened")

    def __init__(self, store: PartitionStore, partitions_max: int | None = None) -> None:
        self._store = store
        #: Limit for new partitions; stored ones are all served.
        self._partitions_max = partitions_max
        #: Read by the plane, which looks up a partition for each request.
        self.opened: dict[Namespace, Partition] = {}
        #: Partitions that exist but could not be opened yet, and the generation to open them in.
        self._generations: dict[Namespace, int] = {}

    def find(self, namespace: Namespace) -> Partition:
        """Return the partition; retry to open it if that failed before."""
        partition = self.opened.get(namespace)
        if partition is None:
            if namespace not in self._generations:
                raise PartitionNotFound(f"there is no partition {namespace}")
            partition = self._open(namespace)
        return partition

    def get(self, namespace: Namespace) -> Partition | None:
        """Return the partition if it is open."""
        return self.opened.get(namespace)

    def generation_of(self, namespace: Namespace) -> int:
        """The generation of a partition, open or not."""
        partition = self.opened.get(namespace)
        if partition is None:
            return self._generations.get(namespace, 0)
        return partition.log.generation

    def of_topic(self, stream_id: int, topic: Topic) -> Iterator[tuple[Namespace, Partition]]:
        """Return the open partitions of a topic."""
        for partition_id in topic.partitions:
            namespace = Namespace(stream_id, topic.id, partition_id)
            partition = self.opened.get(namespace)
            if partition is not None:
                yield namespace, partition

    # Opening and closing.

    def refuse_beyond_limit(self, added: int) -> None:
        """Raise `TooManyPartitions` if `added` more would exceed the limit."""
        there = len(self.opened) + len(self._generations)
        if self._partitions_max is not None and there + added > self._partitions_max:
            raise TooManyPartitions(
                f"the server has {there} partitions and memory for {self._partitions_max};"
                f" {added} more cannot be served"
            )

    def open_all(
        self, state: Metadata, is_own: Callable[[Namespace], bool] = lambda _: True
    ) -> None:
        """Open every partition of this shard that the metadata knows and that is not open; one that
        is damaged is fenced, not fatal."""
        for stream in state.streams.values():
            for topic in stream.topics.values():
                for partition_id in topic.partitions:
                    namespace = Namespace(stream.id, topic.id, partition_id)
                    if is_own(namespace) and namespace not in self.opened:
                        self.open_or_note(namespace)

    def open_or_note(self, namespace: Namespace, *, generation: int = 0) -> None:
        """Open the partition, now or when the disk has space again: it exists in any case."""
        self._generations.setdefault(namespace, generation)
        try:
            self._open(namespace)
        except (BorzoiError, OSError) as fault:
            log.error("cannot open partition %s yet: %s", namespace, fault)  # noqa: TRY400

    def _open(self, namespace: Namespace) -> Partition:
        partition = self._store.open(namespace, generation=self._generations[namespace])
        assert partition.namespace == namespace, "a partition is stored in its own place"
        assert namespace not in self.opened, "a partition has one owner"
        self.opened[namespace] = partition
        del self._generations[namespace]
        return partition

    async def open_new(self, created: list[Namespace]) -> None:
        """Open partitions that are in the metadata already: one that cannot be opened rejects
        requests until it can; the others are served."""
        self._generations.update(dict.fromkeys(created, 0))
        for namespace in created:
            # Creating files takes time: let other requests run after each.
            await asyncio.sleep(0)
            if namespace in self._generations:
                self.open_or_note(namespace)

    def discard(self, namespace: Namespace, *, purged: bool = False) -> None:
        """Close the partition without writing: its files are being removed."""
        self._generations.pop(namespace, None)
        partition = self.opened.pop(namespace, None)
        if partition is not None:
            with logged_failure("discarded", namespace):
                partition.abandon(purged=purged)

    async def close(self) -> None:
        """Save, sync and close all; one that cannot is logged, the others still close."""
        self._store.prepare_to_close(self.opened.values())
        # Answer waiting clients first. The rest is synced when it is closed.
        await asyncio.gather(*(self._settled(namespace) for namespace in list(self.opened)))
        for namespace, partition in self.opened.items():
            with logged_failure("closed", namespace):
                partition.offsets.close()
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(CLOSING_THREADS, thread_name_prefix="closing") as threads:
            # The logs are not used any more, so another thread may close them. Concurrently: each
            # sync waits for the disk, and the disk handles many at once. Thousands of partitions
            # one after another would take longer than a stop may.
            await asyncio.gather(
                *(
                    loop.run_in_executor(threads, _close_log, namespace, partition)
                    for namespace, partition in self.opened.items()
                )
            )
        self.opened.clear()

    async def _settled(self, namespace: Namespace) -> None:
        """Wait for syncs that run or that requests wait for."""
        with logged_failure("saved", namespace):
            partition = self.opened[namespace]
            partition.flush()
            if partition.log.is_settled:
                return
            waiter = partition.log.flush(sync=True)
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
    """Log the failure of one partition, and continue with the others."""
    try:
        yield
    except BorzoiError as fault:
        log.warning("partition %s was not %s: %s", namespace, action, fault)
