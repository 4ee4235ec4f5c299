"""Deleted directories: renamed in one step, removed later by a thread.

A deletion waits only for the rename. What is in the trash when the server stops or crashes is
removed after its next start.
"""

import asyncio
import logging
import threading
from collections.abc import Collection
from itertools import count as counting
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from borzoi.model.errors import StorageFailure
from borzoi.storage.media import Medium

log = logging.getLogger(__name__)

#: How long a stop waits for the running removal; the next start continues it.
CLOSE_SECONDS_MAX: Final = 1.0


class Trash:
    """A directory on the file system of what is put into it. Used from one event loop.

    With `durable`, `settled` waits until no power cut can bring back what was put here. That is
    pointless unless the log entry of the deletion is forced to the disk too.
    """

    def __init__(
        self, medium: Medium, directory: Path, *, durable: bool, shard: int = 0, count: int = 1
    ) -> None:
        """Shards share the directory; each names and removes its own."""
        self._medium = medium
        self._directory = directory
        self._prefix = f"{shard}-" if shard else ""
        self._durable = durable
        #: Directories from which a removed name may reappear after a power cut.
        self._unsynced: set[Path] = set()
        self._full: SimpleQueue[Path | None] = SimpleQueue()
        self._remover: threading.Thread | None = None
        self._closing = False
        try:
            # Create it now: on a full disk the first deletion could not.
            medium.make_directory(directory)
        except StorageFailure as fault:
            log.warning("%s", fault)
        # The first shard also removes leftovers of shards that no longer exist.
        found = [name for name in medium.list(directory) if _owner_of(name, count) == shard]
        self._numbers = counting(1 + max(map(_number_of, found), default=0))
        for name in found:
            self._remove_later(directory / name)

    def put(self, folder: Path) -> bool:
        """Move a directory here and return whether there was one.

        Raises `StorageFailure` when it cannot be moved.
        """
        assert folder not in (self._directory, *self._directory.parents), "this removes the trash"
        if not self._medium.exists(folder):
            return False
        self._medium.make_directory(self._directory)
        target = self._directory / f"{self._prefix}{next(self._numbers)}"
        self._medium.rename(folder, target)
        self._unsynced.add(folder.parent)
        self._remove_later(target)
        return True

    async def take(self, folder: Path) -> None:
        """The same, but a directory that cannot be moved (a mount point, a full disk) is removed in
        place, however long that takes."""
        try:
            self.put(folder)
        except StorageFailure as fault:
            log.warning("removing %s in place: %s", folder, fault)
            await asyncio.to_thread(self._medium.remove_tree, folder)
            self._unsynced.add(folder.parent)

    async def settled(self) -> None:
        """Wait until the removals survive a power cut, if configured."""
        if self._durable and self._unsynced:
            await self.synced()

    async def synced(self) -> None:
        """The same, regardless of the configuration."""
        unsynced, self._unsynced = self._unsynced, set()
        try:
            await asyncio.to_thread(self._sync, unsynced)
        except StorageFailure:
            self._unsynced |= unsynced
            raise

    def _sync(self, directories: Collection[Path]) -> None:
        for directory in directories:
            # A directory that was put into the trash since needs no sync.
            if self._medium.exists(directory):
                self._medium.fsync_directory(directory)

    def _remove_later(self, path: Path) -> None:
        self._full.put(path)
        if self._remover is None:
            # A daemon thread: a stop must not wait for terabytes to be removed.
            self._remover = threading.Thread(target=self._remove, name="trash", daemon=True)
            self._remover.start()

    def _remove(self) -> None:
        while (path := self._full.get()) is not None and not self._closing:
            try:
                self._medium.remove_tree(path)
            except StorageFailure as fault:
                log.warning(
                    "could not remove %s, trying again after the next start: %s", path, fault
                )

    def close(self) -> None:
        """Stop removing. What is left is removed after the next start."""
        if self._remover is not None:
            self._closing = True
            self._full.put(None)
            self._remover.join(CLOSE_SECONDS_MAX)


def _owner_of(name: str, count: int) -> int:
    """Return the shard that owns a name in the trash."""
    shard, dash, _ = name.partition("-")
    return int(shard) if dash and shard.isdecimal() and int(shard) < count else 0


def _number_of(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0
