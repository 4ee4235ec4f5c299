"""Partitions with sealed segments, and archivers for them."""

from pathlib import Path
from random import Random

from tests.support.logs import numbered

from borzoi.archive.archiver import Archiver, ArchiveSettings
from borzoi.archive.interface import PartitionView
from borzoi.model.namespace import Namespace
from borzoi.objectstore.interface import ObjectStore
from borzoi.storage.compressed import open_twin
from borzoi.storage.layout import partition_directory
from borzoi.storage.local import LocalMedium
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.settings import PartitionSettings, SegmentSettings

SEGMENT_BYTES = 31 * 1024
CREATED_AT = 1_700_000_000_000_000
ZERO = Namespace(0, 0, 0)


def open_partition(
    root: Path, namespace: Namespace = ZERO, size: int = SEGMENT_BYTES
) -> SegmentedLog:
    return open_log(
        partition_directory(root, namespace),
        LocalMedium(),
        segment=SegmentSettings(size=size),
        partition=PartitionSettings(messages_required_to_save=1),
        open_twin=open_twin,
    )


def fill(log: SegmentedLog, batches: int, *, seed: int = 0, timestamp: int = CREATED_AT) -> None:
    """Append batches of 10 messages of 1,000 bytes; four of them make a segment."""
    draws = Random(seed)
    for number in range(batches):
        at = timestamp + log.next_offset + number
        payloads = [draws.randbytes(1000) for _ in range(10)]
        log.append(numbered(payloads, base_offset=log.next_offset, timestamp=at), timestamp=at)
    log.flush()


def view_of(
    log: SegmentedLog, namespace: Namespace = ZERO, created_at: int = CREATED_AT
) -> PartitionView:
    return PartitionView(namespace, created_at, log.directory, log.segments())


def archiver_to(
    store: ObjectStore,
    *,
    now: int = CREATED_AT + 10**9,
    asks_first: bool = False,
    follows_state: bool = False,
    **settings,
) -> Archiver:
    clock = iter(range(now, now + 10**6))
    return Archiver(
        store,
        ArchiveSettings(server="node", **settings),
        clock=lambda: next(clock),
        version="0.0-test",
        asks_first=asks_first,
        follows_state=follows_state,
    )


def files_in(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
