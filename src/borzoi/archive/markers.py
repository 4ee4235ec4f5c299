"""The markers of an archive: what was copied, how long it is, and its checksums.

A marker is JSON whose last field, `check`, is the xxh3-64 of the text before it: a damaged marker
must not vouch for anything.
"""

import re
from typing import Final, TypeVar

import msgspec
import xxhash

from borzoi.model.value import Value
from borzoi.objectstore.errors import Corrupt
from borzoi.objectstore.interface import Buffer
from borzoi.storage.segment import SegmentFacts

FORMAT: Final = 1

_END: Final = b"\n}"
_CHECK: Final = re.compile(rb',\n  "check": "([0-9a-f]{16})"\n}\n\Z')


class FileMark(Value):
    """One file of the archive."""

    name: str
    size: int
    #: xxh3-64 of all bytes, in hexadecimal.
    xxh3: str


class SegmentMarker(Value, kw_only=True):
    """A segment that was copied completely."""

    format: int = FORMAT
    start_offset: int
    end_offset: int
    start_timestamp: int
    end_timestamp: int
    messages_count: int
    #: Bytes of the messages, uncompressed.
    size: int
    log: FileMark
    index: FileMark
    archived_at: int
    server_version: str

    def describes(self, facts: SegmentFacts) -> bool:
        """Whether the marker describes this segment, not another one with its number."""
        return (
            self.start_offset == facts.start_offset
            and self.end_offset == facts.end_offset
            and self.start_timestamp == facts.start_timestamp
            and self.end_timestamp == facts.end_timestamp
            and self.size == facts.size
        )


class StateMarker(Value, kw_only=True):
    """A copy of the metadata files."""

    format: int = FORMAT
    last_index: int
    files: tuple[FileMark, ...]
    #: When the copy was begun: it has everything that was created before.
    archived_at: int
    server_version: str


def encode_marker(marker: SegmentMarker | StateMarker) -> bytes:
    text = msgspec.json.format(msgspec.json.encode(marker), indent=2).removesuffix(_END)
    return text + b',\n  "check": "%016x"\n}\n' % xxhash.xxh3_64_intdigest(text)


def decode_segment_marker(data: Buffer, *, key: str) -> SegmentMarker:
    return _decoded(data, SegmentMarker, key)


def decode_state_marker(data: Buffer, *, key: str) -> StateMarker:
    return _decoded(data, StateMarker, key)


M = TypeVar("M", SegmentMarker, StateMarker)


def _decoded(data: Buffer, kind: type[M], key: str) -> M:
    text = bytes(data)
    try:
        marker = msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as fault:
        raise Corrupt(f"it is not a marker: {fault}", op="get", key=key) from fault
    check = _CHECK.search(text)
    if check is None or int(check[1], 16) != xxhash.xxh3_64_intdigest(text[: check.start()]):
        raise Corrupt("it is a marker that does not match its checksum", op="get", key=key)
    if marker.format != FORMAT:
        raise Corrupt(f"it has the format {marker.format}, not {FORMAT}", op="get", key=key)
    return marker
