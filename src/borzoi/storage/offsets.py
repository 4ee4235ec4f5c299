"""The stored offsets of the consumers and groups of a partition.

One file of 8 bytes for each of them, named by its number:

    offsets/consumers/{consumer key}     u64, the last processed offset
    offsets/groups/{group id}            u64

The directories are made for the first of them: most partitions of a large topic have none. The
8 bytes are written in place: they lie in one sector, so a crash leaves the old number or the
new one. The numbers of a partition live in memory; the files are read once, when it is opened.

A commit is written at once. Further commits to the same file in the same turn of the event loop
only change the number in memory and are written together when the turn ends, so a burst of
commits costs two writes; the answer waits for its write. Under `synced` it waits for an
`fdatasync` as well, which everything that came meanwhile shares.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from borzoi.model.consuming import ConsumerKind
from borzoi.model.errors import BorzoiError, ConsumerOffsetNotFound, StorageFailure
from borzoi.model.limits import U32_MAX
from borzoi.storage.media import File, Medium, write_all
from borzoi.storage.settings import Acknowledge

logger = logging.getLogger(__name__)

OFFSET_BYTES: Final = 8
OFFSETS_DIRECTORY: Final = "offsets"
KIND_DIRECTORIES: Final = {ConsumerKind.CONSUMER: "consumers", ConsumerKind.GROUP: "groups"}

#: Files kept open by a writer; opening one again costs more than writing to it.
OPEN_FILES_MAX: Final = 256


class _Slot:
    """One consumer's offset: as committed, as written, and the future of the pending commit."""

    __slots__ = ("directory_synced", "file", "forgotten", "future", "offset", "path", "saved")

    def __init__(self, path: Path, offset: int | None) -> None:
        self.path = path
        self.offset = offset
        self.saved = offset
        self.file: File | None = None
        self.future: asyncio.Future[None] | None = None
        #: Whether the name is known to be on the disk. An earlier run may have been killed between
        #: creating the file and syncing its directory, so a file that was found does not count.
        self.directory_synced = False
        #: Its file was removed, or is about to be.
        self.forgotten = False


