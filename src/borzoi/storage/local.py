"""Files of the operating system."""

import contextlib
import ctypes
import errno
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final, Self, cast

from borzoi.model.errors import CannotSync, DiskFull, StorageFailure
from borzoi.storage.media import CLOSED, Readable

#: `fallocate` reserves the space without changing the size of the file.
FALLOC_FL_KEEP_SIZE: Final = 1


def _system_fallocate() -> Callable[[int, int, int, int], int] | None:
    """Call Linux's `fallocate`: Python has only the portable one, which extends files."""
    try:
        function = ctypes.CDLL(None).fallocate
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    function.restype = ctypes.c_int
    return cast("Callable[[int, int, int, int], int]", function)


_fallocate: Final = _system_fallocate()

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
#: The disk is full, or the quota of our user is used up.
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class LocalFile:
    """An open descriptor, which nothing else may close.

    Its owner closes it with `close`. A shared file (`share`) closes with its last reference; for
    any other file that is a leak, which is reported as a warning.
    """

    __slots__ = ("_descriptor", "_identity", "_is_shared", "_path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._identity = _identity_of(descriptor)
        self._is_shared = False

    @property
    def path(self) -> Path:
        return self._path

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode: the same for every descriptor of the file, while it exists."""
        return self._identity

    def fileno(self) -> int:
        """For system calls only: do not close it, the number could be reused by another file."""
        return self._descriptor

    def size(self) -> int:
        with _translated("measure", self._path):
            return os.fstat(self._descriptor).st_size

    def read(self, length: int, position: int) -> bytes:
        try:
            found = os.pread(self._descriptor, length, position)
            if len(found) == length or not found:
                return found
            # A signal or a very long read may stop short of the end; only b"" means the end.
            parts = [found]
            while found and length > (total := sum(map(len, parts))):
                found = os.pread(self._descriptor, length - total, position + total)
                parts.append(found)
            return b"".join(parts)
        except OSError as error:
            raise _failure("read", self._path, error) from error

    def write(self, buffers: Sequence[Readable], position: int) -> int:
        try:
            return os.pwritev(self._descriptor, buffers, position)
        except OSError as error:
            raise _failure("write to", self._path, error) from error

    def reserve(self, position: int, length: int) -> None:
        if _fallocate is not None:
            _fallocate(self._descriptor, FALLOC_FL_KEEP_SIZE, position, length)

    def trim(self) -> None:
        # Truncating a file at its end frees the reserved space.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size)

    def truncate(self, size: int) -> None:
        with _translated("truncate", self._path):
            os.ftruncate(self._descriptor, size)

    def fdatasync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise CannotSync(f"cannot sync {self._path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file for all its holders; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, CLOSED
        if descriptor != CLOSED:
            os.close(descriptor)

    def share(self) -> None:
        self._is_shared = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # `__init__` may have failed, and at the end of the process modules go before objects.
        with contextlib.suppress(OSError, AttributeError, TypeError):
            if self._descriptor == CLOSED:
                return
            if _identity_of(self._descriptor) == self._identity:
                self.close()
                if not self._is_shared:
                    self._warn("was never closed by its owner")
                return
        # The number may belong to another file or socket; closing it would break that one.
        self._warn("was closed by something else than its file")

    def _warn(self, what: str) -> None:
        warnings.warn(
            f"the descriptor of {self._path} {what}", ResourceWarning, stacklevel=3, source=self
        )

    def __repr__(self) -> str:
        return f"LocalFile({str(self._path)!r})"


class LocalMedium:
    """The file system of this machine."""

    __slots__ = ("_boot_id",)

    def __init__(self) -> None:
        try:
            self._boot_id = BOOT_ID.read_text().strip()
        except OSError:
            # Without one every start assumes a power cut: slower, but correct.
            self._boot_id = os.urandom(16).hex()

    @property
    def boot_id(self) -> str:
        return self._boot_id

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> LocalFile:
        flags = os.O_CLOEXEC | (os.O_RDWR if writable else os.O_RDONLY)
        if create:
            flags |= os.O_CREAT
        try:
            return LocalFile(path, os.open(path, flags, 0o600))
        except OSError as error:
            raise _failure("open", path, error) from error

    def list(self, directory: Path) -> list[str]:
        try:
            return os.listdir(directory)  # noqa: PTH208 - names, not paths
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failure("list", directory, error) from error

    def exists(self, path: Path) -> bool:
        try:
            os.stat(path)  # noqa: PTH116 - a start looks at ten thousand partitions
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _failure("look at", path, error) from error
        return True

    def make_directory(self, directory: Path) -> Sequence[Path]:
        if os.path.isdir(directory):  # noqa: PTH112 - as above, and nearly always
            return []
        with _translated("create", directory):
            missing = list(takewhile(_is_missing, (directory, *directory.parents)))
            for path in reversed(missing):
                path.mkdir(exist_ok=True)
            return [path.parent for path in missing]

    def rename(self, source: Path, target: Path) -> None:
        with _translated("rename", source):
            source.replace(target)

    def unlink(self, path: Path) -> None:
        with _translated("remove", path):
            path.unlink(missing_ok=True)

    def remove_tree(self, directory: Path) -> None:
        with _translated("remove", directory):
            # Imported here: with it come three libraries of archives.
            from shutil import rmtree

            with contextlib.suppress(FileNotFoundError):
                rmtree(directory)

    def fsync_directory(self, directory: Path) -> None:
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise CannotSync(f"cannot sync {directory}: {error.strerror}") from error


def _is_missing(path: Path) -> bool:
    return not path.exists()


def _identity_of(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def _translated(action: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _failure(action, path, error) from error


def _failure(action: str, path: Path, error: OSError) -> StorageFailure:
    kind = DiskFull if error.errno in NO_SPACE else StorageFailure
    return kind(f"cannot {action} {path}: {error.strerror}")
