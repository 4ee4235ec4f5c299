"""The archiver: knows which segments are archived, and copies the others.

It runs on the event loop of the partitions; files are read in threads. A failing archive never
delays an append: a segment that could not be copied is retried in the next run.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from borzoi.archive import layout, policy
from borzoi.archive.interface import PartitionView, StateFiles
from borzoi.archive.layout import Life, SegmentPlace
from borzoi.archive.markers import (
    SegmentMarker,
    StateMarker,
    decode_segment_marker,
    decode_state_marker,
    encode_marker,
)
from borzoi.archive.uploading import CHECK_SIZE, OpenFile, upload_bytes, upload_file
from borzoi.model.errors import BorzoiError
from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.model.namespace import Namespace
from borzoi.model.value import Value
from borzoi.objectstore.creating import Taken, create_once
from borzoi.objectstore.errors import Corrupt, ObjectNotFound, PermissionDenied
from borzoi.objectstore.interface import PART_BYTES_DEFAULT, ObjectStore
from borzoi.objectstore.listing import list_objects
from borzoi.objectstore.probing import probe
from borzoi.storage.layout import ALL_TWIN_SUFFIXES, LOG_SUFFIX, index_name
from borzoi.storage.segment import SegmentFacts

log = logging.getLogger(__name__)

#: Markers that are read concurrently when a server starts.
MARKERS_AT_ONCE: Final = 16


class ArchiveSettings(Value):
    """How to archive."""

    #: The first part of every key: one archive may serve several servers.
    server: str
    concurrency: int = 2
    part_size: int = PART_BYTES_DEFAULT
    verify: str = CHECK_SIZE
    include_state: bool = True
    state_keep: int = 24


class Counters(msgspec.Struct):
    """Counters since the start of the process, and the present state."""

    segments_archived: int = 0
    segments_failed: int = 0
    #: Runs in which the archive, or the markers of a partition, could not be read.
    turns_failed: int = 0
    bytes_archived: int = 0
    #: Sealed segments that are not archived yet.
    lag_segments: int = 0
    #: Segments that the cleaner may not delete because they are not archived.
    deletions_blocked: int = 0
    states_archived: int = 0
    states_failed: int = 0
    #: When a run last ended with nothing left to do, µs.
    last_success: int = 0


class Archiver:
    """Copies the sealed segments of one server to one store."""

    def __init__(
        self,
        store: ObjectStore,
        settings: ArchiveSettings,
        *,
        clock: Callable[[], int],
        version: str,
        asks_first: bool = False,
        follows_state: bool = False,
    ) -> None:
        """`follows_state`: another process copies the metadata."""
        self._store = store
        self._settings = settings
        self._clock = clock
        self._version = version
        #: Whether the store still has to be probed.
        self._asks_first = asks_first
        self._follows_state = follows_state
        #: The archived metadata has all partitions that were created before.
        self._state_at = 0
        self.counters = Counters()
        #: First offsets of the archived segments, by life; read from the store once.
        self._listed: dict[Life, set[int]] | None = None
        #: The present life of each partition, and its markers that were read or written.
        self._lives: dict[Namespace, Life] = {}
        self._markers: defaultdict[Life, dict[int, SegmentMarker]] = defaultdict(dict)
        self._state_index: int | None = None

    async def run(self, partitions: Sequence[PartitionView], state: StateFiles | None) -> None:
        """One run: archive what is sealed and not archived yet.

        The metadata goes first: a server that dies in between leaves no archived segment whose
        topic the archive does not know. A process that does not copy the metadata waits for it.
        """
        failed_before = self.counters.turns_failed
        try:
            await self._ask_first()
            work = await self._pending(partitions)
            ready = await self._with_archived_topics(work)
        except (BorzoiError, OSError) as fault:
            self.counters.turns_failed += 1
            log.warning("cannot use the archive: %s", fault)
            return
        self.counters.lag_segments = len(work)
        if state is not None and self._settings.include_state:
            await self._try_archive_state(state)
        await self._upload_all(ready)
        if not self.counters.lag_segments and self.counters.turns_failed == failed_before:
            self.counters.last_success = self._clock()

    async def _ask_first(self) -> None:
        """Reject a store that lacks what a restore needs, before anything is written."""
        if self._asks_first:
            try:
                (await probe(self._store)).check()
            except PermissionDenied as fault:
                # Archiving needs fewer rights than the probe, which deletes its object.
                log.warning("could not probe the store of the archive: %s", fault)
            self._asks_first = False

    async def _pending(
        self, partitions: Sequence[PartitionView]
    ) -> list[tuple[PartitionView, Life, SegmentFacts]]:
        """Return the segments to copy, partition by partition, oldest first."""
        listed = await self._list()
        self._forget_others(partitions)
        work = []
        for view in partitions:
            try:
                life = await self._life_of(view, listed)
            except Corrupt as fault:
                # Skip only this partition: whether its segments are archived is unknown.
                self.counters.turns_failed += 1
                log.warning("could not archive partition %s: %s", view.namespace, fault)
                continue
            missing = policy.pending(view.segments, self._markers[life])
            work += [(view, life, facts) for facts in missing]
        return work

    async def _with_archived_topics(
        self, work: list[tuple[PartitionView, Life, SegmentFacts]]
    ) -> list[tuple[PartitionView, Life, SegmentFacts]]:
        """Return the segments whose topics are in the archived metadata; the others wait for the
        process that copies it."""
        if not self._follows_state or not self._settings.include_state:
            return work
        if any(view.created_at >= self._state_at for view, _, _ in work):
            self._state_at = await self._last_state_at()
        return [one for one in work if one[0].created_at < self._state_at]

    async def _last_state_at(self) -> int:
        """Return when the newest copy of the metadata was begun; 0 when there is none."""
        server = self._settings.server
        keys = [meta.key async for meta in list_objects(self._store, layout.states_prefix(server))]
        complete = [key for key in keys if layout.state_index_of(server, key) is not None]
        if not complete:
            return 0
        key = max(complete)
        return decode_state_marker((await self._store.get(key)).data, key=key).archived_at

    def deletable(self, namespace: Namespace, segments: Sequence[SegmentFacts], count: int) -> int:
        """Return how many of the `count` oldest segments are archived and may be deleted."""
        life = self._lives.get(namespace)
        archived = policy.archived_head(segments, self._markers[life]) if life else 0
        if archived < count:
            self.counters.deletions_blocked += count - archived
        return min(count, archived)

    async def close(self) -> None:
        await self._store.close()

    # What is archived already. --------------------------------------------------------------------

    async def _list(self) -> dict[Life, set[int]]:
        if self._listed is None:
            listed: defaultdict[Life, set[int]] = defaultdict(set)
            server = self._settings.server
            async for meta in list_objects(self._store, layout.streams_prefix(server)):
                place = layout.place_of(server, meta.key)
                if place is not None:
                    listed[place.life].add(place.start_offset)
            self._listed = dict(listed)
        return self._listed

    def _forget_others(self, partitions: Sequence[PartitionView]) -> None:
        """Forget partitions that were deleted."""
        present = {view.namespace for view in partitions}
        for namespace in [one for one in self._lives if one not in present]:
            self._markers.pop(self._lives.pop(namespace), None)

    async def _life_of(self, view: PartitionView, listed: dict[Life, set[int]]) -> Life:
        """Return the life of the partition: a known one if its segments fit, else a new one."""
        life = self._lives.get(view.namespace)
        if life is None or life.began < view.created_at:
            lives = [one for one in listed if one.namespace == view.namespace]
            life = max(lives, default=Life(view.namespace, 0))
            if life.began < view.created_at:
                life = Life(view.namespace, view.created_at)
        await self._read_markers(life, view.segments, listed.get(life, set()))
        if not policy.is_same_life(view.segments, self._markers[life]):
            log.info("partition %s was purged; starting a new life in its archive", view.namespace)
            life = Life(view.namespace, max(self._clock(), life.began + 1))
        self._lives[view.namespace] = life
        return life

    async def _read_markers(
        self, life: Life, segments: Sequence[SegmentFacts], listed: set[int]
    ) -> None:
        """Read the markers that decide whether the segments continue this life."""
        known = self._markers[life]
        first = segments[0].start_offset if segments else 0
        for start in [start for start in known if start < first]:
            del known[start]  # deleted here; the archive has it
        needed = policy.needed_markers(segments, listed)
        limit = asyncio.Semaphore(MARKERS_AT_ONCE)

        async def read(start: int) -> None:
            key = layout.marker_key(self._settings.server, SegmentPlace(life, start))
            async with limit:
                try:
                    data = (await self._store.get(key)).data
                except ObjectNotFound:
                    listed.discard(start)
                    return
            known[start] = decode_segment_marker(data, key=key)

        await asyncio.gather(*(read(start) for start in needed - known.keys()))

    # Copying. -------------------------------------------------------------------------------------

    async def _upload_all(self, work: Sequence[tuple[PartitionView, Life, SegmentFacts]]) -> None:
        """Copy them, a few at a time, oldest first."""
        queue = iter(work)

        async def worker() -> None:
            for view, life, facts in queue:
                try:
                    marker = await self._upload(view, life, facts)
                except (BorzoiError, OSError) as fault:
                    self.counters.segments_failed += 1
                    log.warning(
                        "could not archive segment %d of partition %s: %s",
                        facts.start_offset,
                        view.namespace,
                        fault,
                    )
                    continue
                if marker is not None:
                    self._markers[life][facts.start_offset] = marker
                    self.counters.lag_segments -= 1
                    self.counters.segments_archived += 1
                    self.counters.bytes_archived += marker.log.size + marker.index.size

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._settings.concurrency, len(work))):
                group.create_task(worker())

    async def _upload(
        self, view: PartitionView, life: Life, facts: SegmentFacts
    ) -> SegmentMarker | None:
        """Copy one segment, its marker last; None when its files do not exist (any more)."""
        try:
            data = OpenFile(_log_file(view.directory, facts.start_offset))
        except FileNotFoundError:
            return None
        try:
            index = OpenFile(view.directory / index_name(facts.start_offset))
        except FileNotFoundError:
            data.close()
            return None
        try:
            return await self._upload_files(life, facts, data, index)
        finally:
            data.close()
            index.close()

    async def _upload_files(
        self, life: Life, facts: SegmentFacts, data: OpenFile, index: OpenFile
    ) -> SegmentMarker | None:
        count = facts.end_offset - facts.start_offset + 1
        is_plain = data.path.name.endswith(LOG_SUFFIX)
        if index.size != count * INDEX_ENTRY_BYTES or (is_plain and data.size != facts.size):
            return None  # not all of it is written yet
        settings = self._settings
        prefix = layout.life_prefix(settings.server, life)
        log_mark, index_mark = [
            await upload_file(
                self._store,
                prefix + file.path.name,
                file,
                file.size,
                part_size=settings.part_size,
                check=settings.verify,
            )
            for file in (data, index)
        ]
        marker = SegmentMarker(
            start_offset=facts.start_offset,
            end_offset=facts.end_offset,
            start_timestamp=facts.start_timestamp,
            end_timestamp=facts.end_timestamp,
            messages_count=count,
            size=facts.size,
            log=log_mark,
            index=index_mark,
            archived_at=self._clock(),
            server_version=self._version,
        )
        key = layout.marker_key(settings.server, SegmentPlace(life, facts.start_offset))
        try:
            await create_once(self._store, key, encode_marker(marker))
        except Taken:
            # From a run whose answer was lost, or from an earlier server.
            found = decode_segment_marker((await self._store.get(key)).data, key=key)
            if not found.describes(facts):
                raise
            return found
        return marker

    async def _try_archive_state(self, state: StateFiles) -> None:
        try:
            await self._archive_state(state)
        except (BorzoiError, OSError) as fault:
            self.counters.states_failed += 1
            log.warning("could not archive the metadata: %s", fault)

    async def _archive_state(self, state: StateFiles) -> None:
        """Copy the metadata when it changed, and remove surplus copies."""
        index = state.last_index
        if index < 0 or index == self._state_index:
            return
        settings = self._settings
        prefix = layout.state_prefix(settings.server, index)
        try:
            await self._store.head(prefix + layout.STATE_MARKER)
        except ObjectNotFound:
            begun_at = self._clock()
            files = await asyncio.to_thread(state.read)
            marks = [
                await upload_bytes(self._store, prefix + name, name, data, check=settings.verify)
                for name, data in files.items()
            ]
            marker = StateMarker(
                last_index=index,
                files=tuple(marks),
                archived_at=begun_at,
                server_version=self._version,
            )
            await self._store.put(prefix + layout.STATE_MARKER, encode_marker(marker))
            self.counters.states_archived += 1
        self._state_index = index
        await self._remove_states()

    async def _remove_states(self) -> None:
        """Delete the marker of a copy first, so that a partial copy never counts."""
        server = self._settings.server
        keys: defaultdict[int, list[str]] = defaultdict(list)
        complete = []
        async for meta in list_objects(self._store, layout.states_prefix(server)):
            index = layout.state_index_of(server, meta.key)
            if index is not None:
                complete.append(index)
            keys[int(meta.key.removeprefix(layout.states_prefix(server))[:20])].append(meta.key)
        for index in policy.superseded(complete, keep=self._settings.state_keep):
            await self._store.delete(layout.state_prefix(server, index) + layout.STATE_MARKER)
            await self._store.delete_many(keys[index])


def _log_file(directory: Path, start_offset: int) -> Path:
    """The messages of a segment, plain or compressed."""
    plain = directory / f"{start_offset:020}{LOG_SUFFIX}"
    if not plain.exists():
        for suffix in ALL_TWIN_SUFFIXES:
            twin = directory / f"{start_offset:020}{suffix}"
            if twin.exists():
                return twin
    return plain
