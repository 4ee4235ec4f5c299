"""A medium that fails on request, around one that works."""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from borzoi.model.errors import CannotSync, DiskFull, StorageFailure
from borzoi.storage.media import File, Medium, Readable


class Fault(StrEnum):
    """How an operation fails; each applies to the operations that can fail this way."""

    NO_SPACE = "ENOSPC"
    IO_ERROR = "EIO"
    #: Half of the bytes are written and the call says so.
    SHORT_WRITE = "short write"
    #: Half of the bytes are written and then the call fails.
    TORN_WRITE = "torn write"


#: Asked before each operation, with its name and path; no fault, no failure.
Choose = Callable[[str, Path], Fault | None]


class FaultyMedium:
    """Counts the operations on a medium and lets those fail that `choose` names."""

    def __init__(self, medium: Medium, choose: Choose) -> None:
        self._medium = medium
        self._choose = choose
        self.operations: list[tuple[str, Path]] = []

    @property
    def boot_id(self) -> str:
        return self._medium.boot_id

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> "FaultyFile":
        self.attempt("open", path)
        return FaultyFile(self, self._medium.open(path, create=create, writable=writable))

    def list(self, directory: Path) -> list[str]:
        self.attempt("list", directory)
        return self._medium.list(directory)

    def exists(self, path: Path) -> bool:
        return self._medium.exists(path)

    def make_directory(self, directory: Path) -> Sequence[Path]:
        self.attempt("make_directory", directory)
        return self._medium.make_directory(directory)

    def rename(self, source: Path, target: Path) -> None:
        self.attempt("rename", source)
        self._medium.rename(source, target)

    def unlink(self, path: Path) -> None:
        self.attempt("unlink", path)
        self._medium.unlink(path)

    def remove_tree(self, directory: Path) -> None:
        self.attempt("remove_tree", directory)
        self._medium.remove_tree(directory)

    def fsync_directory(self, directory: Path) -> None:
        self.attempt("fsync_directory", directory, CannotSync)
        self._medium.fsync_directory(directory)

    def attempt(
        self, operation: str, path: Path, failure: type[StorageFailure] = StorageFailure
    ) -> Fault | None:
        """Note the operation; raise what it fails with, or give back how it goes half wrong."""
        self.operations.append((operation, path))
        fault = self._choose(operation, path)
        if fault in (Fault.NO_SPACE, Fault.IO_ERROR):
            number = errno.ENOSPC if fault is Fault.NO_SPACE else errno.EIO
            if fault is Fault.NO_SPACE and failure is StorageFailure:
                failure = DiskFull
            raise failure(f"cannot {operation} {path}: {os.strerror(number)}")
        return fault


@dataclass(frozen=True, slots=True)
class FaultyFile:
    """A file whose operations fail as its medium decides."""

    medium: FaultyMedium
    file: File

    @property
    def path(self) -> Path:
        return self.file.path

    def fileno(self) -> int:
        return self.file.fileno()

    def size(self) -> int:
        return self.file.size()

    def read(self, length: int, position: int) -> bytes:
        self.medium.attempt("read", self.path)
        return self.file.read(length, position)

    def write(self, buffers: Sequence[Readable], position: int) -> int:
        fault = self.medium.attempt("write", self.path)
        if fault is None:
            return self.file.write(buffers, position)
        content = b"".join(bytes(buffer) for buffer in buffers)
        half = content[: (len(content) + 1) // 2]
        self.file.write([half], position)
        if fault is Fault.TORN_WRITE:
            raise DiskFull(f"cannot write to {self.path}: {os.strerror(errno.ENOSPC)}")
        return len(half)

    def reserve(self, position: int, length: int) -> None:
        self.file.reserve(position, length)

    def trim(self) -> None:
        self.file.trim()

    def truncate(self, size: int) -> None:
        self.medium.attempt("truncate", self.path)
        self.file.truncate(size)

    def fdatasync(self) -> None:
        self.medium.attempt("fdatasync", self.path, CannotSync)
        self.file.fdatasync()

    def close(self) -> None:
        self.file.close()

    def share(self) -> None:
        self.file.share()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
