"""Everything that a partition's directory may hold after a crash or damage."""

import asyncio
import shutil
from pathlib import Path
from random import Random

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium
from tests.support.inflated import Inflated
from tests.support.logs import ManualSyncer, append, numbered, payloads_in

from borzoi.model.errors import FeatureUnavailable, StorageFailure
from borzoi.model.limits import HEADER_BYTES
from borzoi.records.batch import verify, walk
from borzoi.records.validation import INDEX_ENTRY
from borzoi.storage import layout, recovery_point
from borzoi.storage.local import LocalMedium
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.media import Medium
from borzoi.storage.recovery_point import RecoveryPoint
from borzoi.storage.segment import Body
from borzoi.storage.settings import Acknowledge, PartitionSettings, SegmentSettings

DIRECTORY = Path("/d")
DATA = Path(__file__).parents[1] / "golden" / "data"
#: Three batches of `filled` make a segment: the third finds it full.
SMALL = SegmentSettings(size=512)


def reopen(medium: Medium, *, validate: bool = False, **options: object) -> SegmentedLog:
    settings = PartitionSettings(messages_required_to_save=1, validate_checksum=validate)
    return open_log(DIRECTORY, medium, segment=SMALL, partition=settings, **options)  # type: ignore[arg-type]


def filled(batches: int = 10) -> SimulatedDisk:
    """A log of several segments, three messages in each batch, closed in good order."""
    disk = SimulatedDisk()
    log = reopen(disk)
    for number in range(batches):
        append(log, *[b"%d.%d" % (number, each) * 20 for each in range(3)], timestamp=number)
    assert log.segments_count >= 3 or batches < 10
    log.close()
    disk.kill()
    return disk


def path_of(disk: SimulatedDisk, suffix: str, number: int) -> Path:
    """The file of segment `number`, from the end when negative."""
    names = sorted(name for name in disk.list(DIRECTORY) if name.endswith(suffix))
    return DIRECTORY / names[number]


def content(log: SegmentedLog) -> bytes:
    return log.read(0, 1 << 30).materialise()


def opened_the_same(disk: SimulatedDisk, expected: bytes) -> SegmentedLog:
    """Open twice: the second time must find nothing left to do and the same messages."""
    log = reopen(disk)
    assert log.fenced is None
    assert content(log) == expected
    disk.kill()
    again = reopen(disk)
    assert content(again) == expected
    assert again.segments() == log.segments()
    return again


@pytest.fixture
def disk() -> SimulatedDisk:
    return filled()


@pytest.fixture
def whole(disk: SimulatedDisk) -> bytes:
    found = content(reopen(disk))
    disk.kill()
    return found


def goes_on(log: SegmentedLog) -> None:
    before = content(log)
    append(log, b"and on it goes")
    assert content(log).startswith(before)
    assert payloads_in(content(log))[-1] == b"and on it goes"


@pytest.mark.parametrize(
    "tail", [b"\0", bytes(63), bytes(64), bytes(100_000), b"\xff" * 777, b"garbage " * 100]
)
def test_stray_bytes_after_the_last_message_are_cut_off(
    disk: SimulatedDisk, whole: bytes, tail: bytes
) -> None:
    file = disk.open(path_of(disk, ".log", -1))
    file.write([tail], file.size())
    goes_on(opened_the_same(disk, whole))


def test_a_torn_last_message_is_cut_off(disk: SimulatedDisk, whole: bytes) -> None:
    append(reopen(disk), b"on its way to the disk")
    disk.kill()
    file = disk.open(path_of(disk, ".log", -1))
    file.truncate(file.size() - 1)
    log = reopen(disk)
    assert content(log) == whole
    assert log.next_offset == 30
    goes_on(log)


def files_of(disk: SimulatedDisk) -> dict[str, bytes]:
    return {
        name: file.read(file.size(), 0)
        for name in disk.list(DIRECTORY)
        for file in [disk.open(DIRECTORY / name)]
    }


