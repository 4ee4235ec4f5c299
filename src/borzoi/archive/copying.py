"""Copies one archive into another, for a second site. Existing objects are skipped.

Markers go last, so that the copy is at any time an archive whose markers tell the truth.
"""

from collections.abc import AsyncIterator

from borzoi.archive.layout import MARKER_SUFFIX
from borzoi.objectstore.errors import ObjectNotFound
from borzoi.objectstore.interface import PART_BYTES_DEFAULT, ObjectMeta, ObjectStore
from borzoi.objectstore.listing import list_objects
from borzoi.objectstore.multipart import BufferedMultipartWriter


async def plan_copy(source: ObjectStore, target: ObjectStore, prefix: str) -> list[ObjectMeta]:
    """The objects that the target lacks, markers last.

    Files are compared by size, since a file of an archive never changes; markers by content.
    """
    present = {meta.key: meta.size async for meta in list_objects(target, prefix)}
    files, markers = [], []
    async for meta in list_objects(source, prefix):
        if meta.key.endswith(MARKER_SUFFIX):
            if not await _is_same(source, target, meta, present):
                markers.append(meta)
        elif present.get(meta.key) != meta.size:
            files.append(meta)
    return files + markers


async def copy_object(
    source: ObjectStore,
    target: ObjectStore,
    meta: ObjectMeta,
    *,
    part_size: int = PART_BYTES_DEFAULT,
) -> AsyncIterator[int]:
    """Copy one object piece by piece; yields the bytes of each step."""
    if not meta.size:
        await target.put(meta.key, b"")
        return
    writer = BufferedMultipartWriter(target, meta.key, part_size=part_size)
    try:
        for position in range(0, meta.size, part_size):
            end = min(position + part_size, meta.size)
            await writer.append(await source.get_range(meta.key, position, end))
            yield end - position
        await writer.seal()
    except BaseException:
        await writer.abort()
        raise


async def _is_same(
    source: ObjectStore, target: ObjectStore, meta: ObjectMeta, present: dict[str, int]
) -> bool:
    if present.get(meta.key) != meta.size:
        return False
    try:
        return (await source.get(meta.key)).data == (await target.get(meta.key)).data
    except ObjectNotFound:
        return False
