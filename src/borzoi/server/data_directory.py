"""The data directory as a whole: made, emptied on request, locked by one server at a time."""

import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from borzoi.model.errors import InvalidConfiguration

LOCK_NAME = "borzoi.lock"


class DirectoryInUse(InvalidConfiguration):
    """Another server works on the directory."""


class DataDirectory:
    """Holds the lock from construction to `close`; the kernel drops it when the process dies."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._descriptor = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            holder = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise DirectoryInUse(
                f"the data directory {path} is in use by another server"
                + (f" (process {holder})" if holder else "")
                + "; stop it, or set system.path to another directory"
            ) from fault
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def empty(self) -> None:
        """Delete everything but the lock."""
        for entry in self.path.iterdir():
            if entry.name == LOCK_NAME:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
