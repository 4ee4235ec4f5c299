"""The files of partitions: opened on demand, closed when others need their descriptors.

A shard has one `Descriptors` for all its partitions, so a hundred thousand files cost no more
descriptors than `limit`. An `OnDemandFile` stands for one of them, for as long as its segment does.

Which one is closed: the files wait in a row, and one that was used since it last came to the front
goes to the end instead. That costs a use no more than an assignment.

A file may be closed while bytes that were written to it are not on the disk yet; a later sync
opens it again. `fdatasync` writes all pages of the file, whichever descriptor made them dirty. If
the kernel could not write some of them meanwhile, Linux (since 4.13) tells the first descriptor
that syncs afterwards, also one that was opened later, as long as it keeps the inode in memory. Only
levels that promise no more than the page cache leave such bytes behind: under `synced` a sync holds
the file it was written through until the sync has ended.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import get_ident
from typing import Final, Self

from borzoi.model.errors import StorageFailure
from borzoi.storage.kept import KeptInTurn, KeptMessages
from borzoi.storage.media import CLOSED, File, Medium, Readable

DESCRIPTORS_DEFAULT: Final = 256


class Descriptors:
    """The open files, at most `limit` of them.

    Only the thread that made this opens files for longer than one call, and closes them: so a
    number that `fileno` gave to that thread stays valid until it opens another file.
    """

    __slots__ = ("_limit", "_medium", "_open", "_thread", "kept")

    def __init__(self, medium: Medium, limit: int = DESCRIPTORS_DEFAULT) -> None:
        assert limit > 0
        #: Messages of the files in memory.
        self.kept = KeptInTurn()
        self._medium = medium
        self._limit = limit
        self._open: OrderedDict[OnDemandFile, None] = OrderedDict()
        self._thread = get_ident()

    def __len__(self) -> int:
        return len(self._open)

    def file(self, directory: Path, name: str, *, writable: bool = False) -> "OnDemandFile":
        """Return an existing file; it is opened on demand."""
        return OnDemandFile(self, directory, name, writable)

    def created(self, directory: Path, name: str) -> "OnDemandFile":
        """Create an empty file."""
        with self._medium.open(directory / name, create=True) as file:
            if file.size():
                file.truncate(0)  # left over from a failed attempt
        return OnDemandFile(self, directory, name, writable=True)

    def open(self, wanted: "OnDemandFile") -> File:
        opened = self._medium.open(wanted.path, writable=wanted.writable)
        # Its operations, syncs on other threads among them, hold it until they end.
        opened.share()
        if get_ident() == self._thread:
            while len(self._open) >= self._limit:
                self._close_one()
            self._open[wanted] = None
            wanted.opened = opened
        return opened

    def discard(self, file: "OnDemandFile") -> None:
        self._open.pop(file, None)

    def is_gone(self, path: Path) -> bool:
        return not self._medium.exists(path)

    def _close_one(self) -> None:
        while True:
            file, _ = self._open.popitem(last=False)
            if not file.used:
                file.opened = file.kept = None
                return
            file.used = False
            self._open[file] = None


class OnDemandFile:
    """A `File` that has a descriptor while it is in use.

    It keeps the directory, which its partition has anyway, and a name that it shares with others: a
    path of its own would take more memory than all the rest of it.
    """

    __slots__ = (
        "_descriptors",
        "_directory",
        "_is_closed",
        "_name",
        "kept",
        "opened",
        "used",
        "writable",
    )

    def __init__(
        self, descriptors: Descriptors, directory: Path, name: str, writable: bool
    ) -> None:
        self._directory = directory
        self._name = name
        self.writable = writable
        self._descriptors = descriptors
        #: The open file. Only the operations of this class may hold a reference to it.
        self.opened: File | None = None
        #: Messages of it in memory. They go when its descriptor goes.
        self.kept: KeptMessages | None = None
        #: Whether it was used since it last was the next one to be closed.
        self.used = False
        self._is_closed = False

    @property
    def path(self) -> Path:
        return self._directory / self._name

    def held(self) -> File:
        """The open file. It stays open while it is held, also when this one has to make room."""
        self.used = True
        opened = self.opened
        if opened is None:
            if self._is_closed:
                raise StorageFailure(f"{self.path} is closed")
            opened = self._descriptors.open(self)
        return opened

    def fileno(self) -> int:
        """The number, or after `close` one that every system call refuses."""
        opened = self.opened
        if opened is None:
            if self._is_closed:
                return CLOSED
            opened = self.held()
        self.used = True
        return opened.fileno()

    def size(self) -> int:
        return self.held().size()

    def read(self, length: int, position: int) -> bytes:
        opened = self.opened
        if opened is None:
            opened = self.held()
        self.used = True
        return opened.read(length, position)

    def write(self, buffers: Sequence[Readable], position: int) -> int:
        return self.held().write(buffers, position)

    def reserve(self, position: int, length: int) -> None:
        self.held().reserve(position, length)

    def trim(self) -> None:
        self.held().trim()

    def truncate(self, size: int) -> None:
        self.kept = None
        self.held().truncate(size)

    def fdatasync(self) -> None:
        """Sync; a file deleted meanwhile needs none."""
        try:
            file = self.held()
        except StorageFailure:
            if self._is_closed or self._descriptors.is_gone(self.path):
                return
            raise
        file.fdatasync()

    def close(self) -> None:
        """Close the descriptor for good, even if a reader still holds this object: the space of a
        deleted file is free then. A running operation ends first."""
        self._is_closed = True
        self.opened = self.kept = None
        self._descriptors.discard(self)

    def detach(self) -> None:
        """The name goes away. Who holds this reads on, and the last one closes it."""
        if not self._is_closed:
            with contextlib.suppress(StorageFailure):
                self.held()
            self._is_closed = True
            self.kept = None
            self._descriptors.discard(self)

    def share(self) -> None:
        """It always is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OnDemandFile({str(self.path)!r})"