class OffsetWriter:
    """Writes the offsets of all partitions of a shard; without a loop, everything at once."""

    def __init__(
        self,
        medium: Medium,
        acknowledge: Acknowledge = Acknowledge.WRITTEN,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        files_max: int = OPEN_FILES_MAX,
    ) -> None:
        assert files_max > 0
        self.medium = medium
        self._files_max = files_max
        self.acknowledge = acknowledge
        self._loop = loop
        self._turn_is_open = False
        self._written_this_turn: set[_Slot] = set()
        self._dirty: set[_Slot] = set()
        self._open_files: deque[_Slot] = deque()
        self._sync_is_under_way = False

    def store(self, slot: _Slot, offset: int) -> asyncio.Future[None] | None:
        """Commit; return None if it is as durable as configured, else a future."""
        loop = self._loop
        if loop is None:
            self._write(slot, offset)
            if self.acknowledge is Acknowledge.SYNCED:
                self.flush(sync=True, slots=[slot])
            return None
        if not self._turn_is_open:
            self._turn_is_open = True
            loop.call_soon(self._end_turn)
        if self.acknowledge is Acknowledge.WRITTEN and slot not in self._written_this_turn:
            self._write(slot, offset)
            self._written_this_turn.add(slot)
            return None
        slot.offset = offset
        self._dirty.add(slot)
        if self.acknowledge is Acknowledge.BUFFERED:
            return None
        if slot.future is None:
            slot.future = loop.create_future()
        # Shielded, because the future is shared: one cancelled request must not fail the others.
        return asyncio.shield(slot.future)

    def forget(self, slots: Iterable[_Slot]) -> None:
        """Discards slots whose files are about to be removed; pending commits succeed."""
        for slot in slots:
            self._dirty.discard(slot)
            self._written_this_turn.discard(slot)
            slot.file = None
            slot.forgotten = True
            _answer(slot.future, None)
            slot.future = None

    def flush(self, *, sync: bool, slots: Iterable[_Slot] | None = None) -> None:
        """Writes what is pending here and now; with `sync` all of them are on the disk after."""
        chosen = list(self._dirty if slots is None else slots)
        dirty = [slot for slot in chosen if slot in self._dirty]
        self._dirty.difference_update(dirty)
        failures = self._write_dirty(dirty)
        if sync:
            failures |= self._sync(_written(chosen))
        for slot in dirty:
            self._settle(slot, slot.future, failures.get(slot))
        for failure in failures.values():
            raise failure

    def _end_turn(self) -> None:
        self._turn_is_open = False
        self._written_this_turn.clear()
        if not self._dirty:
            return
        if self.acknowledge is Acknowledge.SYNCED:
            if not self._sync_is_under_way:
                self._start_sync()
            return
        dirty, self._dirty = self._dirty, set()
        failures = self._write_dirty(dirty)
        for slot in dirty:
            self._settle(slot, slot.future, failures.get(slot))

    def _start_sync(self) -> None:
        """Writes all that is pending and syncs it on another thread, as one group."""
        assert self._loop is not None
        dirty, self._dirty = self._dirty, set()
        unwritten = self._write_dirty(dirty)
        waiting = [(slot, slot.future) for slot in dirty]
        for slot in dirty:
            slot.future = None

        def synced(done: asyncio.Future[dict[_Slot, BorzoiError]]) -> None:
            self._sync_is_under_way = False
            unsynced = {} if done.cancelled() else done.result()
            for slot, future in waiting:
                failure = unwritten.get(slot) or unsynced.get(slot)
                # What cannot be synced because it was removed meanwhile was stored, then removed.
                self._settle(slot, future, None if slot.forgotten else failure)
            if self._dirty:
                self._start_sync()

        self._sync_is_under_way = True
        written = _written(slot for slot in dirty if slot not in unwritten)
        self._loop.run_in_executor(None, self._sync, written).add_done_callback(synced)

    def _write_dirty(self, dirty: Iterable[_Slot]) -> dict[_Slot, BorzoiError]:
        failures: dict[_Slot, BorzoiError] = {}
        for slot in dirty:
            assert slot.offset is not None
            try:
                self._write(slot, slot.offset)
            except BorzoiError as error:
                failures[slot] = error
        return failures

    def _settle(
        self, slot: _Slot, future: asyncio.Future[None] | None, error: BaseException | None
    ) -> None:
        if error is not None:
            if future is None:
                logger.warning("could not store a consumer offset: %s", error)
            if slot not in self._dirty:
                slot.offset = slot.saved
        if slot.future is future:
            slot.future = None
        _answer(future, error)

    def _write(self, slot: _Slot, offset: int) -> None:
        file = slot.file
        if file is None:
            file = self._open(slot)
        assert not slot.forgotten, "the file of a deleted offset is not written"
        write_all(file, [offset.to_bytes(OFFSET_BYTES, "little")], 0)
        slot.offset = slot.saved = offset

    def _open(self, slot: _Slot) -> File:
        try:
            file = self.medium.open(slot.path, create=True)
        except StorageFailure:
            # The directory may have been removed, or never come along with a copied partition.
            self.medium.make_directory(slot.path.parent)
            file = self.medium.open(slot.path, create=True)
        # A sync on another thread holds it until it ends.
        file.share()
        slot.file = file
        self._open_files.append(slot)
        if len(self._open_files) > self._files_max:
            self._open_files.popleft().file = None
        return file

    def _sync_file(self, slot: _Slot) -> None:
        file = slot.file
        if file is None:
            with self.medium.open(slot.path) as opened:
                opened.fdatasync()
        else:
            file.fdatasync()

    def _sync(self, slots: Iterable[_Slot]) -> dict[_Slot, BorzoiError]:
        """Sync the files, and directories of new ones; return the failures. Runs on any thread."""
        failures: dict[_Slot, BorzoiError] = {}
        directories: dict[Path, list[_Slot]] = {}
        for slot in slots:
            try:
                self._sync_file(slot)
            except BorzoiError as error:
                failures[slot] = error
            if not slot.directory_synced:
                directories.setdefault(slot.path.parent, []).append(slot)
        for directory, inside in directories.items():
            try:
                # The partition's own directory holds the name of `offsets`, and so on down.
                for place in (directory.parent.parent, directory.parent, directory):
                    self.medium.fsync_directory(place)
            except BorzoiError as error:
                failures.update(dict.fromkeys(inside, error))
            else:
                for slot in inside:
                    slot.directory_synced = True
        return failures


