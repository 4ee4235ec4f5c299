"""The interface of a medium: every file access of the storage engine goes through here.

`storage/local.py` is the real one; tests have a simulated disk that loses what was not synced and
one that fails on request. A failed operation raises `StorageFailure` (`CannotSync` for a sync),
never a bare `OSError`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol, Self, TypeAlias

from borzoi.model.errors import StorageFailure
from borzoi.model.limits import VECTORS_MAX

#: In place of a descriptor after `close`: no process can have it, so every system call refuses it.
CLOSED: Final = (1 << 31) - 1

Readable: TypeAlias = bytes | bytearray | memoryview


class ReadOnlyFile(Protocol):
    """A file for reading and sending."""

    @property
    def path(self) -> Path: ...

    def fileno(self) -> int:
        """The descriptor, for `sendfile` and for passing to another process."""
        ...

    def size(self) -> int: ...

    def read(self, length: int, position: int) -> bytes:
        """Up to `length` bytes at `position`; fewer only at the end of the file."""
        ...


class File(ReadOnlyFile, Protocol):
    """An open file with one owner, which closes it with `close`.

    A shared file closes with its last reference instead: see `storage/descriptors.py`.
    """

    def write(self, buffers: Sequence[Readable], position: int) -> int:
        """Write the buffers one after another at `position`; may write less than all of them."""
        ...

    def reserve(self, position: int, length: int) -> None:
        """Reserve space on the disk for bytes about to be written, without changing the size.

        Best effort: if it fails nothing happens, and `write` reports a full disk.
        """
        ...

    def trim(self) -> None:
        """Release reserved space after the end; best effort as well."""
        ...

    def truncate(self, size: int) -> None: ...

    def fdatasync(self) -> None:
        """Return when the bytes and the size are on the disk; callable from another thread."""
        ...

    def close(self) -> None:
        """Close the descriptor now, even if others hold the file; may be called twice."""
        ...

    def share(self) -> None:
        """Close with the last reference from now on."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None:
        """Close it."""
        ...


class Medium(Protocol):
    """A tree of files."""

    @property
    def boot_id(self) -> str:
        """Changes whenever unsynced writes may have been lost, that is with every power cut."""
        ...

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> File: ...

    def list(self, directory: Path) -> list[str]:
        """Return the names in a directory, unordered; empty if it does not exist."""
        ...

    def exists(self, path: Path) -> bool: ...

    def make_directory(self, directory: Path) -> Sequence[Path]:
        """Create it and missing parents; return the directories that changed."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename to `target` atomically."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a file; no error if it does not exist."""
        ...

    def remove_tree(self, directory: Path) -> None: ...

    def fsync_directory(self, directory: Path) -> None:
        """Return when the names in the directory are on the disk."""
        ...


def write_all(file: File, buffers: Sequence[Readable], position: int) -> int:
    """Write every byte of the buffers, repeating short writes; return the new end."""
    pending: Sequence[Readable] = buffers
    while pending:
        group = pending if len(pending) <= VECTORS_MAX else pending[:VECTORS_MAX]
        wanted = sum(map(len, group))
        written = file.write(group, position)
        position += written
        if written == wanted:
            if group is pending:
                break  # nearly always, and at once
            pending = pending[VECTORS_MAX:]
            continue
        if written == 0 and wanted:
            raise StorageFailure(f"{file.path} accepts no more bytes at {position}")
        pending = _without(pending, written)
    return position


def _without(buffers: Sequence[Readable], written: int) -> list[Readable]:
    """Return the buffers without their first `written` bytes."""
    rest = list(buffers)
    while rest and written >= len(rest[0]):
        written -= len(rest.pop(0))
    if written:
        rest[0] = memoryview(rest[0])[written:]
    return rest


def read_exactly(file: ReadOnlyFile, length: int, position: int) -> bytes:
    """Read exactly `length` bytes, or raise `StorageFailure` if the file is shorter."""
    found = file.read(length, position)
    if len(found) != length:
        raise StorageFailure(
            f"{file.path} holds {len(found)} of the {length} bytes expected at {position}"
        )
    return found


def replace_file(medium: Medium, path: Path, content: bytes) -> None:
    """Put `content` under `path` so that a crash leaves the old bytes or the new, never a mix."""
    draft = path.with_name(path.name + ".tmp")
    with medium.open(draft, create=True) as file:
        file.truncate(0)
        write_all(file, [content], 0)
        file.fdatasync()
    medium.rename(draft, path)


def content_of(medium: Medium, path: Path) -> bytes:
    """Every byte of a file."""
    with medium.open(path, writable=False) as file:
        return file.read(file.size(), 0)


def size_of(medium: Medium, path: Path) -> int:
    with medium.open(path, writable=False) as file:
        return file.size()