@pytest.mark.parametrize("level", list(Acknowledge))
@pytest.mark.parametrize("missing", [[".log"], [".log", ".index"]])
def test_a_log_that_lost_its_last_segment_is_fenced_and_left_alone(
    level: Acknowledge, missing: list[str]
) -> None:
    """The recovery point says how far it was on the disk: its offsets must not be used again."""
    disk = SimulatedDisk()
    settings = PartitionSettings(acknowledge=level)
    log = open_log(DIRECTORY, disk, segment=SMALL, partition=settings)
    for number in range(12):
        append(log, b"%d" % number * 100)
    log.close()
    disk.kill()
    # Under `synced` the point moves at a start, not with each sync.
    open_log(DIRECTORY, disk, segment=SMALL, partition=settings).close()
    disk.kill()
    for suffix in missing:
        disk.unlink(path_of(disk, suffix, -1))
    before = files_of(disk)
    log = open_log(DIRECTORY, disk, segment=SMALL, partition=settings)
    assert "lost messages that were on the disk" in str(log.fenced)
    assert "borzoi log repair" in str(log.fenced)
    with pytest.raises(StorageFailure, match="lost messages"):
        log.ensure_writable()
    assert files_of(disk) == before


@pytest.mark.parametrize("size", [0, 1, 300])
def test_a_log_whose_last_segment_lost_its_end_is_fenced(disk: SimulatedDisk, size: int) -> None:
    disk.open(path_of(disk, ".log", -1)).truncate(size)
    disk.open(path_of(disk, ".index", -1)).truncate(0)
    before = files_of(disk)
    assert "lost messages that were on the disk" in str(reopen(disk).fenced)
    assert files_of(disk) == before


def test_a_log_that_lost_every_segment_is_fenced_and_may_be_purged(disk: SimulatedDisk) -> None:
    for name in disk.list(DIRECTORY):
        if name != layout.RECOVERY_POINT:
            disk.unlink(DIRECTORY / name)
    log = reopen(disk)
    assert "lost messages that were on the disk" in str(log.fenced)
    log.purge()
    assert log.fenced is None
    goes_on(log)
    log.close()
    disk.kill()
    assert reopen(disk).fenced is None


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_missing_index_is_rebuilt(disk: SimulatedDisk, whole: bytes, number: int) -> None:
    path = path_of(disk, ".index", number)
    before = disk.open(path).read(1 << 20, 0)
    disk.unlink(path)
    goes_on(opened_the_same(disk, whole))
    assert disk.open(path).read(1 << 20, 0)[: len(before)] == before


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("left", [0, 1, 16, 33])
def test_an_index_that_is_behind_or_torn_is_extended(
    disk: SimulatedDisk, whole: bytes, number: int, left: int
) -> None:
    file = disk.open(path_of(disk, ".index", number))
    file.truncate(left)
    goes_on(opened_the_same(disk, whole))


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("tail", [b"\0" * 16, b"\0" * 7, b"\xff" * 40])
def test_an_index_that_is_ahead_loses_what_points_nowhere(
    disk: SimulatedDisk, whole: bytes, number: int, tail: bytes
) -> None:
    file = disk.open(path_of(disk, ".index", number))
    file.write([tail], file.size())
    goes_on(opened_the_same(disk, whole))


@pytest.mark.parametrize("validate", [False, True])
def test_a_damaged_sealed_segment_fences_the_partition(
    disk: SimulatedDisk, whole: bytes, validate: bool
) -> None:
    path = path_of(disk, ".log", 1)
    before = disk.open(path).size()
    disk.open(path).truncate(before - 10)
    log = reopen(disk, validate=validate)
    assert log.fenced is not None
    assert path.name in str(log.fenced)
    for call in (lambda: append(log, b"x"), lambda: log.read(0, 1), lambda: log.offset_at(0)):
        with pytest.raises(StorageFailure, match=r"damaged|missing"):
            call()
    assert disk.open(path).size() == before - 10, "damage is left as it is"
    log.purge()
    goes_on(log)


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_changed_byte_is_found_when_checksums_are_validated(
    disk: SimulatedDisk, whole: bytes, number: int
) -> None:
    file = disk.open(path_of(disk, ".log", number))
    byte = file.read(1, 70)
    file.write([bytes([byte[0] ^ 1])], 70)
    disk.kill()
    assert reopen(disk).fenced is None, "not looked for unless asked"
    disk.kill()
    assert "damaged" in str(reopen(disk, validate=True).fenced)


