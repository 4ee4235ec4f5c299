"""A disk in memory that can lose its power.

It keeps to what POSIX promises and to no more: until `fdatasync` any part of what was written to a
file may be missing after a power cut, in any order, sector by sector; until its directory is
synced a name may still be missing, or still be there. What happens is drawn from the generator
passed to `power_cut`, so a seed brings a failure back.

`kill` is what SIGKILL does: every byte written stays, every open file is gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final, Self

from borzoi.model.errors import StorageFailure
from borzoi.storage.media import Readable

#: A disk writes a sector whole or not at all.
SECTOR_BYTES: Final = 512


@dataclass(slots=True)
class _Write:
    position: int
    content: bytes


@dataclass(slots=True)
class _Resize:
    size: int


class _Inode:
    """A file's bytes: as the processes see them, as the disk has them, and what lies between."""

    __slots__ = ("content", "durable", "pending")

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""
        self.pending: list[_Write | _Resize] = []

    def apply(self, change: _Write | _Resize) -> None:
        _apply(self.content, change)
        self.pending.append(change)

    def sync(self) -> None:
        self.durable = bytes(self.content)
        self.pending.clear()

    def lose_power(self, random: Random) -> None:
        """Keep any of the pending changes, whole or in part, and forget the others."""
        content = bytearray(self.durable)
        luck = random.random()
        for change in self.pending:
            if random.random() > luck:
                continue
            if isinstance(change, _Write) and random.random() < 0.3:
                for piece in _sectors(change):
                    if random.random() < 0.7:
                        _apply(content, piece)
            else:
                _apply(content, change)
        self.content = content
        self.sync()


@dataclass(slots=True)
class _NameChange:
    """Names that come (an inode) or go (None) in one step; a rename has two."""

    names: dict[str, "_Inode | None"]


@dataclass(slots=True)
class _Directory:
    names: dict[str, _Inode] = field(default_factory=dict)
    durable: dict[str, _Inode] = field(default_factory=dict)
    pending: list[_NameChange] = field(default_factory=list)

    def change(self, names: dict[str, _Inode | None]) -> None:
        _rename(self.names, names)
        self.pending.append(_NameChange(names))

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()

    def lose_power(self, random: Random) -> None:
        """Changes of different names are independent; those of one name keep their order."""
        luck = random.random()
        stuck: set[str] = set()
        for change in self.pending:
            if stuck.isdisjoint(change.names) and random.random() < luck:
                _rename(self.durable, change.names)
            else:
                stuck |= change.names.keys()
        self.names = dict(self.durable)
        self.pending.clear()


class SimulatedDisk:
    """A medium whose directories survive everything and whose files survive what was synced."""

    def __init__(self) -> None:
        self._directories: dict[Path, _Directory] = {}
        self._boots = 0
        #: Files opened before the last kill or power cut belong to a process that is gone.
        self.life = 0
        #: Bytes read from files, by the end of their name: for claims about what is not read.
        self.bytes_read: dict[str, int] = {}

    @property
    def boot_id(self) -> str:
        return f"boot {self._boots}"

    def kill(self) -> None:
        self.life += 1

    def power_cut(self, random: Random) -> None:
        self.life += 1
        self._boots += 1
        for directory in self._directories.values():
            directory.lose_power(random)
        inodes = {
            id(inode): inode
            for directory in self._directories.values()
            for inode in directory.names.values()
        }
        for inode in inodes.values():
            inode.lose_power(random)

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> "SimulatedFile":
        directory = self._directories.get(path.parent)
        if directory is None:
            raise StorageFailure(f"cannot open {path}: no such directory")
        inode = directory.names.get(path.name)
        if inode is None:
            if not create:
                raise StorageFailure(f"cannot open {path}: no such file")
            inode = _Inode()
            directory.change({path.name: inode})
        return SimulatedFile(self, path, inode, writable)

    def list(self, directory: Path) -> list[str]:
        found = self._directories.get(directory)
        below = {path.name for path in self._directories if path.parent == directory}
        return [*(found.names if found else ()), *below]

    def exists(self, path: Path) -> bool:
        directory = self._directories.get(path.parent)
        return path in self._directories or (directory is not None and path.name in directory.names)

    def make_directory(self, directory: Path) -> Sequence[Path]:
        missing = [
            path for path in (directory, *directory.parents) if path not in self._directories
        ]
        for path in missing:
            self._directories[path] = _Directory()
        return [path.parent for path in missing if path.parent != path]

    def rename(self, source: Path, target: Path) -> None:
        assert source.parent == target.parent
        directory = self._directories[source.parent]
        directory.change({source.name: None, target.name: directory.names[source.name]})

    def unlink(self, path: Path) -> None:
        directory = self._directories.get(path.parent)
        if directory is not None and path.name in directory.names:
            directory.change({path.name: None})

    def remove_tree(self, directory: Path) -> None:
        for path in [*self._directories]:
            if path == directory or directory in path.parents:
                del self._directories[path]

    def fsync_directory(self, directory: Path) -> None:
        if directory not in self._directories:
            raise StorageFailure(f"cannot sync {directory}: no such directory")
        self._directories[directory].sync()


