"""Partitions in directories: opened in place, renamed into the trash when deleted."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from borzoi.model.namespace import Namespace
from borzoi.model.topics import Compression
from borzoi.partitions.partition import Partition
from borzoi.shard.partition_store import Place
from borzoi.shard.trash import Trash
from borzoi.storage.compressed import TwinOpener, compress_sealed
from borzoi.storage.log import SegmentedLog
from borzoi.storage.media import Medium
from borzoi.storage.syncing import Once


class OpenPartition(Protocol):
    """Opens the partition of a directory."""

    def __call__(self, namespace: Namespace, folder: Path, generation: int) -> Partition: ...


class LocalPartitionStore:
    """A `PartitionStore` on a local file system."""

    def __init__(
        self,
        medium: Medium,
        folder_of: Callable[[Place], Path],
        open_partition: OpenPartition,
        twins: TwinOpener,
        trash: Trash,
    ) -> None:
        self._medium = medium
        self._folder_of = folder_of
        self._open_partition = open_partition
        self._twins = twins
        self._trash = trash

    def make(self, place: Place) -> None:
        self._medium.make_directory(self._folder(place))

    def open(self, namespace: Namespace, *, generation: int = 0) -> Partition:
        return self._open_partition(namespace, self._folder(namespace), generation)

    def set_aside(self, place: Place) -> None:
        self._trash.put(self._folder(place))

    async def drop(self, place: Place) -> None:
        await self._trash.take(self._folder(place))

    async def clear(self, *places: Place) -> None:
        for place in places:
            await self._trash.take(self._folder(place))
        await self._trash.settled()

    async def sync(self) -> None:
        await self._trash.synced()

    async def compress(self, partition: Partition, algorithm: Compression) -> None:
        log = partition.log
        assert isinstance(log, SegmentedLog), "this store opened the partition"
        await compress_sealed(log, algorithm, self._twins)

    def prepare_to_close(self, partitions: Iterable[Partition]) -> None:
        # Thousands of partitions share a few parent directories: sync each of them once.
        syncs: dict[Path, Once] = {}
        for partition in partitions:
            if isinstance(partition.log, SegmentedLog):
                partition.log.share_syncs(syncs)

    def close(self) -> None:
        self._trash.close()

    def _folder(self, place: Place) -> Path:
        assert 1 <= len(place) <= 3, "a place is a stream, a topic or a partition"
        assert min(place) >= 0, "ids are not negative"
        return self._folder_of(place)