def test_validation_of_a_sound_log_changes_nothing(disk: SimulatedDisk, whole: bytes) -> None:
    log = reopen(disk, validate=True)
    assert content(log) == whole
    goes_on(log)


def test_a_missing_segment_fences_the_partition(disk: SimulatedDisk) -> None:
    disk.unlink(path_of(disk, ".log", 1))
    assert "are missing" in str(reopen(disk).fenced)


def test_a_missing_head_is_a_log_that_lost_its_oldest_messages(disk: SimulatedDisk) -> None:
    disk.unlink(path_of(disk, ".log", 0))
    log = reopen(disk)
    assert log.fenced is None
    assert log.first_offset > 0
    assert not disk.exists(DIRECTORY / layout.index_name(0)), "an index without its log is removed"
    goes_on(log)


def test_drafts_are_removed_and_foreign_files_left_alone(disk: SimulatedDisk, whole: bytes) -> None:
    disk.open(DIRECTORY / "00000000000000000000.log.zst.tmp", create=True)
    disk.open(DIRECTORY / "README", create=True)
    disk.open(DIRECTORY / "12.log", create=True).write([b"foreign"], 0)
    opened_the_same(disk, whole)
    names = disk.list(DIRECTORY)
    assert "README" in names
    assert "12.log" in names
    assert not any(name.endswith(".tmp") for name in names)


def test_an_empty_directory_is_an_empty_log() -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    log = reopen(disk)
    assert (log.first_offset, log.next_offset, log.segments_count) == (0, 0, 1)
    goes_on(log)


def test_a_new_segment_without_its_index_is_completed(disk: SimulatedDisk, whole: bytes) -> None:
    disk.open(DIRECTORY / layout.log_name(30), create=True)
    log = opened_the_same(disk, whole)
    assert log.segments()[-1].start_offset == 30
    goes_on(log)


def test_opening_a_closed_log_reads_no_messages(disk: SimulatedDisk) -> None:
    disk.bytes_read.clear()
    reopen(disk)
    assert disk.bytes_read.get(".log", 0) == 0
    disk.kill()
    disk.power_cut(Random(1))
    disk.bytes_read.clear()
    reopen(disk)
    assert disk.bytes_read.get(".log", 0) == 0, "closing has synced it all"


def test_opening_after_a_kill_reads_only_what_the_index_lacks() -> None:
    disk = SimulatedDisk()
    log = reopen(disk)
    for _ in range(12):
        append(log, b"x" * 100)
    log.flush()
    append(log, b"the only one", b"without an entry")
    disk.kill()
    disk.bytes_read.clear()
    assert reopen(disk).next_offset == 14
    assert disk.bytes_read[".log"] == 2 * 64 + len(b"the only onewithout an entry")


def test_after_a_power_cut_everything_behind_the_recovery_point_is_read() -> None:
    disk = SimulatedDisk()
    log = reopen(disk)
    append(log, b"synced" * 10)
    log.flush(sync=True)
    size = log.size
    append(log, b"not synced" * 10)
    log.flush()
    for name in disk.list(DIRECTORY):
        disk.open(DIRECTORY / name).fdatasync()  # the kernel did it of its own accord
    disk.fsync_directory(DIRECTORY)
    disk.power_cut(Random(1))
    disk.bytes_read.clear()
    log = reopen(disk)
    assert log.next_offset == 2
    assert disk.bytes_read[".log"] == log.size - size


def test_a_hole_in_the_index_of_a_sealed_segment_after_a_power_cut_is_filled() -> None:
    """The entries of synced messages are not synced themselves: a power cut may take any of them,
    and leave the last."""
    disk = filled()
    first, *_, last = walk(memoryview(content(reopen(disk)))).offsets().tolist()
    disk.kill()
    expected = content(reopen(disk))
    disk.kill()
    index = disk.open(path_of(disk, ".index", 0))
    assert index.size() >= 4 * INDEX_ENTRY.size
    index.write([bytes(2 * INDEX_ENTRY.size)], INDEX_ENTRY.size)
    point = RecoveryPoint(0, 0, proven_by_index=True, boot_id="the boot before the power cut")
    recovery_point.store(disk, DIRECTORY, point)
    log = reopen(disk)
    assert [
        payloads_in(log.read(number, 1).materialise()) for number in range(first, last + 1)
    ] == [[payload] for payload in payloads_in(expected)]
    opened_the_same(disk, expected)


