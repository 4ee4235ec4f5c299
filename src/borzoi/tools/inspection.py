"""Looking at every byte of a data directory: what is sound, what is not, and where.

Nothing is changed here; `repairing.py` acts on what is wrong. Each message is held against its
checksum, each offset against the one before, each index entry against the log, each metadata
entry against its SHA-256. Consumer offsets carry no checksum: only their size is known, and that
they must not be ahead of the log.
"""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from borzoi.metadata.state import Metadata
from borzoi.model.errors import StateCorrupted
from borzoi.model.namespace import Namespace
from borzoi.security.encryption import Cipher
from borzoi.shard.presence import PRESENCE_NAME, Presence, partitions_of, read_presence, touched
from borzoi.shard.presence import lost as lost_of
from borzoi.storage.info import INFO_NAME
from borzoi.storage.layout import LOG_SUFFIX, TRASH, TWIN_SUFFIXES, start_offset_of
from borzoi.storage.media import Medium
from borzoi.storage.offsets import OFFSETS_DIRECTORY
from borzoi.storage.state_log import STATE_LOG_NAME
from borzoi.tools.findings import Finding, Progress, Severity
from borzoi.tools.metadata_inspection import Unsettled, inspect_metadata
from borzoi.tools.partition_inspection import inspect_partition

#: Archived segments, and what repairs replaced: not part of the data.
BACKUP_DIRECTORY: Final = "backup"
#: Where offsets lie, and what is no part of the data: copies, and what was deleted.
NOT_LOOKED_INTO: Final = frozenset({OFFSETS_DIRECTORY, BACKUP_DIRECTORY, TRASH})


def verify(
    medium: Medium, directory: Path, *, cipher: Cipher | None = None
) -> Iterator[Finding | Progress]:
    """Everything below a data directory, or one partition's directory alone."""
    state: Metadata | None = None
    places = partition_directories(directory)
    lost: list[Namespace] = []
    if is_data_directory(medium, directory):
        state, lost = yield from inspect_root(medium, directory, places, cipher)
    for place in places:
        yield from inspect_partition(medium, place)
    if state is not None:
        yield from _compare(directory, places, state, lost)


def inspect_root(
    medium: Medium, directory: Path, places: list[Path], cipher: Cipher | None
) -> Generator[Finding | Progress, None, tuple[Metadata | None, list[Namespace]]]:
    """Findings about metadata; returns it, and the partitions that were on the disk and are not
    among `places`."""
    try:
        presence = read_presence(medium, directory)
    except StateCorrupted as error:
        yield Finding(Severity.DAMAGE, directory / PRESENCE_NAME, str(error))
        presence = Presence()
    unsettled = Unsettled(-1 if presence is None else presence.index, [])
    state = yield from inspect_metadata(medium, directory, cipher, unsettled)
    if state is None:
        return None, []
    there = {namespace for place in places if (namespace := namespace_of(place)) is not None}
    recently = set(touched(unsettled.effects))
    return state, lost_of(presence, partitions_of(state), recently, there)


def is_data_directory(medium: Medium, directory: Path) -> bool:
    return any(medium.exists(directory / name) for name in (INFO_NAME, STATE_LOG_NAME))


def partition_directories(directory: Path) -> list[Path]:
    """Every directory that holds a partition: it has segments, or offsets of consumers."""
    found = []
    for place in (directory, *sorted(path for path in directory.rglob("*") if path.is_dir())):
        within = place.relative_to(directory).parts
        if not NOT_LOOKED_INTO.isdisjoint(within):
            continue
        names = [path.name for path in place.iterdir()]
        if OFFSETS_DIRECTORY in names or any(
            start_offset_of(name, LOG_SUFFIX + suffix) is not None
            for name in names
            for suffix in ("", *TWIN_SUFFIXES)
        ):
            found.append(place)
    return found


def namespace_of(directory: Path) -> Namespace | None:
    """Which partition a directory belongs to, from `…/{stream}/topics/{topic}/partitions/{id}`."""
    parts = directory.parts
    numbers = [parts[-back] for back in (5, 3, 1) if len(parts) >= back]
    if len(numbers) != 3 or not all(number.isdecimal() for number in numbers):
        return None
    return Namespace(*map(int, numbers))


def total_bytes(directory: Path) -> int:
    """How much there is to read; for a progress bar."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _compare(
    directory: Path, places: list[Path], state: Metadata, lost: list[Namespace]
) -> Iterator[Finding]:
    """Partitions that the metadata knows, against the directories that are there."""
    known = partitions_of(state)
    there = {namespace_of(place): place for place in places}
    for namespace in lost:
        yield Finding(
            Severity.DAMAGE, directory, f"partition {namespace} was on the disk and is missing"
        )
    for namespace in sorted(known - there.keys() - set(lost)):
        yield Finding(
            Severity.WARNING,
            directory,
            f"partition {namespace} of the metadata has no directory; the next start makes it",
        )
    for place in places:
        if namespace_of(place) not in known:
            yield Finding(Severity.WARNING, place, "belongs to no partition of the metadata")
