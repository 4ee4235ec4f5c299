"""Builds the archiver of a server from its settings, partitions and metadata."""

import re
import socket
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from borzoi import __version__
from borzoi.archive import archiver as archives
from borzoi.archive.archiver import Archiver
from borzoi.objectstore.directory import DirectoryStore
from borzoi.objectstore.interface import ObjectStore
from borzoi.objectstore.locations import open_store
from borzoi.objectstore.metering import MeteredStore, Meters
from borzoi.objectstore.retries import RetryingStore
from borzoi.server.archive_location import archive_location
from borzoi.server.archive_metrics import archive_families
from borzoi.server.settings import Settings
from borzoi.telemetry.exposition import Family

#: Below system.backup.path, next to the backups of `borzoi log repair`.
DISK_FOLDER: Final = "archive"


def archiver_of(
    settings: Settings,
    directory: Path,
    meters: Meters,
    *,
    clock: Callable[[], int],
    follows_state: bool = False,
) -> Archiver | None:
    """Return the archiver, if the settings enable it. `follows_state`: another shard copies the
    metadata."""
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
        follows_state=follows_state,
    )


def metered_archiver(
    settings: Settings, directory: Path, *, clock: Callable[[], int], follows_state: bool
) -> tuple[Archiver, Callable[[], Iterable[Family]]]:
    """Return the archiver with its metrics and those of its store."""
    meters = Meters()
    archiver = archiver_of(settings, directory, meters, clock=clock, follows_state=follows_state)
    assert archiver is not None, "the archiver is not enabled"
    return archiver, partial(archive_families, archiver.counters, meters)


def default_name(settings: Settings) -> str:
    """Return the node's name in a cluster, else the host's, in characters that a key may have."""
    cluster = settings.cluster
    name = (
        f"{cluster.name}-{cluster.node.current.name}" if cluster.enabled else socket.gethostname()
    )
    return re.sub(r"[^A-Za-z0-9_=-]+", "-", name).strip("-") or "borzoi"
