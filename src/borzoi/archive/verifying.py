"""Checks that an archive still holds what its markers say, by reading every byte."""

from collections.abc import AsyncIterator, Callable

from borzoi.archive import layout
from borzoi.archive.catalog import Catalog, Selection, gap_in
from borzoi.archive.layout import SegmentPlace
from borzoi.archive.markers import FileMark, decode_segment_marker, decode_state_marker
from borzoi.archive.uploading import verify_object
from borzoi.model.value import Value
from borzoi.objectstore.errors import Corrupt, ObjectNotFound
from borzoi.objectstore.interface import ObjectStore


class Checked(Value):
    """One file of the archive, and its fault, if any."""

    key: str
    size: int
    fault: str = ""


async def verify(
    store: ObjectStore,
    catalog: Catalog,
    selection: Selection,
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> AsyncIterator[Checked]:
    """Read every selected file, of all lives, and compare it with its marker.

    `advance` is called with the number of bytes read.
    """
    for life in catalog.lives:
        if not selection.includes(life.life.namespace):
            continue
        prefix = layout.life_prefix(catalog.server, life.life)
        markers = []
        for start in sorted(life.starts):
            key = layout.marker_key(catalog.server, SegmentPlace(life.life, start))
            try:
                marker = decode_segment_marker((await store.get(key)).data, key=key)
            except (Corrupt, ObjectNotFound) as fault:
                yield Checked(key, 0, str(fault))
                continue
            markers.append(marker)
            for mark in (marker.log, marker.index):
                yield await _checked(store, prefix + mark.name, mark, advance)
        gap = gap_in(markers)
        if gap is not None:
            yield Checked(prefix, 0, f"the messages {gap[0]} to {gap[1]} are missing")
    if selection == Selection():
        for index in catalog.states:
            prefix = layout.state_prefix(catalog.server, index)
            key = prefix + layout.STATE_MARKER
            try:
                state = decode_state_marker((await store.get(key)).data, key=key)
            except (Corrupt, ObjectNotFound) as fault:
                yield Checked(key, 0, str(fault))
                continue
            for mark in state.files:
                yield await _checked(store, prefix + mark.name, mark, advance)


async def _checked(
    store: ObjectStore, key: str, mark: FileMark, advance: Callable[[int], None]
) -> Checked:
    try:
        await verify_object(store, key, mark, advance=advance)
    except (Corrupt, ObjectNotFound) as fault:
        return Checked(key, mark.size, str(fault))
    return Checked(key, mark.size)
