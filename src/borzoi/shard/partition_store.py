"""The interface of the store where the partition plane keeps partitions.

`shard.local_store.LocalPartitionStore` keeps them in directories. Another store may keep sealed
segments somewhere else. `tests/support/store_conformance.py` checks what is promised here.
"""

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from borzoi.model.namespace import Namespace
from borzoi.model.topics import Compression
from borzoi.partitions.partition import Partition

#: A stream, a topic of it, or a partition of that: the first one to three numbers of a namespace.
Place: TypeAlias = tuple[int] | tuple[int, int] | tuple[int, int, int]


class PartitionStore(Protocol):
    """Opens partitions, and removes what is stored of streams, topics and partitions."""

    def make(self, place: Place) -> None:
        """Prepare the place of a stream or topic. Does nothing if it exists; `StorageFailure` if it
        cannot be created."""
        ...

    def open(self, namespace: Namespace, *, generation: int = 0) -> Partition:
        """Open the partition as it is stored, or an empty one.

        Messages of an earlier generation than `generation` are removed: they were purged.
        Raises `StorageFailure` or `OSError` when there is no space or no permission.
        """
        ...

    def set_aside(self, place: Place) -> None:
        """Empty the place in one step, without waiting for the removal of what was there.

        `StorageFailure` when that is impossible; then everything is as it was. Partitions that are
        open there must be abandoned in the same turn of the event loop.
        """
        ...

    async def drop(self, place: Place) -> None:
        """Empty the place, however long that takes. Does nothing if it is empty."""
        ...

    async def clear(self, *places: Place) -> None:
        """Empty the places for what is about to be created there. May be repeated. Where metadata
        survives a power cut, so does this."""
        ...

    async def sync(self) -> None:
        """Make sure that emptied places stay empty after a power cut."""
        ...

    async def compress(self, partition: Partition, algorithm: Compression) -> None:
        """Compress the sealed segments of a partition of this store, off the event loop.

        `FeatureUnavailable` when the library for the algorithm is not installed.
        """
        ...

    def prepare_to_close(self, partitions: Iterable[Partition]) -> None:
        """Prepare to sync and close all of these: shared work is done once."""
        ...

    def close(self) -> None:
        """Stop removing. What is left is removed after the next start."""
        ...
