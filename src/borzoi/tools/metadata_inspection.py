"""Inspection of what lies in the root of a data directory: info, snapshot, metadata log."""

from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

from borzoi.metadata import snapshot
from borzoi.metadata.commands import decode_command
from borzoi.metadata.effects import Effect
from borzoi.metadata.machine import Entry, apply
from borzoi.metadata.state import Metadata
from borzoi.model.errors import BorzoiError, EncryptionFailure, StateCorrupted
from borzoi.security.encryption import Cipher
from borzoi.storage.info import DATA_FORMAT, INFO_NAME, read_info
from borzoi.storage.layout import DRAFT_SUFFIX
from borzoi.storage.media import Medium, content_of, size_of
from borzoi.storage.state_entry import StateEntry, TornTail, read_entries
from borzoi.storage.state_log import STATE_LOG_NAME
from borzoi.storage.state_snapshot import SNAPSHOT_NAME, StateSnapshot, read_snapshot
from borzoi.tools.findings import Finding, Progress, Severity


class Unsettled(NamedTuple):
    """The effects of entries after `settled_index` are added to `effects`."""

    settled_index: int
    effects: list[Effect]


def inspect_metadata(
    medium: Medium,
    directory: Path,
    cipher: Cipher | None = None,
    unsettled: Unsettled | None = None,
) -> Generator[Finding | Progress, None, Metadata | None]:
    """Findings about the files in the root; returns the metadata when all of it can be read."""
    yield from _inspect_info(medium, directory)
    for name in sorted(medium.list(directory)):
        if name.endswith(DRAFT_SUFFIX):
            yield Finding(Severity.NOTE, directory / name, "is left over from an interrupted write")
    path = directory / SNAPSHOT_NAME
    try:
        taken = read_snapshot(medium, directory, cipher)
        state = Metadata() if taken is None else snapshot.decode(taken.body)
    except BorzoiError as error:
        yield _unreadable(path, error)
        return None
    if taken is not None:
        yield Progress(path, size_of(medium, path))
    if unsettled is None:
        unsettled = Unsettled(-1, [])
    return (yield from _inspect_log(medium, directory, taken, state, cipher, unsettled))


def _inspect_info(medium: Medium, directory: Path) -> Generator[Finding, None, None]:
    path = directory / INFO_NAME
    try:
        info = read_info(medium, directory)
    except StateCorrupted as error:
        yield Finding(Severity.DAMAGE, path, str(error))
        return
    if info is None:
        yield Finding(Severity.NOTE, path, "is missing; the next start writes it")
    elif info.format > DATA_FORMAT:
        yield Finding(
            Severity.WARNING, path, f"says format {info.format}, this borzoi knows {DATA_FORMAT}"
        )


def _inspect_log(
    medium: Medium,
    directory: Path,
    taken: StateSnapshot | None,
    state: Metadata,
    cipher: Cipher | None,
    unsettled: Unsettled,
) -> Generator[Finding | Progress, None, Metadata | None]:
    path = directory / STATE_LOG_NAME
    if not medium.exists(path):
        yield Finding(Severity.WARNING, path, "is missing; without it there is no metadata log")
        return state
    content = content_of(medium, path)
    included = -1 if taken is None else taken.index
    whole = True
    first: int | None = None
    try:
        for entry in read_entries(content, cipher=cipher):
            if isinstance(entry, TornTail):
                yield Finding(
                    Severity.WARNING,
                    path,
                    f"ends with {entry.length} bytes of an entry {entry.index} that is not whole"
                    f" ({entry.reason}); the next start cuts them off",
                    position=entry.position,
                )
                break
            if first is None:
                first = entry.index
                if first > included + 1:
                    yield Finding(
                        Severity.DAMAGE,
                        path,
                        f"begins with entry {first}, entry {included + 1} is needed",
                    )
            yield Progress(path, 0, entries=1)
            if entry.index > included:
                whole = (yield from _replay(path, state, entry, unsettled)) and whole
    except (EncryptionFailure, StateCorrupted) as error:
        yield _unreadable(path, error)
        return None
    yield Progress(path, len(content))
    return state if whole else None


def _unreadable(path: Path, error: BorzoiError) -> Finding:
    if isinstance(error, EncryptionFailure):
        return Finding(Severity.WARNING, path, f"cannot be looked into: {error}")
    return Finding(Severity.DAMAGE, path, str(error))


def _replay(
    path: Path, state: Metadata, entry: StateEntry, unsettled: Unsettled
) -> Generator[Finding, None, bool]:
    """Apply the entry; a command that was rejected before is rejected again, which is fine."""
    try:
        command = decode_command(entry.code, entry.command)
    except StateCorrupted as error:
        yield Finding(Severity.DAMAGE, path, f"entry {entry.index}: {error}")
        return False
    try:
        outcome = apply(state, Entry(entry.timestamp, entry.user_id, command))
        if entry.index > unsettled.settled_index:
            unsettled.effects.extend(outcome.effects)
        state.check()
    except StateCorrupted as error:
        yield Finding(Severity.DAMAGE, path, f"entry {entry.index} leads nowhere: {error}")
        return False
    except BorzoiError:
        pass
    return True
