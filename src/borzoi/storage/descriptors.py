"""Descriptors of sealed segments: opened when read, the least recently used one is evicted.

A shard has one of these for all its partitions, so thousands of sealed segments cost no more
descriptors than `limit`. Evicting drops a reference: a poll that still sends from the file
keeps it open.
"""

from collections import OrderedDict
from pathlib import Path
from typing import Final

from borzoi.storage.media import File, Medium, ReadOnlyFile

DESCRIPTORS_DEFAULT: Final = 256


class OnDemandFile:
    """A sealed file for whoever reads many of them one after another and may not keep all open.

    Reading it fails when the file has been deleted meanwhile.
    """

    __slots__ = ("_descriptors", "_path")

    def __init__(self, descriptors: "Descriptors", path: Path) -> None:
        self._descriptors = descriptors
        self._path = path

    @property
    def path(self) -> Path:
        return self._path

    def fileno(self) -> int:
        """Good until the next file is asked for: the cache holds the descriptor."""
        return self._file().fileno()

    def size(self) -> int:
        return self._file().size()

    def read(self, length: int, position: int) -> bytes:
        return self._file().read(length, position)

    def _file(self) -> File:
        return self._descriptors.file(self._path)


class Descriptors:
    """Read-only files by path, at most `limit` of them."""

    __slots__ = ("_files", "_limit", "_medium")

    def __init__(self, medium: Medium, limit: int = DESCRIPTORS_DEFAULT) -> None:
        assert limit > 0
        self._medium = medium
        self._limit = limit
        self._files: OrderedDict[Path, File] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def file(self, path: Path) -> File:
        found = self._files.get(path)
        if found is not None:
            self._files.move_to_end(path)
            return found
        opened = self._medium.open(path, writable=False)
        self._files[path] = opened
        if len(self._files) > self._limit:
            self._files.popitem(last=False)
        return opened

    def on_demand(self, path: Path) -> ReadOnlyFile:
        """The file without a descriptor of its own: each use asks here for one."""
        return OnDemandFile(self, path)

    def forget(self, path: Path) -> None:
        """The file is gone or replaced: the next reader must open it again."""
        self._files.pop(path, None)
