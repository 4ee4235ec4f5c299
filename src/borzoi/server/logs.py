"""Logging: to the console, and to files that are rotated by size and deleted by age."""

import contextlib
import errno
import logging
import logging.handlers
import os
import stat
import sys
from pathlib import Path
from typing import TextIO

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.data_directory import why_not_writable
from borzoi.server.settings import LoggingSection
from borzoi.storage.local import NO_SPACE

FILE_NAME = "borzoi.log"
#: Rotated files of every process of the server.
ROTATED = "borzoi*.log.*"
LINE = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}
FILES_MAX = 100_000


class Console(logging.StreamHandler[TextIO]):
    """Standard error; a line that cannot be written is lost silently."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class LogFile(logging.handlers.RotatingFileHandler):
    """A file on a disk that may be full: lost lines are reported once on the console."""

    _losing = False

    def emit(self, record: logging.LogRecord) -> None:
        self._failed = False
        super().emit(record)
        if not self._failed:
            self._losing = False

    def handleError(self, record: logging.LogRecord) -> None:
        fault = sys.exc_info()[1]
        if not isinstance(fault, OSError):
            super().handleError(record)
            return
        self._failed = True
        if not self._losing:
            self._losing = True
            with contextlib.suppress(OSError):
                print(f"{self.baseFilename} loses lines: {fault.strerror}", file=sys.stderr)


def start_logging(
    settings: LoggingSection, data_directory: Path, process: str | None = None
) -> None:
    """Set up logging from the settings; called once, before anything is opened.

    `process` names one of several: each has its own files, because rotation renames them, and its
    lines name it, because all share the console.
    """
    root = logging.getLogger("borzoi")
    root.setLevel(LEVELS[settings.level])
    root.propagate = False
    formatter = logging.Formatter(LINE if process is None else f"[{process}] {LINE}")
    handlers: list[logging.Handler] = [Console(sys.stderr)]
    if settings.file_enabled:
        handlers.append(
            _file_handler(settings, data_directory / settings.path / file_name(process))
        )
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)


def file_name(process: str | None) -> str:
    """The file of a server's only process, or of one of several."""
    return FILE_NAME if process is None else f"borzoi-{process}.log"


def _file_handler(settings: LoggingSection, file: Path) -> logging.Handler:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Opened now, not with the first line: the server refuses to start if it cannot write.
        return LogFile(
            file,
            maxBytes=settings.max_file_size,
            backupCount=files_kept(settings.max_file_size, settings.max_total_size),
            encoding="utf-8",
        )
    except OSError as fault:
        if fault.errno in NO_SPACE:
            print(f"warning: {file}: {fault.strerror}", file=sys.stderr)
            return logging.NullHandler()
        raise InvalidConfiguration(_fault(file.parent, fault.strerror)) from fault


def log_fault(settings: LoggingSection, data_directory: Path) -> str | None:
    """Yield what would prevent a server from writing its log; creates nothing."""
    if not settings.file_enabled:
        return None
    folder = data_directory / settings.path
    file = folder / FILE_NAME
    why = why_not_writable(folder)
    if why is None and file.is_dir():
        why = os.strerror(errno.EISDIR)
    elif why is None and file.exists() and not os.access(file, os.W_OK):
        why = os.strerror(errno.EACCES)
    return None if why is None else _fault(folder, why)


def _fault(folder: Path, why: str | None) -> str:
    return (
        f"system.logging.path: {FILE_NAME} cannot be written in {folder}: {why};"
        " it takes a directory that we may write, or set system.logging.file_enabled to false"
    )


def files_kept(max_file_size: int, max_total_size: int) -> int:
    """Return how many rotated files fit into the total; unlimited if there is none."""
    if not max_total_size or not max_file_size:
        return FILES_MAX
    return min(max(1, max_total_size // max_file_size), FILES_MAX)


def forgotten(
    files: list[tuple[Path, float, int]], *, now: float, keep_for: float, total_max: int
) -> list[Path]:
    """Return the rotated files to delete: expired ones, then the oldest until the rest fits.

    `files` are (path, modified, size), without the file that is being written.
    """
    gone = [path for path, modified, _ in files if modified + keep_for <= now]
    kept = sorted(
        ((modified, size, path) for path, modified, size in files if path not in gone),
        key=lambda row: row[0],
    )
    total = sum(size for _, size, _ in kept)
    while total_max and kept and total > total_max:
        _, size, path = kept.pop(0)
        total -= size
        gone.append(path)
    return gone


def remove_forgotten(settings: LoggingSection, data_directory: Path, *, now: float) -> None:
    """Delete the rotated files that `forgotten` names, of every process of the server."""
    files = []
    for path in (data_directory / settings.path).glob(ROTATED):
        # Another process may have rotated or deleted it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                files.append((path, status.st_mtime, status.st_size))
    for path in forgotten(
        files,
        now=now,
        keep_for=settings.retention / 1_000_000,
        total_max=settings.max_total_size,
    ):
        path.unlink(missing_ok=True)
