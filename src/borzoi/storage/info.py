"""`info.json` in the root of the data directory: which version wrote it, in which format.

    {"version": "0.1.0", "created_at": 1700000000000000, "format": 1}

`format` counts changes that an older borzoi could not read. A directory in a newer format is
refused before anything in it is touched.
"""

import logging
from pathlib import Path
from typing import Final

import msgspec

from borzoi.model.errors import DiskFull, InvalidConfiguration, StateCorrupted
from borzoi.model.value import Value
from borzoi.storage.media import Medium, content_of, replace_file
from borzoi.storage.state_log import STATE_LOG_NAME

logger = logging.getLogger(__name__)

INFO_NAME: Final = "info.json"
DATA_FORMAT: Final = 1
#: Where the published servers keep their metadata log.
FOREIGN_STATE_LOG: Final = Path("state", "log")


class Info(Value):
    """The contents of `info.json`."""

    #: Of the borzoi that last started on it.
    version: str
    created_at: int
    format: int


def open_info(medium: Medium, directory: Path, *, version: str, now: int) -> Info:
    """Return the directory's info; written when it is new, updated when the version changed."""
    found = read_info(medium, directory)
    if found is None:
        _refuse_foreign(medium, directory)
        info = Info(version, now, DATA_FORMAT)
    elif found.format > DATA_FORMAT:
        raise InvalidConfiguration(
            f"{directory} was written by borzoi {found.version} in data format {found.format};"
            f" this is borzoi {version}, which reads formats up to {DATA_FORMAT}."
            " Start that version or a newer one."
        )
    elif found.version == version:
        return found
    else:
        logger.info("%s was last used by borzoi %s, now by %s", directory, found.version, version)
        info = Info(version, found.created_at, DATA_FORMAT)
    try:
        medium.make_directory(directory)
        replace_file(medium, directory / INFO_NAME, msgspec.json.encode(info) + b"\n")
        medium.fsync_directory(directory)
    except DiskFull as failure:
        if found is None:
            raise
        # It names a version before this one in the same format; the next start writes it.
        logger.warning("%s", failure)
    return info


def read_info(medium: Medium, directory: Path) -> Info | None:
    """Read `info.json`; None when there is none, `StateCorrupted` when it is invalid."""
    path = directory / INFO_NAME
    if not medium.exists(path):
        return None
    try:
        return msgspec.json.decode(content_of(medium, path), type=Info)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateCorrupted(f"{path} cannot be read: {error}") from None


def _refuse_foreign(medium: Medium, directory: Path) -> None:
    if medium.exists(directory / FOREIGN_STATE_LOG) and not medium.exists(
        directory / STATE_LOG_NAME
    ):
        raise InvalidConfiguration(
            f"{directory} was written by another server (it has {FOREIGN_STATE_LOG});"
            f" `borzoi import iggy {directory} --to NEW` converts it"
        )
