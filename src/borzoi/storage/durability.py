"""Which part of a log is on the disk, and what a sync has to do for the rest."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from borzoi.model.errors import DiskFull
from borzoi.storage import recovery_point
from borzoi.storage.media import File, Medium
from borzoi.storage.recovery_point import PointKeeper, RecoveryPoint
from borzoi.storage.segment import Segment
from borzoi.storage.syncing import Once

logger = logging.getLogger(__name__)

#: A partition lies this deep below the data directory, which is counted.
DIRECTORIES_ON_THE_WAY: Final = 6


@lru_cache(maxsize=64)
def _on_the_way(parent: Path) -> tuple[Path, ...]:
    """The directories from the data directory to a topic's partitions."""
    return (parent, *parent.parents)[:DIRECTORIES_ON_THE_WAY]


NOTHING_SHARED: Final[Mapping[Path, Once]] = MappingProxyType({})


class SyncJob(NamedTuple):
    """The next sync. `run` blocks, on any thread, and touches nothing but its fields."""

    medium: Medium
    files: tuple[File, ...]
    directories: tuple[Path, ...]
    #: How many names the log had added to its directory.
    marks: int
    #: Those of the directories that are synced once for several logs.
    shared: Mapping[Path, Once]
    keeper: PointKeeper
    version: int
    #: The recovery point to store afterwards; none if the index serves as one.
    point: RecoveryPoint | None
    #: All messages below this offset are on the disk then.
    offset: int

    @property
    def only_files(self) -> tuple[File, ...]:
        """The files, when syncing them is all there is to do: the common case of `synced`."""
        return () if self.directories or self.point is not None else self.files

    def run(self) -> None:
        for file in self.files:
            file.fdatasync()
        for directory in self.directories:
            if directory in self.shared:
                self.shared[directory].run()
            else:
                self.medium.fsync_directory(directory)
        if self.point is not None:
            self.keeper.advance(self.point, self.version)


@contextmanager
def _later_when_full(directory: Path) -> Iterator[None]:
    """Continue without a new recovery point if the disk is full: messages can be read, and
    `before_second_segment` tries again."""
    try:
        yield
    except DiskFull as failure:
        logger.warning("the recovery point of %s lags: %s", directory, failure)


