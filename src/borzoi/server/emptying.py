"""What ``--fresh`` deletes, and where it refuses to delete anything."""

import shutil
from collections.abc import Collection
from pathlib import Path

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.data_directory import LOCK_NAME
from borzoi.server.revoked_tokens import REVOKED_TOKENS
from borzoi.server.settings import Settings
from borzoi.shard.presence import PRESENCE_NAME
from borzoi.storage.info import FOREIGN_STATE_LOG, INFO_NAME
from borzoi.storage.layout import DRAFT_SUFFIX
from borzoi.storage.state_log import STATE_LOG_NAME
from borzoi.storage.state_snapshot import SNAPSHOT_NAME

#: Marks of a data directory of borzoi or another 0.8 server.
MARKS = (Path(INFO_NAME), Path(STATE_LOG_NAME), Path(SNAPSHOT_NAME), FOREIGN_STATE_LOG)
#: Files and directories that every server creates there.
OWN_FILES = (
    INFO_NAME,
    STATE_LOG_NAME,
    SNAPSHOT_NAME,
    PRESENCE_NAME,
    REVOKED_TOKENS,
    *FOREIGN_STATE_LOG.parts[:1],
)
FOREIGN_TOLD_MAX = 5


def empty(path: Path, own_names: Collection[str]) -> None:
    """Delete everything but the lock; refuses if there is anything but our data.

    The caller holds the lock. `own_names` are the directories that the settings put there.
    """
    names = {entry.name for entry in path.iterdir()} - {LOCK_NAME}
    if names and not any((path / mark).exists() for mark in MARKS):
        raise InvalidConfiguration(
            f"--fresh: {path} is not the data directory of a server (it has none of"
            f" {', '.join(map(str, MARKS))}), so nothing in it is deleted; empty it by hand or"
            " set system.path to another directory"
        )
    known = {*OWN_FILES, *own_names}
    foreign = sorted(name for name in names if name.removesuffix(DRAFT_SUFFIX) not in known)
    if foreign:
        shown = ", ".join(foreign[:FOREIGN_TOLD_MAX])
        raise InvalidConfiguration(
            f"--fresh: {path} has {len(foreign)} entries that no server creates"
            f" ({shown}), so nothing in it is deleted; remove them first"
        )
    for entry in path.iterdir():
        if entry.name == LOCK_NAME:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def own_directories(settings: Settings) -> set[str]:
    """The names in the data directory that the settings choose."""
    system = settings.system
    sections = (system.stream, system.runtime, system.logging, system.backup)
    paths = [*(section.path for section in sections), system.backup.compatibility.path]
    return {Path(path).parts[0] for path in paths if path and not Path(path).is_absolute()}
