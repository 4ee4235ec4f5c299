"""How far a log is known to be on the disk: the file `recovery.point`.

After a power cut any unsynced byte may be missing, in any order, so recovery must read what follows
this point, and only that. After a crash of the process (same boot) everything written is still
there.

    bytes    field              type
    0..8     checksum           u64, xxHash3 of the rest
    8..16    segment_start      u64, segments before this one are on the disk
    16..24   position           u64, and so are this many bytes of it
    24       flags              u8, bit 0: index entries were written only for synced messages;
                                bit 1: a generation follows
    25..33   generation         u64, only with bit 1; 0 otherwise
    25.., 33..  boot_id         text, the boot that wrote this file
"""

import logging
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from borzoi.model.errors import StorageFailure
from borzoi.storage.layout import RECOVERY_POINT
from borzoi.storage.media import Medium, replace_file, write_all

logger = logging.getLogger(__name__)

CHECKSUM: Final = struct.Struct("<Q")
FIELDS: Final = struct.Struct("<QQB")
GENERATION: Final = struct.Struct("<Q")
PROVEN_BY_INDEX: Final = 1
HAS_GENERATION: Final = 2
#: Far more than a record needs; a longer file is not ours.
RECORD_BYTES_MAX: Final = 256


class RecoveryPoint(NamedTuple):
    segment_start: int
    position: int
    proven_by_index: bool
    boot_id: str
    #: How often the log was purged; see `partitions/log.py`.
    generation: int = 0


def encode(point: RecoveryPoint) -> bytes:
    flags = PROVEN_BY_INDEX if point.proven_by_index else 0
    generation = b""
    if point.generation:
        flags |= HAS_GENERATION
        generation = GENERATION.pack(point.generation)
    fields = FIELDS.pack(point.segment_start, point.position, flags)
    record = fields + generation + point.boot_id.encode()
    return CHECKSUM.pack(xxh3_64_intdigest(record)) + record


def decode(stored: bytes) -> RecoveryPoint | None:
    """Decode the point; None if the bytes are not a complete record."""
    record = stored[CHECKSUM.size :]
    if len(record) < FIELDS.size or CHECKSUM.unpack_from(stored)[0] != xxh3_64_intdigest(record):
        return None
    segment_start, position, flags = FIELDS.unpack_from(record)
    generation, rest = 0, FIELDS.size
    if flags & HAS_GENERATION:
        if len(record) < rest + GENERATION.size:
            return None
        (generation,) = GENERATION.unpack_from(record, rest)
        rest += GENERATION.size
    proven = bool(flags & PROVEN_BY_INDEX)
    return RecoveryPoint(segment_start, position, proven, record[rest:].decode(), generation)


def load(medium: Medium, directory: Path) -> RecoveryPoint | None:
    path = directory / RECOVERY_POINT
    if not medium.exists(path):
        return None
    with medium.open(path, writable=False) as file:
        return decode(file.read(RECORD_BYTES_MAX, 0))


def store(medium: Medium, directory: Path, point: RecoveryPoint) -> None:
    """Replace the point. After a power cut there is the old or the new one: both are valid."""
    replace_file(medium, directory / RECOVERY_POINT, encode(point))


class PointKeeper:
    """The point of one log, which syncs on other threads move forward.

    The lock is the only one in the storage engine: a sync that ends while the log is being cut
    must not bring back a point behind the cut.
    """

    __slots__ = ("_directory", "_is_newest_durable", "_lock", "_medium", "_version", "is_durable")

    def __init__(self, medium: Medium, directory: Path) -> None:
        self._medium = medium
        self._directory = directory
        self._lock = threading.Lock()
        self._version = 0
        #: Whether the file is known to survive a power cut, in this form or a later one.
        self.is_durable = False
        #: The same for the form that was stored last.
        self._is_newest_durable = False

    @property
    def version(self) -> int:
        """Read this on the event loop before the sync whose result is then stored."""
        return self._version

    def advance(self, point: RecoveryPoint, version: int) -> None:
        """Store the point, unless the log was cut since `version` was read.

        A failure is harmless: the old point is still valid, recovery only reads more.
        """
        with self._lock:
            if version != self._version:
                return
            try:
                self._is_newest_durable = False
                store(self._medium, self._directory, point)
                if not self.is_durable:
                    # Otherwise a power cut could bring back what `note` wrote, or a part of it.
                    self._sync_name()
            except StorageFailure as failure:
                logger.warning("the recovery point of %s lags: %s", self._directory, failure)

    def note(self, point: RecoveryPoint) -> None:
        """Store the point of a new log without a sync: a power cut may take it, and nothing else.

        That spares a sync for each partition that is created.
        """
        with self._medium.open(self._directory / RECOVERY_POINT, create=True) as file:
            file.truncate(0)
            write_all(file, [encode(point)], 0)

    def settle(self, point: RecoveryPoint) -> None:
        """Store the point durably: required when it moves back."""
        with self._lock:
            self._is_newest_durable = False
            store(self._medium, self._directory, point)
            self._sync_name()

    def settle_newest(self) -> None:
        """Make the form that was stored last durable, so that the next start reads no messages."""
        with self._lock:
            if not self._is_newest_durable:
                self._sync_name()

    def _sync_name(self) -> None:
        self._medium.fsync_directory(self._directory)
        self.is_durable = self._is_newest_durable = True

    @contextmanager
    def cutting(self) -> Iterator[None]:
        """Cut the log: a sync that began before this no longer moves the point."""
        with self._lock:
            self._version += 1
            self.is_durable = self._is_newest_durable = False
            yield