def test_without_a_recovery_point_the_last_segment_is_read(disk: SimulatedDisk) -> None:
    """As in a directory that another server wrote."""
    disk.unlink(DIRECTORY / layout.RECOVERY_POINT)
    disk.bytes_read.clear()
    log = reopen(disk)
    assert disk.bytes_read[".log"] == log.segments()[-1].size


def test_a_power_cut_in_a_sealed_segment_that_was_not_synced_cuts_the_log(
    disk: SimulatedDisk, whole: bytes
) -> None:
    point = RecoveryPoint(0, 0, False, "another boot")
    recovery_point.store(disk, DIRECTORY, point)
    file = disk.open(path_of(disk, ".log", 1))
    file.write([bytes(100)], 200)
    log = reopen(disk)
    assert log.fenced is None
    assert whole.startswith(content(log))
    assert log.segments_count == 2
    goes_on(log)


@pytest.mark.parametrize("seed", range(60))
def test_what_recovery_cut_off_never_comes_back_behind_new_messages(seed: int) -> None:
    """The messages behind the cut have the right sizes, offsets and checksums to be taken for
    successors of the new one, if the cut itself were lost with the power."""
    disk = SimulatedDisk()
    log = open_log(DIRECTORY, disk)
    for name in (b"old 0", b"old 1", b"old 2", b"old 3"):
        append(log, name)
    log.flush(sync=True)
    disk.kill()
    file = disk.open(path_of(disk, ".log", -1))
    file.write([bytes(69)], 69)  # a hole where "old 1" was
    file.fdatasync()
    disk.unlink(DIRECTORY / layout.RECOVERY_POINT)
    disk.unlink(path_of(disk, ".index", -1))
    disk.fsync_directory(DIRECTORY)
    log = open_log(DIRECTORY, disk)
    assert payloads_in(content(log)) == [b"old 0"]
    append(log, b"new 1")
    disk.power_cut(Random(seed))
    survived = payloads_in(content(open_log(DIRECTORY, disk)))
    assert survived in ([b"old 0"], [b"old 0", b"new 1"])


@pytest.mark.parametrize("seed", range(200))
async def test_under_synced_the_index_names_nothing_that_is_not_on_the_disk(seed: int) -> None:
    """It is trusted after a power cut, so an entry ahead of its message would serve garbage."""
    disk = SimulatedDisk()
    settings = PartitionSettings(acknowledge=Acknowledge.SYNCED)
    log = open_log(DIRECTORY, disk, partition=settings, syncer=ManualSyncer())
    log.append(numbered([bytes(700), bytes(900)], base_offset=0, timestamp=1), timestamp=1)
    await asyncio.sleep(0)  # written, and the sync has not begun
    log.flush()
    disk.power_cut(Random(seed))
    log = open_log(DIRECTORY, disk, partition=settings)
    assert log.fenced is None
    assert verify(walk(memoryview(content(log)))) is None


def compressed(disk: SimulatedDisk, number: int, *, keep_plain: bool) -> None:
    path = path_of(disk, ".log", number)
    twin = disk.open(path.with_name(path.name + ".zst"), create=True)
    twin.write([disk.open(path).read(1 << 20, 0)], 0)
    if not keep_plain:
        disk.unlink(path)


def open_twin(medium: Medium, path: Path) -> Body:
    return Inflated(medium.open(path).read(1 << 20, 0))


def test_a_compressed_segment_is_read_like_a_plain_one(disk: SimulatedDisk, whole: bytes) -> None:
    compressed(disk, 1, keep_plain=False)
    log = reopen(disk, open_twin=open_twin)
    assert content(log) == whole
    reading = log.read(0, 1 << 30)
    assert len(reading.ranges) == 1, "only what lies before the inflated bytes is sent by sendfile"
    assert len(reading.tail) == log.segments_count - 1, "in order: bytes, and bytes behind them"
    assert log.read(log.segments()[-1].start_offset, 1).tail == []
    goes_on(log)