class ConsumerOffsets:
    """The offsets of one partition; its owner alone uses them."""

    __slots__ = ("_partition", "_slots", "_writer", "found_files")

    def __init__(self, partition: Path, writer: OffsetWriter) -> None:
        self._partition = partition
        self._writer = writer
        #: Only of kinds that stored one: thousands of partitions have none.
        self._slots: dict[ConsumerKind, dict[int, _Slot]] = {}
        #: Whether there was any file, also one that could not be read.
        self.found_files = False

    def load(self, kind: ConsumerKind, consumer_id: int) -> int | None:
        """The last processed offset, or None when the consumer never stored one."""
        slots = self._slots.get(kind)
        slot = None if slots is None else slots.get(consumer_id)
        return None if slot is None else slot.offset

    def store(
        self, kind: ConsumerKind, consumer_id: int, offset: int
    ) -> asyncio.Future[None] | None:
        """Commits `offset`; None when that is done, else an awaitable to wait for first."""
        slots = self._slots.setdefault(kind, {})
        slot = slots.get(consumer_id)
        if slot is None:
            path = self._directory(kind) / str(consumer_id)
            slot = slots[consumer_id] = _Slot(path, None)
        return self._writer.store(slot, offset)

    def delete(self, kind: ConsumerKind, consumer_id: int) -> None:
        """Delete the consumer's offset; `ConsumerOffsetNotFound` when there is none."""
        if self.load(kind, consumer_id) is None:
            raise ConsumerOffsetNotFound(f"{kind.name.lower()} {consumer_id} stored no offset")
        slot = self._slots[kind].pop(consumer_id)
        self._writer.forget([slot])
        self._writer.medium.unlink(slot.path)
        if self._writer.acknowledge is Acknowledge.SYNCED:
            self._writer.medium.fsync_directory(slot.path.parent)

    def clear(self) -> None:
        """Removes all offsets, as a purge does."""
        medium = self._writer.medium
        self.abandon()
        for kind in ConsumerKind:
            directory = self._directory(kind)
            stored = [name for name in medium.list(directory) if number_of(name) is not None]
            for name in stored:
                medium.unlink(directory / name)
            if stored:
                # An offset restored by a power cut would make its consumer skip messages.
                medium.fsync_directory(directory)

    def items(self, kind: ConsumerKind) -> Iterator[tuple[int, int]]:
        """(consumer, offset) for every stored offset."""
        for consumer_id, slot in self._slots.get(kind, {}).items():
            if slot.offset is not None:
                yield consumer_id, slot.offset

    def minimum(self) -> int | None:
        """Return the lowest stored offset, which retention must not pass."""
        stored = [offset for kind in ConsumerKind for _, offset in self.items(kind)]
        return min(stored, default=None)

    def slowest(self) -> tuple[ConsumerKind, int, int] | None:
        """Return the consumer or group with the lowest offset: kind, id, offset."""
        stored = [(offset, kind, one) for kind in ConsumerKind for one, offset in self.items(kind)]
        if not stored:
            return None
        offset, kind, consumer_id = min(stored)
        return kind, consumer_id, offset

    def clamp(self, last_offset: int) -> None:
        """Move offsets beyond the end of the log back: a crash may have shortened it."""
        for kind, slots in self._slots.items():
            for consumer_id, slot in slots.items():
                if slot.offset is not None and slot.offset > last_offset:
                    logger.warning(
                        "%s %d of %s was at offset %d; the log ends at %d, it continues from there",
                        kind.name.lower(),
                        consumer_id,
                        self._partition,
                        slot.offset,
                        last_offset,
                    )
                    slot.offset = last_offset

    def flush(self, *, sync: bool = False) -> None:
        """Writes what is pending, at once; with `sync` every offset is on the disk after."""
        self._writer.flush(
            sync=sync, slots=[slot for slots in self._slots.values() for slot in slots.values()]
        )

    def close(self) -> None:
        """Writes what is pending and closes the files."""
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Closes without writing: the partition is being deleted."""
        for slots in self._slots.values():
            self._writer.forget(slots.values())
        self._slots.clear()

    def _read(self) -> None:
        medium = self._writer.medium
        kinds = medium.list(self._partition / OFFSETS_DIRECTORY)
        for kind in ConsumerKind:
            if KIND_DIRECTORIES[kind] not in kinds:
                continue
            directory = self._directory(kind)
            for name in medium.list(directory):
                self.found_files = True
                path = directory / name
                consumer_id = number_of(name)
                if consumer_id is None:
                    logger.warning("%s is not named after a consumer; ignoring it", path)
                    continue
                offset = _read_offset(medium, path)
                if offset is not None:
                    self._slots.setdefault(kind, {})[consumer_id] = _Slot(path, offset)

    def _directory(self, kind: ConsumerKind) -> Path:
        return self._partition / OFFSETS_DIRECTORY / KIND_DIRECTORIES[kind]


def open_offsets(directory: Path, writer: OffsetWriter) -> ConsumerOffsets:
    """Load the offsets of a partition's directory.

    A file that cannot be read loses its own consumer's offset and nothing else.
    """
    offsets = ConsumerOffsets(directory, writer)
    offsets._read()
    return offsets


def _written(slots: Iterable[_Slot]) -> list[_Slot]:
    """Those that have a file."""
    return [slot for slot in slots if slot.saved is not None]


def _read_offset(medium: Medium, path: Path) -> int | None:
    content = b""
    with contextlib.suppress(StorageFailure):
        with medium.open(path, writable=False) as file:
            content = file.read(OFFSET_BYTES, 0)
    if len(content) < OFFSET_BYTES:
        logger.warning(
            "%s holds %d of 8 bytes; this consumer starts as if it had never stored an offset",
            path,
            len(content),
        )
        return None
    return int.from_bytes(content, "little")


def number_of(name: str) -> int | None:
    """Return the id in a file name, if it is spelled canonically."""
    if name.isascii() and name.isdigit() and str(int(name)) == name and int(name) <= U32_MAX:
        return int(name)
    return None


def _answer(future: asyncio.Future[None] | None, error: BaseException | None) -> None:
    if future is None or future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