class Process:
    """The disk as one process sees it: once that is gone, what is left of it can do nothing."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._life = disk.life

    @property
    def boot_id(self) -> str:
        return self._disk.boot_id

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> "SimulatedFile":
        return self._alive().open(path, create=create, writable=writable)

    def list(self, directory: Path) -> list[str]:
        return self._alive().list(directory)

    def exists(self, path: Path) -> bool:
        return self._alive().exists(path)

    def make_directory(self, directory: Path) -> Sequence[Path]:
        return self._alive().make_directory(directory)

    def rename(self, source: Path, target: Path) -> None:
        self._alive().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._alive().unlink(path)

    def remove_tree(self, directory: Path) -> None:
        self._alive().remove_tree(directory)

    def fsync_directory(self, directory: Path) -> None:
        self._alive().fsync_directory(directory)

    def _alive(self) -> SimulatedDisk:
        if self._life != self._disk.life:
            raise StorageFailure("the process is gone")
        return self._disk


class SimulatedFile:
    """An open file of a simulated disk; useless once its process is gone."""

    __slots__ = ("_disk", "_inode", "_life", "_path", "_writable")

    def __init__(self, disk: SimulatedDisk, path: Path, inode: _Inode, writable: bool) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._writable = writable
        self._life = disk.life

    @property
    def path(self) -> Path:
        return self._path

    def fileno(self) -> int:
        raise StorageFailure(f"{self._path} has no descriptor, it is only simulated")

    def size(self) -> int:
        return len(self._alive().content)

    def read(self, length: int, position: int) -> bytes:
        found = bytes(self._alive().content[position : position + length])
        suffix = self._path.suffix
        self._disk.bytes_read[suffix] = self._disk.bytes_read.get(suffix, 0) + len(found)
        return found

    def write(self, buffers: Sequence[Readable], position: int) -> int:
        content = b"".join(bytes(buffer) for buffer in buffers)
        self._writing().apply(_Write(position, content))
        return len(content)

    def reserve(self, position: int, length: int) -> None:
        """Space is never short here, and reserving it changes nothing else."""
        self._writing()

    def trim(self) -> None:
        self._writing()

    def truncate(self, size: int) -> None:
        self._writing().apply(_Resize(size))

    def fdatasync(self) -> None:
        self._alive().sync()

    def close(self) -> None:
        self._life = -1

    def share(self) -> None:
        """Nothing is taken by an open file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _alive(self) -> _Inode:
        if self._life < 0:
            raise StorageFailure(f"{self._path} is closed")
        if self._life != self._disk.life:
            raise StorageFailure(f"the process that had {self._path} open is gone")
        return self._inode

    def _writing(self) -> _Inode:
        assert self._writable, self._path
        return self._alive()


def _apply(content: bytearray, change: _Write | _Resize) -> None:
    if isinstance(change, _Resize):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    end = change.position + len(change.content)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[change.position : end] = change.content


def _rename(names: dict[str, _Inode], changes: dict[str, _Inode | None]) -> None:
    for name, inode in changes.items():
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode


def _sectors(write: _Write) -> list[_Write]:
    """The same write, cut where sectors of the file begin."""
    end = write.position + len(write.content)
    cuts = [*range(write.position - write.position % SECTOR_BYTES, end, SECTOR_BYTES)][1:]
    bounds = [write.position, *cuts, end]
    return [
        _Write(start, write.content[start - write.position : stop - write.position])
        for start, stop in pairwise(bounds)
    ]