@pytest.mark.parametrize("into", [0, 1, 2])
def test_a_log_can_be_cut_inside_a_compressed_segment(
    disk: SimulatedDisk, whole: bytes, into: int
) -> None:
    compressed(disk, 1, keep_plain=False)
    log = reopen(disk, open_twin=open_twin)
    offset = log.segments()[1].start_offset + into
    expected = log.read(0, offset).materialise()
    log.truncate(offset)
    assert content(log) == expected
    goes_on(log)
    disk.kill()
    again = reopen(disk, open_twin=open_twin)
    assert again.next_offset == offset + 1
    assert content(again).startswith(expected)


def test_a_twin_beside_its_plain_segment_is_removed(disk: SimulatedDisk, whole: bytes) -> None:
    compressed(disk, 0, keep_plain=True)
    opened_the_same(disk, whole)
    assert not any(name.endswith(".zst") for name in disk.list(DIRECTORY))


def test_a_compressed_last_segment_is_followed_by_a_new_one(
    disk: SimulatedDisk, whole: bytes
) -> None:
    compressed(disk, -1, keep_plain=False)
    log = reopen(disk, open_twin=open_twin)
    assert content(log) == whole
    assert log.segments()[-1].start_offset == 30
    goes_on(log)


def test_a_twin_that_nothing_can_open_fences(disk: SimulatedDisk) -> None:
    compressed(disk, 0, keep_plain=False)
    assert "nothing here can inflate it" in str(reopen(disk).fenced)


@pytest.mark.parametrize("validate", [False, True])
@pytest.mark.parametrize("damage", ["missing", "short", "long", "of another", "none"])
def test_the_index_of_a_twin_is_made_anew_where_it_does_not_fit(
    disk: SimulatedDisk, whole: bytes, damage: str, validate: bool
) -> None:
    path = path_of(disk, ".index", 1)
    index = disk.open(path)
    before = index.read(1 << 20, 0)
    compressed(disk, 1, keep_plain=False)
    match damage:
        case "missing":
            disk.unlink(path)
        case "short":
            index.truncate(len(before) - 16)
        case "long":
            index.write([before[-16:]], len(before))
        case "of another":
            index.write([bytes(len(before))], 0)
    log = reopen(disk, open_twin=open_twin, validate=validate)
    assert content(log) == whole
    assert disk.open(path).read(1 << 20, 0) == before
    goes_on(log)


@pytest.mark.parametrize("damaged_message", [0, 1])
def test_a_damaged_twin_without_its_index_fences_and_is_left_alone(
    disk: SimulatedDisk, damaged_message: int
) -> None:
    compressed(disk, 1, keep_plain=False)
    index = path_of(disk, ".index", 1)
    position = INDEX_ENTRY.unpack(disk.open(index).read(16, 0))[1] if damaged_message else 0
    disk.unlink(index)
    twin = disk.open(path_of(disk, ".log.zst", 0))
    twin.write([b"?"], position + HEADER_BYTES)
    fenced = str(reopen(disk, open_twin=open_twin).fenced)
    assert f"damaged at byte {position} " in fenced
    assert not disk.exists(index)


def test_a_twin_without_its_index_and_without_its_library_fences(disk: SimulatedDisk) -> None:
    class Locked(Inflated):
        def part(self, position: int, length: int) -> memoryview:
            raise FeatureUnavailable("zstd needs a library")

    compressed(disk, 1, keep_plain=False)
    log = reopen(disk, open_twin=lambda medium, path: Locked(b"x" * 100))
    assert "zstd needs a library" in str(log.fenced)


def test_a_damaged_twin_is_found_when_checksums_are_validated(disk: SimulatedDisk) -> None:
    compressed(disk, 1, keep_plain=False)
    disk.open(path_of(disk, ".log.zst", 0)).write([b"?"], HEADER_BYTES)
    assert reopen(disk, open_twin=open_twin).fenced is None
    log = reopen(disk, open_twin=open_twin, validate=True)
    assert "damaged at byte 0 " in str(log.fenced)


@pytest.mark.parametrize("after", Acknowledge)
@pytest.mark.parametrize("before", Acknowledge)
def test_the_level_may_change_between_starts(before: Acknowledge, after: Acknowledge) -> None:
    disk = SimulatedDisk()
    for level in (before, after, before):
        settings = PartitionSettings(acknowledge=level)
        log = open_log(DIRECTORY, disk, segment=SMALL, partition=settings)
        for _ in range(8):
            append(log, b"y" * 90)
        log.flush(sync=True)
        expected = content(log)
        disk.power_cut(Random(3))
        assert content(reopen(disk)) == expected
        disk.kill()


