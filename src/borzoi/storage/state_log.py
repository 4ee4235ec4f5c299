"""The metadata log: every change of streams, topics, partitions, groups, users and tokens.

`state.messages` in the root of the data directory holds the entries of `state_entry.py` back to
back; `state.snapshot` holds the state after the entries before them. An entry is in the file
before it takes effect, so after a crash the log says what happened.

What a crash can leave behind, and what opening does about it:

    an incomplete last entry         cut off, with a warning: it was not acknowledged
    a snapshot, and the whole log    the entries that the snapshot includes are skipped
    `*.tmp`                          removed
    damage followed by an entry      not caused by a crash; rejected, and the place is named
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from borzoi.model.errors import CannotSync, InvalidConfiguration, StateCorrupted, StorageFailure
from borzoi.model.value import Value
from borzoi.security.encryption import Cipher
from borzoi.storage.layout import DRAFT_SUFFIX
from borzoi.storage.media import File, Medium, replace_file, write_all
from borzoi.storage.state_entry import (
    COMMAND_BYTES_MAX,
    StateEntry,
    TornTail,
    encode_entry,
    read_entries,
)
from borzoi.storage.state_snapshot import (
    SNAPSHOT_NAME,
    StateSnapshot,
    read_snapshot,
    write_snapshot,
)

logger = logging.getLogger(__name__)

STATE_LOG_NAME: Final = "state.messages"
#: Space reserved after the last entry: on a full disk it allows thousands of deletions, which are
#: logged before they free anything.
RESERVED_BYTES: Final = 256 << 10


class StateSettings(Value):
    #: Sync each entry before it is applied, so that it survives a power cut.
    enforce_fsync: bool = False
    #: Take a snapshot after this many entries or bytes, whichever comes first.
    snapshot_entries: int = 10_000
    snapshot_bytes: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        if self.snapshot_entries < 1 or self.snapshot_bytes < 1:
            raise InvalidConfiguration("a metadata snapshot is taken after at least one entry")


DEFAULT_STATE: Final = StateSettings()


class RecoveredState(Value):
    """What the log held when it was opened: first the snapshot, then the entries after it."""

    snapshot: StateSnapshot | None = None
    entries: list[StateEntry] = msgspec.field(default_factory=list)


class StateLog:
    """The open log; one process writes to it, and one call at a time."""

    def __init__(
        self,
        medium: Medium,
        directory: Path,
        settings: StateSettings,
        cipher: Cipher | None,
        *,
        size: int,
        next_index: int,
        last_term: int,
        entries_since_snapshot: int,
    ) -> None:
        self.directory = directory
        self.next_index = next_index
        self.entries_since_snapshot = entries_since_snapshot
        self.size = size
        self._medium = medium
        self._settings = settings
        self._cipher = cipher
        self._last_term = last_term
        self._file: File = medium.open(directory / STATE_LOG_NAME, create=True)
        #: Why appends are rejected, once file and memory may differ.
        self._broken: str | None = None
        self._reserved = 0
        self._reserve()

    def append(
        self, *, timestamp: int, user_id: int, code: int, command: bytes, term: int = 0
    ) -> StateEntry:
        """Makes the command the next entry; when this returns it is as safe as configured.

        When it raises, the command must not be applied: the entry is not in the log.
        """
        self._refuse_when_broken()
        assert len(command) < COMMAND_BYTES_MAX, "a command is a control request, and bounded"
        entry = StateEntry(self.next_index, term, timestamp, user_id, code, command)
        try:
            end = write_all(self._file, [encode_entry(entry, self._cipher)], self.size)
            if self._settings.enforce_fsync:
                self._file.fdatasync()
        except CannotSync as error:
            # After a failed sync the kernel forgets which pages it could not write, so a second
            # sync would claim success. Only reading the log again shows what is there.
            self._broken = str(error)
            self._cut_back()
            raise
        except StorageFailure:
            self._cut_back()
            raise
        self.size = end
        if end > self._reserved - RESERVED_BYTES // 2:
            self._reserve()
        self.next_index += 1
        self._last_term = term
        self.entries_since_snapshot += 1
        return entry

    def sync(self) -> None:
        """Returns when everything appended so far survives a power cut."""
        self._refuse_when_broken()
        try:
            self._file.fdatasync()
        except CannotSync as error:
            self._broken = str(error)
            raise

    @property
    def wants_snapshot(self) -> bool:
        """Whether enough was appended since the last snapshot to take another one."""
        return (
            self.entries_since_snapshot >= self._settings.snapshot_entries
            or self.size >= self._settings.snapshot_bytes
        )

    def take_snapshot(self, body: bytes, *, timestamp: int) -> None:
        """Store the state after all entries so far, and drop them.

        A crash before the rename of the snapshot leaves the log as it was; one before the rename
        of the empty log leaves entries that opening skips.
        """
        # Sync first: the log next to the snapshot must not be damaged.
        self.sync()
        snapshot = StateSnapshot(self.next_index - 1, self._last_term, timestamp, body)
        write_snapshot(self._medium, self.directory, snapshot, self._cipher)
        self._start_afresh()

    def close(self) -> None:
        """Syncs, whatever the setting: the end of an orderly run should survive anything."""
        try:
            if self._broken is None:
                self.sync()
                self._broken = "it is closed"
        finally:
            self._file.close()

    def _start_afresh(self) -> None:
        path = self.directory / STATE_LOG_NAME
        replace_file(self._medium, path, b"")
        self._medium.fsync_directory(self.directory)
        self._file.close()
        self._file = self._medium.open(path)
        self.size = 0
        self._reserve()
        self.entries_since_snapshot = 0

    def _reserve(self) -> None:
        """Have the disk set space aside for the next entries, if it has some."""
        self._reserved = self.size + RESERVED_BYTES
        self._file.reserve(self.size, RESERVED_BYTES)

    def _cut_back(self) -> None:
        """Removes what a failed append may have left, so that the next entry does not follow it."""
        try:
            self._file.truncate(self.size)
        except StorageFailure as error:
            self._broken = str(error)

    def _refuse_when_broken(self) -> None:
        if self._broken is not None:
            raise StorageFailure(
                f"the metadata log accepts no more entries until the server restarts:"
                f" {self._broken}"
            )


def open_state_log(
    medium: Medium,
    directory: Path,
    settings: StateSettings = DEFAULT_STATE,
    *,
    cipher: Cipher | None = None,
) -> tuple[StateLog, RecoveredState]:
    """Reads the log of a data directory and makes it ready for appending.

    `StateCorrupted` names the entry and the byte when the log is damaged in a way no crash
    explains; nothing is changed on the disk then.
    """
    changed = [directory, *medium.make_directory(directory)]
    snapshot = read_snapshot(medium, directory, cipher)
    with medium.open(directory / STATE_LOG_NAME, create=True) as file:
        return _read_state_log(medium, directory, settings, cipher, snapshot, file, changed)


def _read_state_log(
    medium: Medium,
    directory: Path,
    settings: StateSettings,
    cipher: Cipher | None,
    snapshot: StateSnapshot | None,
    file: File,
    changed: Sequence[Path],
) -> tuple[StateLog, RecoveredState]:
    # Without its name on the disk, an entry that was synced would be lost all the same. Always,
    # because the run that created the file may have been killed before it came to this.
    for place in changed:
        medium.fsync_directory(place)
    content = file.read(file.size(), 0)
    found = list(read_entries(content, cipher=cipher))
    entries = [entry for entry in found if isinstance(entry, StateEntry)]
    included = -1 if snapshot is None else snapshot.index
    if entries and entries[0].index > included + 1:
        raise StateCorrupted(
            f"the metadata log begins with entry {entries[0].index} and "
            + ("there is no snapshot" if snapshot is None else f"the snapshot ends with {included}")
            + ": the entries before it are missing"
        )
    size = len(content)
    if found and isinstance(found[-1], TornTail):
        size = _cut_torn_tail(file, found[-1])
    for name in (STATE_LOG_NAME, SNAPSHOT_NAME):
        medium.unlink(directory / (name + DRAFT_SUFFIX))
    new = [entry for entry in entries if entry.index > included]
    log = StateLog(
        medium,
        directory,
        settings,
        cipher,
        size=size,
        next_index=new[-1].index + 1 if new else included + 1,
        last_term=new[-1].term if new else 0 if snapshot is None else snapshot.term,
        entries_since_snapshot=len(new),
    )
    if entries and not new:
        # A crash came between the snapshot and dropping what it includes.
        log._start_afresh()
    return log, RecoveredState(snapshot, new)


def _cut_torn_tail(file: File, tail: TornTail) -> int:
    logger.warning(
        "%s ends with %d bytes of an entry %d that was never completed (%s); cut at byte %d",
        file.path,
        tail.length,
        tail.index,
        tail.reason,
        tail.position,
    )
    file.truncate(tail.position)
    file.fdatasync()
    return tail.position
