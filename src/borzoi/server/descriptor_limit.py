"""Descriptors: as many as the system gives us, and never all of them to clients.

Every connection costs one, and so does every file. Without a share for the files, a client
that opens enough connections, logged in or not, makes all appends fail.
"""

import logging
import resource

from borzoi.model.errors import InvalidConfiguration

log = logging.getLogger(__name__)

#: With fewer a server could not open its own files and serve a handful of clients.
DESCRIPTORS_MIN = 64
#: For the files of partitions, as far as half of all descriptors allows.
FOR_FILES = 1024


def refuse_too_few() -> None:
    """Raise when the process may not even open what a start needs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_MIN:
        raise InvalidConfiguration(
            f"the process may open {hard} files and connections (ulimit -n); it takes at least"
            f" {DESCRIPTORS_MIN}"
        )


def raise_to_hard_limit() -> None:
    """Many systems start processes with 1024 descriptors and allow many more on demand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as fault:
        log.warning("only %d files and connections may be open: %s", soft, fault)


def room_for_connections(wanted: int) -> int:
    """How many of the wanted connections there may be so that files can still be opened."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    room = max(limit - FOR_FILES, limit // 2)
    if room < wanted:
        log.warning(
            "%d connections are accepted, not %d: the process may open %d descriptors (ulimit -n)",
            room,
            wanted,
            limit,
        )
    return min(wanted, room)
