"""Builds the archiver of a server from its settings, partitions and metadata."""

import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from borzoi import __version__
from borzoi.archive import archiver as archives
from borzoi.archive.archiver import Archiver
from borzoi.model.errors import StorageFailure
from borzoi.objectstore.directory import DirectoryStore
from borzoi.objectstore.interface import ObjectStore
from borzoi.objectstore.locations import open_store
from borzoi.objectstore.metering import MeteredStore, Meters
from borzoi.objectstore.retries import RetryingStore
from borzoi.server.archive_location import archive_location
from borzoi.server.settings import Settings
from borzoi.storage.info import INFO_NAME
from borzoi.storage.state_log import STATE_LOG_NAME, StateLog
from borzoi.storage.state_snapshot import SNAPSHOT_NAME

#: Below system.backup.path, next to the backups of `borzoi log repair`.
DISK_FOLDER: Final = "archive"
#: How often a copy of the metadata is restarted because a snapshot was taken meanwhile.
COPY_ATTEMPTS_MAX: Final = 10


def archiver_of(
    settings: Settings, directory: Path, meters: Meters, *, clock: Callable[[], int]
) -> Archiver | None:
    """Return the archiver, if the settings enable it."""
    section = settings.system.backup.archiver
    if not section.enabled:
        return None
    store: ObjectStore
    if section.kind == "disk":
        store = DirectoryStore(directory / settings.system.backup.path / DISK_FOLDER)
    else:
        store = open_store(archive_location(section.object))
    return Archiver(
        RetryingStore(MeteredStore(store, meters), retries=meters.retries),
        archives.ArchiveSettings(
            server=section.name or default_name(settings),
            concurrency=section.concurrency,
            part_size=section.part_size,
            verify=section.verify,
            include_state=section.include_state,
            state_keep=section.state_keep,
        ),
        clock=clock,
        version=__version__,
        asks_first=True,
    )


def default_name(settings: Settings) -> str:
    """Return the node's name in a cluster, else the host's, in characters that a key may have."""
    cluster = settings.cluster
    name = (
        f"{cluster.name}-{cluster.node.current.name}" if cluster.enabled else socket.gethostname()
    )
    return re.sub(r"[^A-Za-z0-9_=-]+", "-", name).strip("-") or "borzoi"


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
