"""Consistent copies of the metadata files, for the archive."""

from pathlib import Path
from typing import Final

from borzoi.model.errors import StorageFailure
from borzoi.storage.info import INFO_NAME
from borzoi.storage.state_log import STATE_LOG_NAME, StateLog
from borzoi.storage.state_snapshot import SNAPSHOT_NAME

#: How often a copy of the metadata is restarted because a snapshot was taken meanwhile.
COPY_ATTEMPTS_MAX: Final = 10


class StateCopies:
    """Consistent copies of the metadata files of a running server."""

    def __init__(self, directory: Path, state_log: StateLog) -> None:
        self._directory = directory
        self._log = state_log

    @property
    def last_index(self) -> int:
        return self._log.next_index - 1

    def read(self) -> dict[str, bytes]:
        """Return the snapshot, and the entries after it. A snapshot taken meanwhile removes entries
        from the log, so both are read again then."""
        for _ in range(COPY_ATTEMPTS_MAX):
            before = self._snapshot_identity()
            snapshot = self._content(SNAPSHOT_NAME)
            size = self._log.size
            entries = (self._content(STATE_LOG_NAME) or b"")[:size]
            if self._snapshot_identity() == before:
                break
        else:
            raise StorageFailure("the metadata changed too often to be copied")
        files = {STATE_LOG_NAME: entries, INFO_NAME: self._content(INFO_NAME) or b""}
        if snapshot is not None:
            files[SNAPSHOT_NAME] = snapshot
        return files

    def _snapshot_identity(self) -> tuple[int, int] | None:
        try:
            status = (self._directory / SNAPSHOT_NAME).stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _content(self, name: str) -> bytes | None:
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None
