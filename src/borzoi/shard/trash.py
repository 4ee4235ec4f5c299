"""Where the folders of deleted things go: renamed aside in one step, removed later by a thread.

The step is all that a deletion waits for. What is in the trash when the server stops, or crashes,
is removed after its next start.
"""

import asyncio
import logging
import threading
from collections.abc import Collection
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from borzoi.model.errors import StorageFailure
from borzoi.storage.media import Medium

log = logging.getLogger(__name__)

#: What a stop waits for the removal that is under way; the next start goes on with it.
CLOSE_SECONDS_MAX: Final = 1.0


class Trash:
    """A directory on the file system of what is put into it. Used from one event loop.

    With `durable`, `settled` waits until no power cut can bring back what was put here. That is
    pointless while the entry that deleted it is not forced to the disk either.
    """

    def __init__(self, medium: Medium, directory: Path, *, durable: bool) -> None:
        self._medium = medium
        self._directory = directory
        self._durable = durable
        #: Directories whose names may come back with a power cut.
        self._unsynced: set[Path] = set()
        self._full: SimpleQueue[Path | None] = SimpleQueue()
        self._remover: threading.Thread | None = None
        self._closing = False
        found = medium.list(directory)
        self._numbers = count(1 + max((int(name) for name in found if name.isdecimal()), default=0))
        for name in found:
            self._remove_later(directory / name)

    def put(self, folder: Path) -> bool:
        """Move a folder here; whether there was one. `StorageFailure` when it stays where it is."""
        if not self._medium.exists(folder):
            return False
        self._medium.make_directory(self._directory)
        target = self._directory / str(next(self._numbers))
        self._medium.rename(folder, target)
        self._unsynced.add(folder.parent)
        self._remove_later(target)
        return True

    async def take(self, folder: Path) -> None:
        """The same for a folder that must go: one that cannot be moved (it is a mount point, the
        disk is full) is removed where it is, however long that takes."""
        try:
            self.put(folder)
        except StorageFailure as fault:
            log.warning("%s is removed where it is: %s", folder, fault)
            await asyncio.to_thread(self._medium.remove_tree, folder)
            self._unsynced.add(folder.parent)

    async def settled(self) -> None:
        """Return when what was put here stays gone."""
        if self._durable and self._unsynced:
            await self.synced()

    async def synced(self) -> None:
        """The same, whatever is configured."""
        unsynced, self._unsynced = self._unsynced, set()
        try:
            await asyncio.to_thread(self._sync, unsynced)
        except StorageFailure:
            self._unsynced |= unsynced
            raise

    def _sync(self, directories: Collection[Path]) -> None:
        for directory in directories:
            # One that was itself put into the trash since has no names that could come back.
            if self._medium.exists(directory):
                self._medium.fsync_directory(directory)

    def _remove_later(self, path: Path) -> None:
        self._full.put(path)
        if self._remover is None:
            # A daemon: a process that ends does not wait for terabytes to be removed.
            self._remover = threading.Thread(target=self._remove, name="trash", daemon=True)
            self._remover.start()

    def _remove(self) -> None:
        while (path := self._full.get()) is not None and not self._closing:
            try:
                self._medium.remove_tree(path)
            except StorageFailure as fault:
                log.warning("%s is removed after the next start: %s", path, fault)

    def close(self) -> None:
        """Begin nothing more. What is left is removed after the next start."""
        if self._remover is not None:
            self._closing = True
            self._full.put(None)
            self._remover.join(CLOSE_SECONDS_MAX)
