"""Descriptors of sealed segments: opened when read, the least recently used one is evicted.

A shard has one of these for all its partitions, so thousands of sealed segments cost no more
descriptors than `limit`. Evicting drops a reference: a poll that still sends from the file
keeps it open.
"""

from collections import OrderedDict
from pathlib import Path
from typing import Final

from borzoi.storage.media import File, Medium

DESCRIPTORS_DEFAULT: Final = 256


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

    def forget(self, path: Path) -> None:
        """The file is gone or replaced: the next reader must open it again."""
        self._files.pop(path, None)
