"""Background work on partitions: retention deletes old segments, sealed ones are compressed.

All of it yields to requests. Partitions that were deleted or replaced meanwhile are skipped.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from borzoi.archive.interface import PartitionView
from borzoi.metadata.state import Metadata, Stream, Topic
from borzoi.model.consuming import ConsumerKind
from borzoi.model.errors import BorzoiError, FeatureUnavailable
from borzoi.model.limits import NEVER, UNLIMITED
from borzoi.model.namespace import Namespace
from borzoi.model.topics import Compression
from borzoi.shard.partition_store import PartitionStore
from borzoi.shard.partition_table import PartitionTable, logged_failure
from borzoi.storage.retention import (
    PartitionFacts,
    deletable,
    expired,
    oversized,
    shrunk_below,
)

log = logging.getLogger(__name__)

#: Bytes of all these partitions together.
TopicSize: TypeAlias = Callable[[Sequence[Namespace]], Awaitable[int]]


class Upkeep:
    """Retention and compression over the partitions of this shard."""

    def __init__(self, table: PartitionTable, store: PartitionStore) -> None:
        self._table = table
        self._store = store
        #: With several shards, how to find the size of partitions that others own.
        self.topic_size: TopicSize | None = None
        self._cannot_compress: set[Compression] = set()
        #: Partitions where retention waits for a stored offset → consumer kind, id, offset.
        self.pinned: dict[Namespace, tuple[ConsumerKind, int, int]] = {}

    async def clean(self, state: Metadata, *, now: int) -> None:
        """Delete segments past the expiry of their topic, then those over its size."""
        for stream, topic in topics_of(state):
            for namespace, partition in list(self._table.of_topic(stream.id, topic)):
                if topic.message_expiry == NEVER:
                    break
                segments = partition.log.segments()
                old = expired(segments, now=now, expiry=topic.message_expiry)
                with logged_failure("cleaned", namespace):
                    await partition.delete_oldest(old)
            if topic.max_topic_size != UNLIMITED:
                await self._shrink(stream.id, topic)
            self._note_pinned(stream.id, topic, now)
            await asyncio.sleep(0)

    async def compress(self, state: Metadata, algorithm_of: Callable[[Topic], Compression]) -> None:
        """Rewrite sealed segments of compressed topics, one after another, off the loop."""
        for stream, topic in topics_of(state):
            algorithm = algorithm_of(topic)
            if algorithm is Compression.NONE or algorithm in self._cannot_compress:
                continue
            for namespace, partition in list(self._table.of_topic(stream.id, topic)):
                if self._table.get(namespace) is not partition:
                    continue  # deleted while another segment was compressed
                try:
                    await self._store.compress(partition, algorithm)
                except FeatureUnavailable as missing:
                    self._cannot_compress.add(algorithm)
                    log.warning("segments stay uncompressed: %s", missing)
                    break
                except BorzoiError as fault:
                    log.warning("could not compress partition %s: %s", namespace, fault)

    def _note_pinned(self, stream_id: int, topic: Topic, now: int) -> None:
        """Log, once per consumer, whose stored offset holds back retention."""
        found = list(self._table.of_topic(stream_id, topic))
        too_large = topic.max_topic_size != UNLIMITED and sum(
            partition.statistics.size for _, partition in found
        ) >= shrunk_below(topic.max_topic_size)
        for namespace, partition in found:
            barrier = partition.barrier()
            slowest = partition.offsets.slowest()
            segments = partition.log.segments()
            wanted = expired(segments, now=now, expiry=topic.message_expiry)
            if too_large:
                wanted = deletable(segments, barrier=None)
            pinned = wanted - deletable(segments, barrier=barrier)
            if barrier is None or slowest is None or pinned <= 0:
                self.pinned.pop(namespace, None)
                continue
            kind, consumer_id, offset = slowest
            if self.pinned.get(namespace) != slowest:
                log.warning(
                    "%s %d holds back %d segments of partition %s from retention: its offset is"
                    " %d; delete it if the consumer does not come back",
                    kind.name.lower(),
                    consumer_id,
                    pinned,
                    namespace,
                    offset,
                )
            self.pinned[namespace] = slowest

    async def _shrink(self, stream_id: int, topic: Topic) -> None:
        found = list(self._table.of_topic(stream_id, topic))
        partitions = [partition for _, partition in found]
        size = sum(partition.statistics.size for partition in partitions)
        size_max = topic.max_topic_size
        if self.topic_size is not None and found:
            # Each shard brings its part of the topic below the same part of the limit.
            everywhere = [Namespace(stream_id, topic.id, one) for one in topic.partitions]
            total = max(await self.topic_size(everywhere), size)
            size_max = max(size_max * size // total, 1) if total else size_max
        surplus = oversized(
            [
                PartitionFacts(partition.log.segments(), partition.barrier())
                for partition in partitions
            ],
            topic_size=size,
            topic_size_max=size_max,
        )
        for (namespace, partition), wanted in zip(found, surplus, strict=True):
            if wanted:
                with logged_failure("shrunk", namespace):
                    await partition.delete_oldest(wanted)

    def views(self, state: Metadata, folder: Callable[[Namespace], Path]) -> list[PartitionView]:
        """Return every open partition for the archiver, with its files below `folder`."""
        return [
            PartitionView(
                namespace,
                topic.partitions[namespace.partition_id].created_at,
                folder(namespace),
                partition.log.segments(),
            )
            for stream, topic in topics_of(state)
            for namespace, partition in self._table.of_topic(stream.id, topic)
        ]


def topics_of(state: Metadata) -> Iterator[tuple[Stream, Topic]]:
    """Yield every topic, for loops that await in between: topics deleted meanwhile are skipped,
    and so are new ones with the same id."""
    for stream in list(state.streams.values()):
        for topic in list(stream.topics.values()):
            if state.streams.get(stream.id) is stream and stream.topics.get(topic.id) is topic:
                yield stream, topic
