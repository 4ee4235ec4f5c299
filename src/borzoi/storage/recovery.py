"""Recovery after a crash: validates the files, and repairs what it may.

The rules, for each segment in the order of offsets:

- The index is valid as far as its entries are consecutive and inside the log. A sealed segment
  whose index ends exactly with its log is taken as it is; not a byte of its log is read. After a
  power cut that holds only for segments before the recovery point: the index of a later one may
  have holes, so all of its entries are checked.
- What the index does not cover, or may cover although it never reached the disk (see
  `recovery_point.py`), is read message by message. Sound messages get their entries.
- What follows the last sound message of the last segment is cut off: a torn write, zeros, garbage.
- The same in a sealed segment is damage: the partition is fenced and nothing is changed. The one
  exception is a power cut before that segment was synced: nothing after the hole was acknowledged
  as durable then, so the log is cut there, with all later segments.
- A compressed segment is inflated only if its index does not match, to rebuild the index.
- A log that ends before its recovery point lost messages that were on the disk. It is fenced and
  left unchanged: continuing from there would reuse their offsets.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from borzoi.model.errors import DiskFull, FeatureUnavailable, StorageFailure
from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.model.value import Value
from borzoi.records.validation import INDEX_DTYPE, INDEX_ENTRY
from borzoi.storage import layout
from borzoi.storage.index import entries_of, valid_prefix
from borzoi.storage.media import File, Medium, content_of, read_exactly, replace_file, write_all
from borzoi.storage.recovery_point import RecoveryPoint
from borzoi.storage.scanning import ReadBytes, sound_batches
from borzoi.storage.segment import Body

OpenTwin: TypeAlias = Callable[[Medium, Path], Body]

#: Index entries checked at once (16 MiB).
CHECKED_ENTRIES: Final = 1 << 20


class Found(Value):
    """A segment that holds: its log has `size` bytes, and its index file exactly `count` entries
    less those that a full disk did not take."""

    start_offset: int
    count: int
    size: int
    start_timestamp: int
    end_timestamp: int
    body: Body | None
    #: Entries that belong at the end of the index file.
    unsaved: bytes = b""

    @property
    def next_offset(self) -> int:
        return self.start_offset + self.count


class RecoveredSegments(msgspec.Struct):
    segments: list[Found] = msgspec.field(default_factory=list)
    #: One sentence for each thing that was repaired.
    repairs: list[str] = msgspec.field(default_factory=list)


class Inspection(Value):
    """The inputs of the rules."""

    medium: Medium
    directory: Path
    point: RecoveryPoint | None
    validate_checksum: bool = False
    open_twin: OpenTwin | None = None
    #: The index must only ever name messages that are on the disk.
    sync_before_indexing: bool = False

    @property
    def power_was_cut(self) -> bool:
        return self.point is not None and self.point.boot_id != self.medium.boot_id

    def may_be_cut(self, start_offset: int) -> bool:
        """Whether a power cut may have taken unacknowledged bytes of this segment."""
        return (
            self.point is not None
            and self.power_was_cut
            and start_offset >= self.point.segment_start
        )

    def trusted_bytes(self, start_offset: int, *, is_last: bool) -> int | None:
        """Return how far the index is trusted without reading the log; None means all of it."""
        if self.point is None:
            return 0 if is_last else None
        if self.may_be_cut(start_offset) and not self.point.proven_by_index:
            return self.point.position if start_offset == self.point.segment_start else 0
        return None


class _Scanned(NamedTuple):
    """Sound messages: their index entries, their number, and where they end."""

    entries: list[bytes]
    messages: int
    end: int


def recover(inspection: Inspection, names: Sequence[str] | None = None) -> RecoveredSegments:
    """Repair what may be repaired; raises `StorageFailure` for damage that needs an operator.

    `names` are those in the directory, for a caller that knows them.
    """
    medium, directory = inspection.medium, inspection.directory
    recovered = RecoveredSegments()
    if names is None:
        names = medium.list(directory)
    logs, twins = _segments_among(names)
    starts = sorted(logs | twins.keys())
    _refuse_missing_end(inspection, starts[-1] if starts else 0, None if starts else 0)
    _sweep(medium, directory, names, logs, recovered)
    for number, start in enumerate(starts):
        is_last = number == len(starts) - 1
        if recovered.segments and start != recovered.segments[-1].next_offset:
            if inspection.may_be_cut(recovered.segments[-1].start_offset):
                _drop(inspection, starts[number:], recovered)
                break
            raise StorageFailure(
                f"{directory}: the messages from {recovered.segments[-1].next_offset} to"
                f" {start - 1} are missing"
            )
        if start in twins and start not in logs:
            recovered.segments.append(_open_twin(inspection, start, twins[start], recovered))
        else:
            recovered.segments.append(_recover_segment(inspection, start, is_last, recovered))
    return recovered


def _segments_among(names: Sequence[str]) -> tuple[set[int], dict[int, str]]:
    """Where plain segments begin, and compressed ones without a plain one, with their suffix."""
    logs = {
        start
        for name in names
        if (start := layout.start_offset_of(name, layout.LOG_SUFFIX)) is not None
    }
    twins = {
        start: suffix
        for name in names
        if name.endswith(layout.TWIN_SUFFIXES)
        for suffix in layout.TWIN_SUFFIXES
        if (start := layout.start_offset_of(name, layout.LOG_SUFFIX + suffix)) is not None
        and start not in logs
    }
    return logs, twins


def _refuse_missing_end(inspection: Inspection, start: int, end: int | None) -> None:
    """Raise when a log whose last segment begins at `start`, and ends with byte `end` if that is
    known, does not reach its recovery point."""
    point = inspection.point
    if point is None or not ends_before(point, start, end):
        return
    raise StorageFailure(
        f"{inspection.directory} lost messages that were on the disk: segment"
        f" {point.segment_start} had {point.position} bytes or more, and the log ends "
        + (f"in segment {start}" if start < point.segment_start else f"with byte {end} of it")
        + "; restore the files, or accept the loss with `borzoi log repair`"
    )


def ends_before(point: RecoveryPoint, start: int, end: int | None) -> bool:
    """Whether a log that ends with byte `end` of segment `start` ends before its recovery point;
    where `end` is not known, whether it does in any case."""
    if start != point.segment_start:
        return start < point.segment_start
    return end is not None and end < point.position


def _sweep(
    medium: Medium,
    directory: Path,
    names: Sequence[str],
    logs: set[int],
    recovered: RecoveredSegments,
) -> None:
    """Remove drafts, and indexes and twins that nothing needs."""
    twins: set[int] = set()
    for name in names:
        if name.endswith(layout.DRAFT_SUFFIX):
            medium.unlink(directory / name)
        if not name.endswith(layout.TWIN_SUFFIXES):
            continue  # nearly all of them
        for suffix in layout.TWIN_SUFFIXES:
            start = layout.start_offset_of(name, layout.LOG_SUFFIX + suffix)
            if start in logs:
                # The compressed twin was finished but the plain log not yet removed. The plain
                # one is the one every rule here can check.
                medium.unlink(directory / name)
                recovered.repairs.append(f"removed {name}, its plain segment is still there")
            elif start is not None:
                twins.add(start)
    for name in names:
        start = layout.start_offset_of(name, layout.INDEX_SUFFIX)
        if start is not None and start not in logs and start not in twins:
            medium.unlink(directory / name)
            recovered.repairs.append(f"removed {name}, it has no segment")


def _drop(inspection: Inspection, starts: list[int], recovered: RecoveredSegments) -> None:
    """Remove segments behind a cut, the last first, so that a crash leaves no gap."""
    medium, directory = inspection.medium, inspection.directory
    for start in reversed(starts):
        for name in [*(layout.twin_name(start, suffix) for suffix in layout.TWIN_SUFFIXES),
                     layout.log_name(start), layout.index_name(start)]:  # fmt: skip
            medium.unlink(directory / name)
        medium.fsync_directory(directory)
        recovered.repairs.append(f"removed segment {start} behind a cut, a power cut took it")


def _open_twin(
    inspection: Inspection, start: int, suffix: str, recovered: RecoveredSegments
) -> Found:
    path = inspection.directory / layout.twin_name(start, suffix)
    if inspection.open_twin is None:
        raise StorageFailure(f"{path} is compressed and nothing here can inflate it")
    body = inspection.open_twin(inspection.medium, path)
    try:
        return _recover_twin(inspection, start, path, body, recovered)
    except BaseException:
        body.close()
        raise


def _recover_twin(
    inspection: Inspection, start: int, path: Path, body: Body, recovered: RecoveredSegments
) -> Found:
    medium, index_path = inspection.medium, inspection.directory / layout.index_name(start)
    if medium.exists(index_path) and not inspection.validate_checksum:
        with medium.open(index_path, writable=False) as index:
            count = _valid_entries(index, body.size)
            if count * INDEX_ENTRY_BYTES == index.size() and _end_of(index, count) == body.size:
                return _found(start, index, count, body.size, body)
    try:
        scanned = _scan(_reader_of(body), 0, body.size, start)
    except FeatureUnavailable as missing:
        raise StorageFailure(f"{path} cannot be read to rebuild its index: {missing}") from missing
    if scanned.end != body.size:
        raise StorageFailure(
            f"{path} is damaged at byte {scanned.end} of what it inflates to,"
            f" message {start + scanned.messages}"
        )
    _keep_index_of_twin(inspection, index_path, scanned, recovered)
    with medium.open(index_path, writable=False) as index:
        return _found(start, index, scanned.messages, body.size, body)


def _keep_index_of_twin(
    inspection: Inspection, path: Path, scanned: _Scanned, recovered: RecoveredSegments
) -> None:
    """Ensure that the index matches the messages; written only if it differs."""
    medium, wanted = inspection.medium, b"".join(scanned.entries)
    if medium.exists(path) and content_of(medium, path) == wanted:
        return
    replace_file(medium, path, wanted)
    recovered.repairs.append(
        f"rebuilt {path} from its compressed segment: {scanned.messages} entries"
    )


def _reader_of(body: Body) -> ReadBytes:
    def read(length: int, position: int) -> memoryview:
        part = body.part(position, length)
        assert isinstance(part, memoryview), "a compressed segment inflates"
        return part

    return read


def _scan(read: ReadBytes, position: int, size: int, start: int, *, kept: int = 0) -> _Scanned:
    """Read the messages from byte `position`, number `kept` of the segment, as far as sound."""
    entries = []
    count, end = kept, position
    for batch in sound_batches(read, position, size, start + kept):
        entries.append(entries_of(batch, relative_offset=count, position=end))
        count += len(batch)
        end += batch.size
    return _Scanned(entries, count, end)


def _recover_segment(
    inspection: Inspection, start: int, is_last: bool, recovered: RecoveredSegments
) -> Found:
    medium, directory = inspection.medium, inspection.directory
    with (
        medium.open(directory / layout.log_name(start)) as log,
        medium.open(directory / layout.index_name(start), create=True) as index,
    ):
        return _recover_files(inspection, start, is_last, recovered, log, index)


def _recover_files(
    inspection: Inspection,
    start: int,
    is_last: bool,
    recovered: RecoveredSegments,
    log: File,
    index: File,
) -> Found:
    size = log.size()
    trusted = inspection.trusted_bytes(start, is_last=is_last)
    validate = inspection.validate_checksum
    if not (is_last or validate or inspection.may_be_cut(start)) and trusted is None:
        whole = _whole_index(index, size)
        if whole is not None:
            return _found(start, index, whole, size, None)
    indexed = _valid_entries(index, size)
    promised = indexed if trusted is None else _entries_within(index, indexed, trusted)
    kept = 0 if validate else promised
    added, count, end = _scan(log.read, _end_of(index, kept), size, start, kept=kept)
    if end < size and not (is_last or inspection.may_be_cut(start)):
        raise StorageFailure(
            f"{log.path} is damaged at byte {end}, message {start + count}: the segment is sealed,"
            " so it is left unchanged"
        )
    if count < promised:
        raise StorageFailure(f"{log.path} is damaged at byte {end}, message {start + count}")
    if inspection.point is not None and start == inspection.point.segment_start:
        _refuse_missing_end(inspection, start, end)
    _repair_log(log, end, size, recovered)
    if added and inspection.sync_before_indexing:
        log.fdatasync()
    entries = b"".join(added)
    try:
        _repair_index(index, kept, entries, recovered)
    except DiskFull as failure:
        if not (is_last and entries):
            raise
        # The messages are there, and the index of the open segment may lag.
        index.truncate(kept * INDEX_ENTRY_BYTES)
        recovered.repairs.append(f"left {count - kept} entries out of {index.path}: {failure}")
        first = entries if not kept else read_exactly(index, INDEX_ENTRY_BYTES, 0)
        _, _, began = INDEX_ENTRY.unpack_from(first)
        _, _, ended = INDEX_ENTRY.unpack_from(entries, len(entries) - INDEX_ENTRY_BYTES)
        return Found(start, count, end, began, ended, None, entries)
    return _found(start, index, count, end, None)


def _whole_index(index: File, size: int) -> int | None:
    """How many entries an index has that ends exactly where its log does; from its ends alone."""
    count, rest = divmod(index.size(), INDEX_ENTRY_BYTES)
    if rest or not count:
        return 0 if not (rest or count or size) else None
    number, end, _ = INDEX_ENTRY.unpack(
        read_exactly(index, INDEX_ENTRY_BYTES, (count - 1) * INDEX_ENTRY_BYTES)
    )
    return count if number == count - 1 and end == size else None


def _valid_entries(index: File, limit: int) -> int:
    """How many entries from the start follow each other and lie inside the log."""
    total = index.size() // INDEX_ENTRY_BYTES
    count = position = 0
    while count < total:
        wanted = min(CHECKED_ENTRIES, total - count) * INDEX_ENTRY_BYTES
        entries = np.frombuffer(read_exactly(index, wanted, count * INDEX_ENTRY_BYTES), INDEX_DTYPE)
        valid = valid_prefix(entries, first=count, position=position, limit=limit)
        count += valid
        if valid < len(entries):
            break
        position = int(entries["position"][-1])
    return count


def _entries_within(index: File, count: int, trusted: int) -> int:
    """How many of the first `count` entries end at or before byte `trusted` of the log."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if _end_of(index, middle + 1) <= trusted:
            low = middle + 1
        else:
            high = middle
    return low


