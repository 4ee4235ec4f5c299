"""Partition stores for tests."""

from pathlib import Path

from borzoi.model.namespace import Namespace
from borzoi.partitions.partition import Partition
from borzoi.shard.local_store import LocalPartitionStore, OpenPartition
from borzoi.shard.trash import Trash
from borzoi.storage.compressed import TwinOpener
from borzoi.storage.layout import TRASH, place_directory
from borzoi.storage.log import open_log
from borzoi.storage.media import Medium
from borzoi.storage.offsets import OffsetWriter, open_offsets

WORDS = ("streams", "topics", "partitions")


def store_in(
    root: Path, medium: Medium, open_partition: OpenPartition | None = None, *, durable: bool = True
) -> LocalPartitionStore:
    """A local store below the directory; by default its partitions have no options."""
    writer, twins = OffsetWriter(medium), TwinOpener()

    def opened(namespace: Namespace, folder: Path, generation: int) -> Partition:
        log = open_log(folder, medium, open_twin=twins, generation=generation)
        return Partition(
            namespace, log, open_offsets(folder, writer), new_ids=lambda count: b"\1" * 16 * count
        )

    return LocalPartitionStore(
        medium,
        lambda place: place_directory(root, place, WORDS),
        opened if open_partition is None else open_partition,
        twins,
        Trash(medium, root / WORDS[0] / TRASH, durable=durable),
    )
