"""The contents of an archive, found by listing it."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from borzoi.archive.layout import (
    Life,
    SegmentPlace,
    marker_key,
    place_of,
    state_index_of,
    states_prefix,
    streams_prefix,
)
from borzoi.archive.markers import SegmentMarker, decode_segment_marker
from borzoi.model.errors import BorzoiError
from borzoi.model.namespace import Namespace
from borzoi.model.value import Value
from borzoi.objectstore.interface import ObjectStore
from borzoi.objectstore.listing import list_objects


class NotInArchive(BorzoiError):
    """The archive does not hold what was requested."""


class Selection(Value):
    """Which partitions, and from which message on; None means all."""

    stream_id: int | None = None
    topic_id: int | None = None
    partition_id: int | None = None
    from_offset: int = 0

    def includes(self, namespace: Namespace) -> bool:
        wanted = (self.stream_id, self.topic_id, self.partition_id)
        return all(
            want is None or want == have for want, have in zip(wanted, namespace, strict=True)
        )


class ArchivedLife(msgspec.Struct):
    """The archived segments of one life of a partition."""

    life: Life
    starts: list[int]
    size: int = 0
    #: Files without a marker: of a running or an interrupted upload.
    unmarked: int = 0


class Catalog(msgspec.Struct):
    """One server's part of an archive."""

    server: str
    lives: list[ArchivedLife]
    states: list[int]

    def newest(self, selection: Selection) -> list[ArchivedLife]:
        """The last life of each selected partition."""
        found: dict[Namespace, ArchivedLife] = {}
        for life in sorted(self.lives, key=lambda one: one.life):
            if selection.includes(life.life.namespace) and life.starts:
                found[life.life.namespace] = life
        return list(found.values())


async def servers_of(store: ObjectStore) -> list[str]:
    """The names of all servers that archive there."""
    servers: dict[str, None] = {}
    async for meta in list_objects(store, ""):
        server, _, rest = meta.key.partition("/")
        if rest.startswith(("streams/", "state/")):
            servers[server] = None
    return list(servers)


async def read_catalog(store: ObjectStore, server: str) -> Catalog:
    """List everything a server has archived."""
    lives: dict[Life, ArchivedLife] = {}
    sizes: defaultdict[str, int] = defaultdict(int)
    marked: set[str] = set()
    files: defaultdict[str, int] = defaultdict(int)
    folders: dict[str, Life] = {}
    async for meta in list_objects(store, streams_prefix(server)):
        folder, _, name = meta.key.rpartition("/")
        segment = f"{folder}/{name[:20]}"
        place = place_of(server, meta.key)
        if place is not None:
            lives.setdefault(place.life, ArchivedLife(place.life, [])).starts.append(
                place.start_offset
            )
            folders[folder] = place.life
            marked.add(segment)
        else:
            sizes[segment] += meta.size
            files[segment] += 1
    for segment, size in sizes.items():
        life = lives.get(folders.get(segment.rpartition("/")[0], Life(Namespace(0, 0, 0), -1)))
        if life is None:
            continue
        if segment in marked:
            life.size += size
        else:
            life.unmarked += files[segment]
    states = [
        index
        async for meta in list_objects(store, states_prefix(server))
        if (index := state_index_of(server, meta.key)) is not None
    ]
    return Catalog(server, [lives[key] for key in sorted(lives)], states)


async def read_markers(
    store: ObjectStore, server: str, life: ArchivedLife, *, from_offset: int = 0
) -> list[SegmentMarker]:
    """Return the markers of a life from the segment with `from_offset` on, oldest first."""
    starts = sorted(life.starts)
    first = max((number for number, start in enumerate(starts) if start <= from_offset), default=0)
    markers = []
    for start in starts[first:]:
        key = marker_key(server, SegmentPlace(life.life, start))
        marker = decode_segment_marker((await store.get(key)).data, key=key)
        if marker.end_offset >= from_offset:
            markers.append(marker)
    return markers


def gap_in(markers: Sequence[SegmentMarker]) -> tuple[int, int] | None:
    """Return the first gap between two segments, as its first and last offset."""
    for before, after in pairwise(markers):
        if after.start_offset != before.end_offset + 1:
            return before.end_offset + 1, after.start_offset - 1
    return None