def _end_of(index: File, count: int) -> int:
    """Where the first `count` messages end in the log."""
    return _entry(index, count - 1)[1] if count else 0


def _entry(index: File, number: int) -> tuple[int, int, int]:
    return INDEX_ENTRY.unpack(read_exactly(index, INDEX_ENTRY_BYTES, number * INDEX_ENTRY_BYTES))


def _repair_log(log: File, end: int, size: int, recovered: RecoveredSegments) -> None:
    if end == size:
        return
    log.truncate(end)
    # Synced, or the bytes cut off here could come back behind the messages appended next, and
    # with the right offsets.
    log.fdatasync()
    recovered.repairs.append(f"cut {size - end} bytes after byte {end} of {log.path}")


def _repair_index(index: File, kept: int, added: bytes, recovered: RecoveredSegments) -> None:
    """Leave the kept entries and the added ones, and nothing else."""
    wanted = kept * INDEX_ENTRY_BYTES + len(added)
    size = index.size()
    if size == wanted and index.read(len(added), kept * INDEX_ENTRY_BYTES) == added:
        return
    if size > kept * INDEX_ENTRY_BYTES:
        index.truncate(kept * INDEX_ENTRY_BYTES)
        index.fdatasync()  # for the same reason as in the log
    write_all(index, [added], kept * INDEX_ENTRY_BYTES)
    recovered.repairs.append(
        f"rebuilt {index.path} from entry {kept}: {wanted // INDEX_ENTRY_BYTES} entries"
    )


def _found(start: int, index: File, count: int, size: int, body: Body | None) -> Found:
    if not count:
        return Found(start, 0, size, 0, 0, body)
    return Found(start, count, size, _entry(index, 0)[2], _entry(index, count - 1)[2], body)
