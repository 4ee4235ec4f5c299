"""File descriptors: raises the limit, and reserves a share for files.

Every connection costs one, and so does every file that is open. Without a share for the files, a
client that opens enough connections, logged in or not, makes all appends fail. The other way round,
files are opened on demand within their share, however many partitions there are.
"""

import logging
import resource
from typing import Final, NamedTuple

from borzoi.model.errors import InvalidConfiguration

log = logging.getLogger(__name__)

#: With fewer a server could not open its own files and serve a few clients.
DESCRIPTORS_MIN = 64
#: The minimum for files, but at most half of all descriptors; a quarter where there are many.
FOR_FILES: Final = 1024
FOR_FILES_MAX: Final = 16_384
#: Reserved for everything but partition files: listeners, logs, syncs and compression.
FOR_OURSELVES: Final = 64
#: Reserved for each other shard: the socket between the two, and its memory.
FOR_PEER: Final = 4

#: Files of one shard that another one has open.
CROSSED_MAX: Final = 256
#: Clients of one shard that another one may answer.
CLIENTS_MAX: Final = 64


class FileRoom(NamedTuple):
    """How many files of each kind may be open at once."""

    segments: int
    offsets: int
    #: Of each other shard: its files that this one sends from.
    crossed: int
    #: Of each other shard: its clients that this one may answer.
    clients: int


def refuse_too_few() -> None:
    """Raise if the limit is too low for a start."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_MIN:
        raise InvalidConfiguration(
            f"the process may open {hard} files and connections (ulimit -n); it takes at least"
            f" {DESCRIPTORS_MIN}"
        )


def raise_to_hard_limit() -> None:
    """Raise the soft limit: many systems start processes with 1024 and allow many more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as fault:
        log.warning("only %d files and connections may be open: %s", soft, fault)


def room_for_connections(wanted: int) -> int:
    """Return how many of the wanted connections leave enough descriptors for files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    room = limit - _for_files(limit)
    if room < wanted:
        log.warning(
            "accepting %d connections, not %d: the process may open %d descriptors (ulimit -n)",
            room,
            wanted,
            limit,
        )
    return min(wanted, room)


def room_for_files(shards: int = 1) -> FileRoom:
    """Return how many of the remaining descriptors of one of so many processes are for partition
    files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = FOR_FILES_MAX if limit == resource.RLIM_INFINITY else _for_files(limit)
    others = shards - 1
    files -= min(FOR_OURSELVES + FOR_PEER * others, files // 2)
    offsets = max(files // 8, 1)
    crossed = min(max(files // 4 // others, 1), CROSSED_MAX) if others else 0
    clients = min(crossed, CLIENTS_MAX)
    segments = max(files - offsets - (crossed + clients) * others, 1)
    return FileRoom(segments, offsets, crossed, clients)


def _for_files(limit: int) -> int:
    return min(max(limit // 4, min(FOR_FILES, limit // 2)), FOR_FILES_MAX)