GOLDEN = sorted(
    path.relative_to(DATA)
    for path in DATA.rglob("partitions/*")
    if any(each.stat().st_size for each in path.glob("*.log"))
)


@pytest.mark.parametrize("where", GOLDEN, ids=str)
@pytest.mark.parametrize("keep_indexes", [True, False])
def test_what_the_published_server_wrote_is_opened_as_it_is(
    where: Path, keep_indexes: bool, tmp_path: Path
) -> None:
    """And an index that is missing is rebuilt to the same bytes."""
    copy = tmp_path / "partition"
    shutil.copytree(DATA / where, copy)
    before = {path.name: path.read_bytes() for path in copy.glob("0*")}
    if not keep_indexes:
        for path in copy.glob("*.index"):
            path.unlink()
    settings = PartitionSettings(validate_checksum=True)
    log = open_log(copy, LocalMedium(), partition=settings)
    assert log.fenced is None
    stored = walk(memoryview(content(log)))
    assert stored.offsets().tolist() == [*range(log.first_offset, log.next_offset)]
    assert {path.name: path.read_bytes() for path in copy.glob("0*")} == before
    goes_on(log)


def test_on_a_full_disk_a_lagging_index_stays_in_memory_and_is_saved_later() -> None:
    """Messages that are there can be read, whatever the disk says about their index."""
    disk = SimulatedDisk()
    append(reopen(disk), b"one", b"two", timestamp=7)
    disk.kill()
    is_full = True

    def choose(operation: str, path: Path) -> Fault | None:
        writes = operation == "write" and path.suffix in (".index", ".tmp")
        return Fault.TORN_WRITE if is_full and writes else None

    log = reopen(FaultyMedium(disk, choose))
    assert log.fenced is None
    assert payloads_in(content(log)) == [b"one", b"two"]
    assert log.offset_at(7) == 0
    assert log.segments()[0].end_timestamp == 7
    is_full = False
    append(log, b"three")
    log.close()
    disk.kill()
    assert payloads_in(content(reopen(disk))) == [b"one", b"two", b"three"]
    assert disk.open(path_of(disk, ".index", 0)).size() == 3 * INDEX_ENTRY.size


def test_on_a_full_disk_a_log_opens_without_a_new_recovery_point(disk: SimulatedDisk) -> None:
    disk.power_cut(Random(1))

    def full(operation: str, path: Path) -> Fault | None:
        return Fault.NO_SPACE if operation == "write" else None

    whole = content(reopen(FaultyMedium(disk, full)))
    disk.kill()
    assert content(reopen(disk)) == whole


@pytest.mark.parametrize("level", list(Acknowledge))
def test_closing_a_log_that_was_only_opened_touches_nothing(level: Acknowledge) -> None:
    """A stop with thousands of idle partitions must not sync each of them."""
    disk = SimulatedDisk()
    settings = PartitionSettings(acknowledge=level)
    for _ in range(2):
        log = open_log(DIRECTORY, disk, segment=SMALL, partition=settings)
        append(log, b"kept")
        log.close()
        disk.kill()
    # Under `synced` the point is moved at a start; from the second one on it says everything.
    open_log(DIRECTORY, disk, segment=SMALL, partition=settings).close()
    disk.kill()
    watched = FaultyMedium(disk, lambda operation, path: None)
    log = open_log(DIRECTORY, watched, segment=SMALL, partition=settings)
    opened = len(watched.operations)
    content(log)
    read = len(watched.operations)
    log.flush(sync=True)
    log.close()
    assert watched.operations[read:] == []
    assert opened
    disk.kill()
    log = open_log(DIRECTORY, disk, segment=SMALL, partition=settings)
    append(log, b"one more")
    log.close()
    disk.power_cut(Random(3))
    assert payloads_in(content(open_log(DIRECTORY, disk, segment=SMALL, partition=settings))) == [
        b"kept",
        b"kept",
        b"one more",
    ]
