"""Making a damaged data directory usable again, and saying first what that costs.

A plan is a list of repairs, each with a sentence and a function; nothing happens until the
function is called. What is replaced or cut off is kept under `backup/`. The rules:

- A message that cannot be read is lost. So that no other is lost with it, it is replaced by an
  empty one with the same offset: offsets have no gaps, and everything behind it stays readable.
- Behind the last sound message of the open segment there is nothing to keep: it is cut off, as
  the server itself would do.
- An index is rebuilt from its log, always.
- A log that ends before its recovery point lost messages for which no place is left. With the point
  gone the next start accepts that, and gives their offsets to new messages.
- Metadata is never guessed: only an entry that was never completed is cut off. For anything else
  the plan says that a backup is needed.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from borzoi.model.errors import BorzoiError, EncryptionFailure, StorageFailure
from borzoi.model.limits import HEADER_BYTES, SEGMENT_BYTES_MAX
from borzoi.model.namespace import Namespace
from borzoi.model.value import Value
from borzoi.records.batch import Batch, stamp, walk
from borzoi.records.header import HEADER
from borzoi.security.encryption import Cipher
from borzoi.shard.presence import (
    NAMED_MAX,
    PRESENCE_NAME,
    Presence,
    read_presence,
    write_presence,
)
from borzoi.storage import layout, recovery_point
from borzoi.storage.index import entries_of
from borzoi.storage.media import Medium, content_of, read_exactly, size_of, write_all
from borzoi.storage.recovery import ends_before
from borzoi.storage.scanning import ReadBytes
from borzoi.storage.state_entry import TornTail, read_entries
from borzoi.storage.state_log import STATE_LOG_NAME
from borzoi.tools.findings import Finding, Progress, Severity
from borzoi.tools.inspection import inspect_root, is_data_directory, partition_directories
from borzoi.tools.partition_inspection import (
    SegmentFiles,
    inspect_segment,
    read_index,
    salvaging_reader,
    segment_files,
)
from borzoi.tools.soundness import Lost, Sound, look_through

#: More empty messages than this are not put into one gap: something else is wrong there.
BLANKS_MAX: Final = 10_000_000


class Repair(Value):
    """Something that can be done about a file; `loses` counts unreadable messages."""

    path: Path
    what: str
    carry_out: Callable[[], None]
    loses: int = 0


class _SegmentPlan(msgspec.Struct):
    """What has to become of one segment."""

    segment: SegmentFiles
    #: Bytes from here on are dropped.
    cut_at: int | None = None
    #: Empty messages to put in: where, instead of how many bytes.
    blanks: list[Lost] = msgspec.field(default_factory=list)
    #: Empty messages to add at the end, up to the next segment.
    fill: int = 0
    #: Bytes there are now.
    size: int = 0
    next_offset: int = 0

    @property
    def lost(self) -> int:
        return sum(lost.count or 0 for lost in self.blanks) + self.fill


def plan_repairs(
    medium: Medium, directory: Path, backup: Path, *, cipher: Cipher | None = None
) -> Iterator[Repair | Finding | Progress]:
    """What can be done, as repairs, and what cannot, as findings; nothing is done yet."""
    if is_data_directory(medium, directory):
        yield from _plan_metadata(medium, directory, backup / "metadata", cipher)
    for place in partition_directories(directory):
        within = place.relative_to(directory)
        yield from _plan_partition(medium, place, backup / within)


def _plan_metadata(
    medium: Medium, directory: Path, backup: Path, cipher: Cipher | None
) -> Iterator[Repair | Finding | Progress]:
    path = directory / STATE_LOG_NAME
    looking = inspect_root(medium, directory, partition_directories(directory), cipher)
    lost: list[Namespace] = []
    while True:
        try:
            found = next(looking)
        except StopIteration as end:
            _, lost = end.value
            break
        if isinstance(found, Progress):
            yield found
        elif found.path == directory / PRESENCE_NAME:
            what = "remove it: it is unreadable, and the next start writes a new one"
            yield Repair(found.path, what, partial(_move_away, medium, [found.path], backup))
        elif found.severity is Severity.DAMAGE:
            what = found.what + ". Metadata is never guessed: restore this file from a backup"
            yield Finding(found.severity, found.path, what, found.position)
    if lost:
        named = ", ".join(map(str, lost[:NAMED_MAX]))
        more = f" and {len(lost) - NAMED_MAX} more" if len(lost) > NAMED_MAX else ""
        yield Repair(
            directory / PRESENCE_NAME,
            f"accept that the messages of {len(lost)} partitions without a directory are lost:"
            f" {named}{more}. The next start makes them empty",
            partial(_accept_lost, medium, directory, lost, backup),
        )
    if not medium.exists(path):
        return
    try:
        *_, last = [None, *read_entries(content_of(medium, path), cipher=cipher)]
    except (StorageFailure, EncryptionFailure):
        return
    if isinstance(last, TornTail):
        yield Repair(
            path,
            f"cut off the last {last.length} bytes, from byte {last.position}: an entry that was"
            " never completed, so no client got an answer",
            partial(_cut_file, medium, path, last.position, backup),
        )


def _plan_partition(
    medium: Medium, place: Path, backup: Path
) -> Iterator[Repair | Finding | Progress]:
    point = recovery_point.load(medium, place)
    forget_point = partial(_move_away, medium, [place / layout.RECOVERY_POINT], backup)
    if medium.exists(place / layout.RECOVERY_POINT) and point is None:
        what = "remove it: it is unreadable, and the next start reads the last segment instead"
        yield Repair(place / layout.RECOVERY_POINT, what, forget_point)
    segments = segment_files(medium, place)
    end = 0
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        next_start = None if following is None else following.start_offset
        try:
            plan = _plan_segment(medium, segment, next_start)
        except BorzoiError as failure:
            what = f"{failure}. Nothing here can repair that: restore the file from a backup"
            yield Finding(Severity.DAMAGE, segment.messages, what)
            continue
        if not plan.lost:  # a rewritten segment has another size, and no recovery point
            end = plan.size if plan.cut_at is None else plan.cut_at
        elif following is None:
            point = None
        yield from _repairs_of(medium, segment, plan, next_start, backup)
    if point is not None and ends_before(point, segments[-1].start_offset if segments else 0, end):
        yield Repair(
            place / layout.RECOVERY_POINT,
            f"accept that messages are lost: it says that segment {point.segment_start} had"
            f" {point.position} bytes or more, and the log ends before that. Their offsets are"
            " given to new messages; consumers that have seen them continue at the end of the log",
            forget_point,
        )


def _plan_segment(medium: Medium, segment: SegmentFiles, next_start: int | None) -> _SegmentPlan:
    read, size = salvaging_reader(medium, segment)
    plan = _SegmentPlan(segment, size=size, next_offset=segment.start_offset)
    tail: list[Lost] = []
    for run in look_through(read, size, segment.start_offset, read_index(medium, segment) or b""):
        if isinstance(run, Sound):
            plan.blanks += tail
            tail = []
            plan.next_offset = run.first_offset + len(run.batch)
        else:
            tail.append(run)
    if next_start is None:
        if tail and not tail[0].is_blank:
            plan.cut_at = tail[0].position
        return plan
    known = [lost for lost in tail if lost.count is not None]
    plan.blanks += known
    plan.next_offset += sum(lost.count or 0 for lost in known)
    if len(known) < len(tail):
        plan.cut_at = tail[-1].position
    plan.fill = max(next_start - plan.next_offset, 0)
    return plan


def _repairs_of(
    medium: Medium,
    segment: SegmentFiles,
    plan: _SegmentPlan,
    next_start: int | None,
    backup: Path,
) -> Iterator[Repair | Finding | Progress]:
    if next_start is not None and plan.next_offset > next_start:
        what = f"reaches to message {plan.next_offset - 1}, the next segment begins at {next_start}"
        yield Finding(Severity.DAMAGE, segment.messages, what)
    elif plan.lost > BLANKS_MAX:
        what = f"{plan.lost} messages are missing: restore them from a backup"
        yield Finding(Severity.DAMAGE, segment.messages, what)
    elif plan.blanks or plan.fill or (segment.is_twin and plan.cut_at is not None):
        yield Repair(
            segment.messages,
            _told(plan),
            partial(_rewrite, medium, plan, backup),
            plan.lost,
        )
    elif plan.cut_at is not None:
        size = size_of(medium, segment.messages)
        yield Repair(
            segment.messages,
            f"cut off the last {size - plan.cut_at} bytes, from byte {plan.cut_at}: no message"
            " begins there",
            partial(_cut_log, medium, segment, plan.cut_at, backup),
        )
    elif _index_is_wrong(medium, segment):
        yield Repair(
            segment.index,
            "rebuild it from the messages; nothing is lost",
            partial(_rebuild_index, medium, segment, backup),
        )


def _told(plan: _SegmentPlan) -> str:
    offsets = [
        str(lost.first_offset)
        if lost.count == 1
        else f"{lost.first_offset} to {lost.first_offset + (lost.count or 0) - 1}"
        for lost in plan.blanks
    ]
    if plan.fill:
        offsets.append(f"{plan.next_offset} to {plan.next_offset + plan.fill - 1}")
    if not offsets:
        return "rewrite the segment without what follows its last message"
    shown = ", ".join(offsets[:10])
    if len(offsets) > 10:
        shown += f" and {len(offsets) - 10} more"
    return f"put an empty message in the place of each that cannot be read: {shown}"


def _index_is_wrong(medium: Medium, segment: SegmentFiles) -> bool:
    return any(
        isinstance(found, Finding)
        and found.path == segment.index
        and found.severity > Severity.NOTE
        for found in inspect_segment(medium, segment)
    )


# Carrying out. -----------------------------------------------------------------------------------


def _accept_lost(medium: Medium, directory: Path, lost: list[Namespace], backup: Path) -> None:
    presence = read_presence(medium, directory)
    if presence is None:
        presence = Presence()
    _move_away(medium, [directory / PRESENCE_NAME], backup)
    kept = tuple(one for one in presence.partitions if one not in lost)
    write_presence(medium, directory, Presence(presence.index, kept))
    medium.fsync_directory(directory)


def _cut_file(medium: Medium, path: Path, position: int, backup: Path) -> None:
    """Save the tail as a separate file, then cut it off."""
    medium.make_directory(backup)
    copy = backup / f"{path.name}.from-byte-{position}"
    with medium.open(path) as file, medium.open(copy, create=True) as kept:
        end = 0
        size = file.size()
        while position + end < size:
            piece = read_exactly(file, min(1 << 20, size - position - end), position + end)
            end = write_all(kept, [piece], end)
        kept.fdatasync()
        medium.fsync_directory(backup)
        file.truncate(position)
        file.fdatasync()


def _cut_log(medium: Medium, segment: SegmentFiles, position: int, backup: Path) -> None:
    _cut_file(medium, segment.messages, position, backup)
    if _index_is_wrong(medium, segment):
        _rebuild_index(medium, segment, backup)


def _move_away(medium: Medium, paths: list[Path], backup: Path) -> None:
    medium.make_directory(backup)
    for path in paths:
        if medium.exists(path):
            medium.rename(path, backup / path.name)
            medium.fsync_directory(backup)
            medium.fsync_directory(path.parent)


def _rebuild_index(medium: Medium, segment: SegmentFiles, backup: Path) -> None:
    read, size = salvaging_reader(medium, segment)
    draft = segment.index.with_name(segment.index.name + layout.DRAFT_SUFFIX)
    _write_draft(
        medium,
        draft,
        (
            run.entries(segment.start_offset)
            for run in look_through(read, size, segment.start_offset)
            if isinstance(run, Sound)
        ),
    )
    _move_away(medium, [segment.index], backup)
    medium.rename(draft, segment.index)
    medium.fsync_directory(segment.index.parent)


def _rewrite(medium: Medium, plan: _SegmentPlan, backup: Path) -> None:
    """Return the rebuilt segment, with empty messages for the lost ones, and its index."""
    segment = plan.segment
    read, size = salvaging_reader(medium, segment)
    index = read_index(medium, segment) or b""
    log_path = segment.index.with_name(layout.log_name(segment.start_offset))
    drafts = [path.with_name(path.name + layout.DRAFT_SUFFIX) for path in (log_path, segment.index)]
    _write_draft(
        medium, drafts[0], (batch.messages for _, _, batch in _renewed(plan, read, size, index))
    )
    _write_draft(
        medium,
        drafts[1],
        (
            entries_of(batch, relative_offset=number, position=position)
            for number, position, batch in _renewed(plan, read, size, index)
        ),
    )
    # The old index goes first: without one the next start rebuilds it, a wrong one would mislead.
    _move_away(medium, [segment.index, segment.messages], backup)
    # What it says about bytes is about the old ones.
    _move_away(medium, [segment.index.with_name(layout.RECOVERY_POINT)], backup)
    medium.rename(drafts[0], log_path)
    medium.rename(drafts[1], segment.index)
    medium.fsync_directory(log_path.parent)


def _renewed(
    plan: _SegmentPlan, read: ReadBytes, size: int, index: bytes
) -> Iterator[tuple[int, int, Batch]]:
    """The batches of the new segment: number of the first message, position, messages."""
    start_offset = plan.segment.start_offset
    number = position = timestamp = 0
    end = size if plan.cut_at is None else plan.cut_at
    for run in look_through(read, size, start_offset, index):
        if run.position >= end:
            break
        if isinstance(run, Sound):
            batch = run.batch
            timestamp = int(batch.timestamps()[-1])
        else:
            batch = _blanks(start_offset + number, run.count or 0, timestamp)
        yield number, position, batch
        number += len(batch)
        position += batch.size
    if plan.fill:
        batch = _blanks(start_offset + number, plan.fill, timestamp)
        if position + batch.size > SEGMENT_BYTES_MAX:
            raise StorageFailure(f"{plan.segment.messages} would become too long")
        yield number, position, batch


def _blanks(first_offset: int, count: int, timestamp: int) -> Batch:
    """Messages without a payload. They have no id, and the time of the message before them."""
    batch = walk(memoryview(bytearray(HEADER.pack(0, bytes(16), 0, 0, 0, 0, 0, 0) * count)))
    assert batch.size == count * HEADER_BYTES
    if count:
        stamp(
            batch,
            base_offset=first_offset,
            timestamp=timestamp,
            new_ids=lambda wanted: bytes(16 * wanted),
        )
    return batch


def _write_draft(medium: Medium, path: Path, pieces: Iterator[bytes | memoryview]) -> None:
    with medium.open(path, create=True) as file:
        file.truncate(0)
        end = 0
        for piece in pieces:
            end = write_all(file, [piece], end)
        file.fdatasync()
