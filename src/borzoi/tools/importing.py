"""Converts a data directory of the published 0.8 servers.

    theirs                         ours
    state/log                      state.snapshot, replayed; every id and date stays
    state/info                     info.json
    state/tokens                   revoked_tokens.json, when there is one
    streams/…/{offset:020}.log     the same bytes, copied; sealed ones can be linked instead
    streams/…/{offset:020}.index   copied
    streams/…/offsets/…            copied

The new directory is built under a temporary name and renamed when it is complete, so an import that
was interrupted leaves nothing that a server would start on. The source is only read. A link costs
neither time nor space, but then one file belongs to both directories: a cluster that takes back
messages which were never agreed on may shorten a sealed segment, and would do so in both.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from borzoi.metadata import snapshot
from borzoi.metadata.state import Metadata
from borzoi.model.errors import InvalidConfiguration, StateCorrupted, StorageFailure
from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.model.namespace import Namespace
from borzoi.security.encryption import Cipher
from borzoi.storage.info import FOREIGN_STATE_LOG, open_info
from borzoi.storage.layout import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    index_name,
    log_name,
    partition_directory,
    start_offset_of,
)
from borzoi.storage.local import LocalMedium
from borzoi.storage.offsets import KIND_DIRECTORIES, OFFSETS_DIRECTORY
from borzoi.storage.state_entry import TornTail
from borzoi.storage.state_log import open_state_log
from borzoi.storage.state_snapshot import StateSnapshot, write_snapshot
from borzoi.tools.iggy_state import (
    ForeignEntry,
    decode_revoked_tokens,
    read_foreign_log,
    replay,
)

FOREIGN_TOKENS: Final = Path("state", "tokens")
REVOKED_TOKENS: Final = "revoked_tokens.json"
STAGING_SUFFIX: Final = ".importing"


class ImportReport(msgspec.Struct):
    """What was imported, and notes for the operator."""

    entries: int = 0
    streams: int = 0
    topics: int = 0
    partitions: int = 0
    groups: int = 0
    users: int = 0
    tokens: int = 0
    segments: int = 0
    messages: int = 0
    bytes: int = 0
    offsets: int = 0
    linked_bytes: int = 0
    warnings: list[str] = msgspec.field(default_factory=list)


#: Called with the next partition to import, its number and the total.
Progress = Callable[[Namespace, int, int], None]


def import_iggy(
    source: Path,
    target: Path,
    *,
    version: str,
    now: int,
    cipher: Cipher | None = None,
    link: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Makes `target`, which must be new or empty, out of the directory of a stopped server.

    With `cipher` the metadata is read and stored encrypted; messages stay as they are.
    """
    _check_places(source, target)
    report = ImportReport()
    state = _read_metadata(source, cipher, now, report)
    staging = target.with_name(target.name + STAGING_SUFFIX)
    try:
        if staging.exists():
            shutil.rmtree(staging)
        staging.mkdir(parents=True)
        namespaces = list(_namespaces(state))
        for number, namespace in enumerate(namespaces):
            if progress is not None:
                progress(namespace, number, len(namespaces))
            _bring_partition(source, staging, namespace, report, link=link)
        _warn_of_strangers(source, state, report)
        _write_metadata(source, staging, state, report, version=version, now=now, cipher=cipher)
        os.sync()
        # Renaming onto an empty directory replaces it.
        staging.replace(target)
        LocalMedium().fsync_directory(target.absolute().parent)
    except OSError as error:
        raise StorageFailure(f"the import stopped: {error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return report


def _check_places(source: Path, target: Path) -> None:
    if not (source / FOREIGN_STATE_LOG).is_file():
        raise InvalidConfiguration(
            f"{source} is not a data directory of an Iggy 0.8 server: it has no {FOREIGN_STATE_LOG}"
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidConfiguration(f"{target} is there already and not empty")


def _read_metadata(source: Path, cipher: Cipher | None, now: int, report: ImportReport) -> Metadata:
    entries: list[ForeignEntry] = []
    for entry in read_foreign_log((source / FOREIGN_STATE_LOG).read_bytes(), cipher):
        if isinstance(entry, TornTail):
            report.warnings.append(
                f"{FOREIGN_STATE_LOG} ends with {entry.length} bytes of an entry that was never"
                " completed; they are left out"
            )
        else:
            entries.append(entry)
    if not entries:
        raise StateCorrupted(f"{source / FOREIGN_STATE_LOG} holds no entry: there is no user")
    state = replay(entries, now=now)
    report.entries = len(entries)
    report.streams = len(state.streams)
    report.users = len(state.users)
    report.tokens = len(state.token_owners)
    for stream in state.streams.values():
        report.topics += len(stream.topics)
        for topic in stream.topics.values():
            report.groups += len(topic.groups)
            report.partitions += len(topic.partitions)
    return state


def _write_metadata(
    source: Path,
    staging: Path,
    state: Metadata,
    report: ImportReport,
    *,
    version: str,
    now: int,
    cipher: Cipher | None,
) -> None:
    medium = LocalMedium()
    taken = StateSnapshot(report.entries - 1, 0, now, snapshot.encode(state))
    write_snapshot(medium, staging, taken, cipher)
    log, _ = open_state_log(medium, staging, cipher=cipher)
    log.close()
    if (source / FOREIGN_TOKENS).exists():
        try:
            revoked = decode_revoked_tokens((source / FOREIGN_TOKENS).read_bytes())
        except StateCorrupted as error:
            report.warnings.append(f"{error}; nothing was taken over from {FOREIGN_TOKENS}")
        else:
            (staging / REVOKED_TOKENS).write_bytes(msgspec.json.encode(revoked) + b"\n")
    open_info(medium, staging, version=version, now=now)


def _namespaces(state: Metadata) -> Iterator[Namespace]:
    for stream in state.streams.in_order():
        for topic in stream.topics.in_order():
            for partition_id in topic.partitions:
                yield Namespace(stream.id, topic.id, partition_id)


def _bring_partition(
    source: Path, staging: Path, namespace: Namespace, report: ImportReport, *, link: bool
) -> None:
    theirs = partition_directory(source, namespace)
    ours = partition_directory(staging, namespace)
    ours.mkdir(parents=True)
    if not theirs.is_dir():
        report.warnings.append(f"partition {namespace} has no directory there; it starts empty")
    else:
        _bring_segments(theirs, ours, report, link=link)
    for name in KIND_DIRECTORIES.values():
        (ours / OFFSETS_DIRECTORY / name).mkdir(parents=True)
        if (theirs / OFFSETS_DIRECTORY / name).is_dir():
            for path in sorted((theirs / OFFSETS_DIRECTORY / name).iterdir()):
                shutil.copy2(path, ours / OFFSETS_DIRECTORY / name / path.name)
                report.offsets += 1


def _bring_segments(theirs: Path, ours: Path, report: ImportReport, *, link: bool) -> None:
    names = [path.name for path in theirs.iterdir() if path.is_file()]
    starts = sorted(
        start for name in names if (start := start_offset_of(name, LOG_SUFFIX)) is not None
    )
    for start in starts:
        size = (theirs / log_name(start)).stat().st_size
        # The last segment will be appended to, so it must not be the file of another server.
        linked = link and start != starts[-1] and _linked(theirs, ours, log_name(start))
        if not linked:
            shutil.copy2(theirs / log_name(start), ours / log_name(start))
        report.segments += 1
        report.bytes += size
        report.linked_bytes += size if linked else 0
        if (theirs / index_name(start)).exists():
            shutil.copy2(theirs / index_name(start), ours / index_name(start))
            report.messages += (ours / index_name(start)).stat().st_size // INDEX_ENTRY_BYTES
        else:
            report.warnings.append(f"{theirs / index_name(start)} is missing; it will be rebuilt")
    known = {log_name(start) for start in starts} | {index_name(start) for start in starts}
    for name in sorted(set(names) - known):
        what = "has no log" if name.endswith(INDEX_SUFFIX) else "is not part of the log"
        report.warnings.append(f"{theirs / name} {what}; it is left out")


def _linked(theirs: Path, ours: Path, name: str) -> bool:
    try:
        (ours / name).hardlink_to(theirs / name)
    except OSError:
        # Another file system, or one without links.
        return False
    return True


def _warn_of_strangers(source: Path, state: Metadata, report: ImportReport) -> None:
    """Report directories with data that are not in the metadata; they are not imported."""
    known = {partition_directory(source, namespace) for namespace in _namespaces(state)}
    for path in sorted(source.glob("streams/*/topics/*/partitions/*")):
        if path not in known and any(file.stat().st_size for file in path.glob("*.log")):
            report.warnings.append(
                f"{path} belongs to no partition of the metadata; it is left out"
            )
