"""Cuts a log atomically: a purge is a cut to nothing.

A cut touches many files, so its intent is first recorded (the file `intent`, synced) and then
carried out in idempotent steps; opening a log finishes an intent it finds. Until the intent is on
the disk nothing has happened; from then on the whole cut will.

    bytes    field            type
    0..8     checksum         u64, xxHash3 of the rest
    8..16    segment_start    u64, the segment that becomes the last one
    16..24   position         u64, how many bytes it keeps
    24..32   count            u64, how many messages it keeps
    32..40   generation       u64, of the log afterwards; only there when it is a purge
"""

import struct
from pathlib import Path
from typing import Final

from xxhash import xxh3_64_intdigest

from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.model.value import Value
from borzoi.storage import layout, recovery_point
from borzoi.storage.media import File, Medium, content_of, replace_file
from borzoi.storage.recovery_point import RecoveryPoint

CHECKSUM: Final = struct.Struct("<Q")
FIELDS: Final = struct.Struct("<QQQ")
GENERATION: Final = struct.Struct("<Q")
PURGE_FIELDS: Final = struct.Struct("<QQQQ")


class Intent(Value):
    segment_start: int
    position: int
    count: int
    #: The generation of a purged log; 0 when the log keeps its own.
    generation: int = 0


def purge_to(generation: int) -> Intent:
    """An empty log that begins at offset 0 again, in a higher generation."""
    assert generation > 0, "a purge ends a generation"
    return Intent(0, 0, 0, generation)


def declare(medium: Medium, directory: Path, intent: Intent) -> None:
    """Record the intent; when this returns, the cut will happen."""
    assert bool(intent.count) == bool(intent.position), "messages have bytes, and bytes messages"
    replace_file(medium, directory / layout.INTENT, encode(intent))
    medium.fsync_directory(directory)


def pending(medium: Medium, directory: Path) -> Intent | None:
    """The cut that was begun and not finished, if any."""
    path = directory / layout.INTENT
    if not medium.exists(path):
        return None
    return decode(content_of(medium, path))


def carry_out(medium: Medium, directory: Path, intent: Intent) -> None:
    """Carry out the cut; every step may be repeated after a crash."""
    _remove_segments_behind(medium, directory, intent.segment_start)
    _cut_segment(medium, directory, intent)
    _lower_point(medium, directory, intent)
    medium.fsync_directory(directory)
    medium.unlink(directory / layout.INTENT)
    # Synced as well: an intent that comes back after a power cut would cut what was appended since.
    medium.fsync_directory(directory)


def _lower_point(medium: Medium, directory: Path, intent: Intent) -> None:
    """Limit the recovery point to what is left, and store the generation."""
    point = recovery_point.load(medium, directory)
    if point is None:
        if not intent.generation:
            return
        point = RecoveryPoint(0, 0, proven_by_index=False, boot_id=medium.boot_id)
    lowered = point._replace(generation=max(point.generation, intent.generation))
    if (point.segment_start, point.position) > (intent.segment_start, intent.position):
        lowered = lowered._replace(segment_start=intent.segment_start, position=intent.position)
    if lowered != point:
        recovery_point.store(medium, directory, lowered)


def encode(intent: Intent) -> bytes:
    record = FIELDS.pack(intent.segment_start, intent.position, intent.count)
    if intent.generation:
        record += GENERATION.pack(intent.generation)
    return CHECKSUM.pack(xxh3_64_intdigest(record)) + record


def decode(stored: bytes) -> Intent | None:
    """The intent, or nothing for bytes that `declare` did not finish writing."""
    record = stored[CHECKSUM.size :]
    layouts = {FIELDS.size: FIELDS, PURGE_FIELDS.size: PURGE_FIELDS}
    if len(record) not in layouts or CHECKSUM.unpack_from(stored)[0] != xxh3_64_intdigest(record):
        return None
    return Intent(*layouts[len(record)].unpack(record))


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
        # New files, so that a poll which still sends from the old ones can finish.
        medium.unlink(log_path)
        medium.unlink(index_path)
    with medium.open(log_path, create=True) as log, medium.open(index_path, create=True) as index:
        _cut(log, intent.position)
        _cut(index, intent.count * INDEX_ENTRY_BYTES)


def _cut(file: File, size: int) -> None:
    if file.size() > size:
        file.truncate(size)
    file.fdatasync()