class Durability:
    """The unsynced part of a log: sealed files, names in directories, the recovery point.

    `proven_by_index` is the way of `synced`: the index is written only for synced messages, so it
    is itself the recovery point. Otherwise the file `recovery.point` is moved now and then.
    """

    __slots__ = (
        "_keeper",
        "_loaded",
        "_marks",
        "_marks_synced",
        "_point",
        "_shared",
        "_unsynced",
        "_way_is_synced",
        "directory",
        "generation",
        "medium",
        "proven_by_index",
        "synced_offset",
    )

    def __init__(self, medium: Medium, directory: Path, *, proven_by_index: bool) -> None:
        self.medium = medium
        self.directory = directory
        self.proven_by_index = proven_by_index
        #: What the recovery point says about purges.
        self.generation = 0
        self._keeper = PointKeeper(medium, directory)
        self.reset()

    def reset(self) -> None:
        """Nothing is known to be on the disk."""
        self.synced_offset = 0
        #: Where the log ended when it was loaded, if all of it was on the disk.
        self._loaded: tuple[int, int] | None = None
        self._unsynced: list[File] = []
        self._point: RecoveryPoint | None = None
        #: How often a name was added to the directory, and how many of them a sync has covered.
        self._marks = 0
        self._marks_synced = -1
        # The first sync includes the directories above this log: an earlier run may have been
        # killed before it synced them.
        self._way_is_synced = False
        # A shared sync that began before the next load would not cover these names.
        self._shared: Mapping[Path, Once] = NOTHING_SHARED

    @property
    def keeper(self) -> PointKeeper:
        return self._keeper

    def load_point(self) -> RecoveryPoint | None:
        return recovery_point.load(self.medium, self.directory)

    def name_added(self) -> None:
        """Note that the directory has a new name that may not be on the disk."""
        self._marks += 1

    def share(self, syncs: dict[Path, Once]) -> None:
        """Sync the directories above this log together with the other logs that get `syncs`.

        Call this for all logs before one of them syncs: a sync that begins afterwards covers the
        names of all. When it fails, it fails for all of them.
        """
        if self._way_is_synced:
            return
        for directory in _on_the_way(self.directory.parent):
            if directory not in syncs:
                syncs[directory] = Once(partial(self.medium.fsync_directory, directory))
        self._shared = syncs

    def sealed(self, *files: File) -> None:
        """Note files that are complete and wait for a sync."""
        self._unsynced += files

    def job(self, tail: Segment, *, with_tail: bool) -> SyncJob:
        """Return what has to be synced now: sealed files, and the written part of the tail."""
        size = tail.size if with_tail else 0
        point = None
        if not self.proven_by_index:
            point = self._point_at(tail.start_offset, size, proven=False)
        files = tuple(self._unsynced)
        if with_tail and tail.file is not None:
            files = (*files, tail.file)
        offset = tail.next_offset if with_tail else tail.start_offset
        return SyncJob(
            self.medium,
            files,
            self._unsynced_directories(),
            self._marks,
            self._shared,
            self._keeper,
            self._keeper.version,
            point,
            offset,
        )

    def _unsynced_directories(self) -> tuple[Path, ...]:
        """Those with names that may not be on the disk."""
        own = () if self._marks == self._marks_synced else (self.directory,)
        return own if self._way_is_synced else (*own, *_on_the_way(self.directory.parent))

    def done(self, job: SyncJob) -> None:
        """Note that the job succeeded; what was added meanwhile stays unsynced."""
        if self._unsynced:
            self._unsynced = [file for file in self._unsynced if file not in job.files]
        self._marks_synced = max(self._marks_synced, job.marks)
        self._way_is_synced = True
        self.synced_offset = max(self.synced_offset, job.offset)

    def is_untouched(self, tail: Segment) -> bool:
        """Whether the log is as it was loaded, and was all on the disk then: nothing to save."""
        return self._loaded == (tail.start_offset, tail.size) and not tail.index.unsaved

    def begin(self, point: RecoveryPoint | None, tail: Segment) -> None:
        """Bring the recovery point of a loaded log up to date."""
        end = tail.start_offset, tail.size
        # A point is stored behind a sync of everything before it, names on the way included; only
        # that of a new and empty log is not.
        if point is not None and end == (point.segment_start, point.position) and tail.next_offset:
            self._loaded = end
            self.synced_offset = tail.next_offset
        proven = self.proven_by_index
        if point is None:
            # Not synced: if a power cut takes it, the one segment there is will be read.
            settled = self._point_at(tail.start_offset, tail.size if proven else 0, proven=proven)
            self._point = settled
            with _later_when_full(self.directory):
                self._keeper.note(settled)
            return
        if proven:
            settled = self._point_at(tail.start_offset, tail.size, proven=True)
        elif point.proven_by_index:
            settled = self._point_at(point.segment_start, 0, proven=False)
        else:
            settled = self._point_at(point.segment_start, point.position, proven=False)
        self._point = settled
        if settled == point:
            return
        if (point.proven_by_index and not proven) or point.generation != settled.generation:
            self._keeper.settle(settled)  # the old point would be wrong from now on
            return
        # What the point says is true in either form; the old one only makes recovery read more.
        with _later_when_full(self.directory):
            self._keeper.settle(settled)

    def _point_at(self, segment_start: int, position: int, *, proven: bool) -> RecoveryPoint:
        return RecoveryPoint(segment_start, position, proven, self.medium.boot_id, self.generation)

    def before_second_segment(self) -> None:
        """With more than one segment recovery has to know which one to read."""
        if not self._keeper.is_durable and self._point is not None:
            self._keeper.settle(self._point)
