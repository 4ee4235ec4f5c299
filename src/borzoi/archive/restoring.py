"""From the archive back into a data directory.

Files are written under temporary names, checked against the marker, synced and renamed, so an
interrupted restore leaves no incomplete file under a final name. The result is what a server opens:
partition directories below `streams/`, and the metadata files when all was restored.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import xxhash

from borzoi.archive import layout
from borzoi.archive.catalog import (
    ArchivedLife,
    Catalog,
    NotInArchive,
    Selection,
    gap_in,
    read_markers,
)
from borzoi.archive.markers import FileMark, SegmentMarker, decode_state_marker
from borzoi.model.errors import BorzoiError
from borzoi.model.value import Value
from borzoi.objectstore.errors import Corrupt, ObjectNotFound
from borzoi.objectstore.interface import PART_BYTES_DEFAULT, ObjectStore
from borzoi.storage.compressed import open_twin
from borzoi.storage.layout import DRAFT_SUFFIX, partition_directory
from borzoi.storage.local import LocalMedium
from borzoi.storage.recovery import Inspection, recover


class TargetInUse(BorzoiError):
    """The target directory is not empty."""


class PlannedRestore(Value):
    """One partition to restore."""

    life: ArchivedLife
    markers: Sequence[SegmentMarker]
    directory: Path

    @property
    def size(self) -> int:
        return sum(marker.log.size + marker.index.size for marker in self.markers)


async def plan_restore(
    store: ObjectStore, catalog: Catalog, selection: Selection, target: Path
) -> list[PlannedRestore]:
    """Plan a restore; raises before anything is written if it is impossible."""
    plans = []
    for life in catalog.newest(selection):
        namespace = life.life.namespace
        markers = await read_markers(store, catalog.server, life, from_offset=selection.from_offset)
        if not markers:
            continue
        gap = gap_in(markers)
        if gap is not None:
            raise NotInArchive(
                f"the archive of partition {namespace} lacks the messages {gap[0]} to {gap[1]};"
                f" restore the rest with --from-offset {gap[1] + 1}"
            )
        directory = partition_directory(target, namespace)
        if directory.exists() and any(directory.iterdir()):
            raise TargetInUse(f"{directory} is not empty; restore into another directory")
        plans.append(PlannedRestore(life, markers, directory))
    if not plans:
        raise NotInArchive("the archive holds no such segment")
    return plans


async def restore(store: ObjectStore, server: str, plan: PlannedRestore) -> AsyncIterator[int]:
    """Restore one partition; yields the bytes of each step."""
    prefix = layout.life_prefix(server, plan.life.life)
    plan.directory.mkdir(parents=True, exist_ok=True)
    lacks_index = False
    for marker in plan.markers:
        async for size in download(store, prefix + marker.log.name, marker.log, plan.directory):
            yield size
        try:
            async for size in download(
                store, prefix + marker.index.name, marker.index, plan.directory
            ):
                yield size
        except ObjectNotFound:
            lacks_index = True
    if lacks_index:
        await asyncio.to_thread(rebuild_indexes, plan.directory)
    await asyncio.to_thread(_sync_directory, plan.directory)


async def restore_state(store: ObjectStore, catalog: Catalog, target: Path) -> int:
    """Restore the newest copy of the metadata; return the number of its last entry."""
    if not catalog.states:
        raise NotInArchive(f"the archive of {catalog.server} holds no metadata")
    index = max(catalog.states)
    prefix = layout.state_prefix(catalog.server, index)
    key = prefix + layout.STATE_MARKER
    marker = decode_state_marker((await store.get(key)).data, key=key)
    for mark in marker.files:
        path = target / mark.name
        if path.exists():
            raise TargetInUse(f"{path} is there already")
    await asyncio.to_thread(target.mkdir, parents=True, exist_ok=True)
    for mark in marker.files:
        async for _ in download(store, prefix + mark.name, mark, target):
            pass
    await asyncio.to_thread(_sync_directory, target)
    return index


async def download(
    store: ObjectStore,
    key: str,
    mark: FileMark,
    directory: Path,
    *,
    chunk: int = PART_BYTES_DEFAULT,
) -> AsyncIterator[int]:
    """Download one file; it gets its name when it is complete and verified."""
    draft = directory / (mark.name + DRAFT_SUFFIX)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    checksum = xxhash.xxh3_64()
    try:
        for position in range(0, mark.size, chunk):
            piece = await store.get_range(key, position, min(position + chunk, mark.size))
            await asyncio.to_thread(_write, descriptor, piece, checksum)
            yield len(piece)
        if f"{checksum.intdigest():016x}" != mark.xxh3:
            raise Corrupt(
                f"its checksum is {checksum.intdigest():016x} instead of {mark.xxh3}",
                op="get_range",
                key=key,
            )
        await asyncio.to_thread(os.fsync, descriptor)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    draft.rename(directory / mark.name)


def rebuild_indexes(directory: Path) -> None:
    """Rebuild missing indexes from the messages. Blocks."""
    recover(Inspection(LocalMedium(), directory, None, open_twin=open_twin))


def _write(descriptor: int, piece: memoryview, checksum: xxhash.xxh3_64) -> None:
    checksum.update(piece)
    while piece:
        piece = piece[os.write(descriptor, piece) :]


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
