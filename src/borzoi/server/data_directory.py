"""Creates the data directory and locks it for one server at a time."""

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import Self

from borzoi.model.errors import InvalidConfiguration

LOCK_NAME = "borzoi.lock"
#: The permission bits of group and others.
OTHERS = 0o077
#: Room for the number of the process that holds the lock.
HOLDER_BYTES = 32


def keep_private() -> None:
    """Create all files with modes 0700 and 0600 from now on, whatever the umask: messages, password
    hashes and logs are private."""
    os.umask(OTHERS)


def why_not_writable(directory: Path) -> str | None:
    """Return why files could not be created in a directory, which may not exist yet."""
    place = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not place.is_dir():
        return os.strerror(errno.ENOTDIR)
    return None if os.access(place, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)


def directory_fault(directory: Path) -> str | None:
    """Yield what would prevent a server from using the data directory; creates nothing."""
    why = why_not_writable(directory)
    if why is None:
        return None
    return f"system.path: {directory}: {why}; it takes a directory that we may write"


class DirectoryInUse(InvalidConfiguration):
    """Another server uses the directory."""


class DataDirectory:
    """Holds the lock from construction to `close`; the kernel drops it when the process dies."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._descriptor = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            holder = os.pread(self._descriptor, HOLDER_BYTES, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise DirectoryInUse(
                f"the data directory {path} is in use by another server"
                + (f" (process {holder})" if holder else "")
                + "; stop it, or set system.path to another directory"
            ) from fault
        # Overwritten in place: a full disk has no space, and only the lock matters.
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, f"{os.getpid()}".ljust(HOLDER_BYTES).encode(), 0)

    @property
    def open_to_others(self) -> str | None:
        """Return a warning if other users can access the directory."""
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if not mode & OTHERS:
            return None
        return (
            f"{self.path} is open to other users (mode {mode:04o}), and holds messages and hashes"
            f" of passwords; `chmod 0700 {self.path}` closes it"
        )

    @property
    def lock(self) -> int:
        """The descriptor that holds the lock; a process that inherits it holds the lock as well."""
        return self._descriptor

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
