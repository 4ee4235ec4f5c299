"""Every key of an archive, spelled once.

{server}/streams/{s}/topics/{t}/partitions/{p}/{life}/{offset:020}.log|.log.zst|.index|.json
{server}/state/{index:020}/state.messages|state.snapshot|info.json|marker.json

`life` distinguishes partitions that reuse a number: the time the partition was created or, after a
purge, the time its first segment was archived.
The `.json` of a segment is written last: without it the rest does not count.
"""

import re
from typing import Final, NamedTuple

from borzoi.model.namespace import Namespace

MARKER_SUFFIX: Final = ".json"
STATE_MARKER: Final = "marker.json"

_SEGMENT_MARKER: Final = re.compile(
    r"streams/(\d+)/topics/(\d+)/partitions/(\d+)/(\d+)/(\d{20})\.json"
)
_STATE_MARKER: Final = re.compile(r"state/(\d{20})/marker\.json")


class Life(NamedTuple):
    """One life of a partition."""

    namespace: Namespace
    began: int


class SegmentPlace(NamedTuple):
    """A segment in the archive."""

    life: Life
    start_offset: int


def streams_prefix(server: str) -> str:
    return f"{server}/streams/"


def states_prefix(server: str) -> str:
    return f"{server}/state/"


def life_prefix(server: str, life: Life) -> str:
    stream_id, topic_id, partition_id = life.namespace
    return f"{server}/streams/{stream_id}/topics/{topic_id}/partitions/{partition_id}/{life.began}/"


def marker_key(server: str, place: SegmentPlace) -> str:
    return f"{life_prefix(server, place.life)}{place.start_offset:020}{MARKER_SUFFIX}"


def state_prefix(server: str, index: int) -> str:
    return f"{states_prefix(server)}{index:020}/"


def place_of(server: str, key: str) -> SegmentPlace | None:
    """Return the segment of a marker's key."""
    found = _SEGMENT_MARKER.fullmatch(key.removeprefix(f"{server}/"))
    if found is None:
        return None
    stream_id, topic_id, partition_id, began, start_offset = map(int, found.groups())
    return SegmentPlace(Life(Namespace(stream_id, topic_id, partition_id), began), start_offset)


def state_index_of(server: str, key: str) -> int | None:
    """Return the metadata copy of a marker's key."""
    found = _STATE_MARKER.fullmatch(key.removeprefix(f"{server}/"))
    return int(found[1]) if found else None
