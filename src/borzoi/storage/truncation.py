"""Cutting a log, as one step: purge is a cut to nothing.

A cut touches many files, so it is first written down (the file `intent`, on the disk) and then
carried out by steps that may be repeated; opening a log finishes an intent it finds. Until the
intent is on the disk nothing has happened, from then on everything will.

    bytes    field            type
    0..8     checksum         u64, xxHash3 of the rest
    8..16    segment_start    u64, the segment that becomes the last one
    16..24   position         u64, how many bytes it keeps
    24..32   count            u64, how many messages it keeps
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from xxhash import xxh3_64_intdigest

from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.storage import layout, recovery_point
from borzoi.storage.media import File, Medium, replace_file

RECORD: Final = struct.Struct("<QQQQ")


@dataclass(frozen=True, slots=True)
class Intent:
    segment_start: int
    position: int
    count: int


#: An empty log that begins at offset 0 again.
PURGE: Final = Intent(0, 0, 0)


def declare(medium: Medium, directory: Path, intent: Intent) -> None:
    """Write the intent down; when this returns, the cut will happen."""
    replace_file(medium, directory / layout.INTENT, encode(intent))
    medium.fsync_directory(directory)


def pending(medium: Medium, directory: Path) -> Intent | None:
    """The cut that was begun and not finished, if any."""
    path = directory / layout.INTENT
    if not medium.exists(path):
        return None
    return decode(medium.open(path, writable=False).read(RECORD.size + 1, 0))


def carry_out(medium: Medium, directory: Path, intent: Intent) -> None:
    """Every step may be repeated after a crash in any other."""
    _remove_segments_behind(medium, directory, intent.segment_start)
    _cut_segment(medium, directory, intent)
    point = recovery_point.load(medium, directory)
    if point is not None and (point.segment_start, point.position) > (
        intent.segment_start,
        intent.position,
    ):
        recovery_point.store(
            medium,
            directory,
            point._replace(segment_start=intent.segment_start, position=intent.position),
        )
    medium.fsync_directory(directory)
    medium.unlink(directory / layout.INTENT)
    # Synced as well: an intent that comes back after a power cut would cut what was appended since.
    medium.fsync_directory(directory)


def encode(intent: Intent) -> bytes:
    record = struct.pack("<QQQ", intent.segment_start, intent.position, intent.count)
    return struct.pack("<Q", xxh3_64_intdigest(record)) + record


def decode(stored: bytes) -> Intent | None:
    """The intent, or nothing for bytes that `declare` did not finish writing."""
    if len(stored) != RECORD.size:
        return None
    checksum, *fields = RECORD.unpack(stored)
    return Intent(*fields) if checksum == xxh3_64_intdigest(stored[8:]) else None


def _remove_segments_behind(medium: Medium, directory: Path, segment_start: int) -> None:
    """The last first, and for each the log before its index: a log is what makes a segment."""
    behind: dict[int, list[str]] = {}
    for name in medium.list(directory):
        for suffix in (layout.LOG_SUFFIX, *layout.ALL_TWIN_SUFFIXES, layout.INDEX_SUFFIX):
            start = layout.start_offset_of(name, suffix)
            if start is not None and start > segment_start:
                behind.setdefault(start, []).append(name)
    for start in sorted(behind, reverse=True):
        for name in sorted(behind[start], key=lambda name: name.endswith(layout.INDEX_SUFFIX)):
            medium.unlink(directory / name)


def _cut_segment(medium: Medium, directory: Path, intent: Intent) -> None:
    log_path = directory / layout.log_name(intent.segment_start)
    index_path = directory / layout.index_name(intent.segment_start)
    for suffix in layout.TWIN_SUFFIXES:
        medium.unlink(directory / layout.twin_name(intent.segment_start, suffix))
    if not intent.count:
        # New files, so that a poll which still sends from the old ones finishes in peace.
        medium.unlink(log_path)
        medium.unlink(index_path)
    log = medium.open(log_path, create=True)
    index = medium.open(index_path, create=True)
    _cut(log, intent.position)
    _cut(index, intent.count * INDEX_ENTRY_BYTES)


def _cut(file: File, size: int) -> None:
    if file.size() > size:
        file.truncate(size)
    file.fdatasync()
