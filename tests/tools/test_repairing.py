import random

import pytest

from borzoi.model.topics import Compression
from borzoi.records.batch import stamp, walk
from borzoi.records.compression import compress_frames, cut
from borzoi.records.header import HEADER
from borzoi.storage import layout, recovery_point
from borzoi.storage.compressed import TwinOpener
from borzoi.storage.index import entries_of
from borzoi.storage.info import open_info
from borzoi.storage.local import LocalMedium
from borzoi.storage.log import open_log
from borzoi.storage.state_log import open_state_log
from borzoi.tools.findings import Finding, Severity
from borzoi.tools.inspection import verify
from borzoi.tools.repairing import Repair, plan_repairs

MEDIUM = LocalMedium()
SIZE = 164


def write_segment(directory, start: int, count: int) -> bytes:
    draws = random.Random(start)
    messages = bytearray()
    for _ in range(count):
        messages += HEADER.pack(0, draws.randbytes(16), 0, 0, 9, 0, 100, 0) + draws.randbytes(100)
    batch = walk(memoryview(messages))
    stamp(batch, base_offset=start, timestamp=1000 + start, new_ids=bytes)
    (directory / layout.log_name(start)).write_bytes(messages)
    (directory / layout.index_name(start)).write_bytes(
        entries_of(batch, relative_offset=0, position=0)
    )
    return bytes(messages)


@pytest.fixture
def partition(tmp_path):
    """Two sealed segments and an open one: 0..9, 10..19, 20..24."""
    place = tmp_path / "partition"
    place.mkdir()
    for start, count in ((0, 10), (10, 10), (20, 5)):
        write_segment(place, start, count)
    return place


def planned(place) -> tuple[list[Repair], list[Finding]]:
    found = list(plan_repairs(MEDIUM, place, place.parent / "backup"))
    repairs = [each for each in found if isinstance(each, Repair)]
    return repairs, [each for each in found if isinstance(each, Finding)]


def repaired(place) -> list[Repair]:
    repairs, hopeless = planned(place)
    assert hopeless == []
    for repair in repairs:
        repair.carry_out()
    return repairs


def worst(place) -> Severity:
    found = [f for f in verify(MEDIUM, place) if isinstance(f, Finding)]
    return max((f.severity for f in found), default=Severity.NOTE)


def stored(place) -> dict[int, bytes]:
    """Payloads by offset, as the server would give them."""
    log = open_log(place, MEDIUM, open_twin=TwinOpener())
    assert log.fenced is None
    messages = memoryview(log.read(0, 1000).materialise())
    batch = walk(messages)
    payloads = [bytes(messages[start + 64 : end]) for start, end in batch.bounds()]
    log.close()
    return dict(zip(batch.offsets().tolist(), payloads, strict=True))


def flip(path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def files(place) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in place.rglob("*") if p.is_file()}


def test_a_sound_partition_needs_no_repair(partition):
    assert planned(partition) == ([], [])


def test_planning_changes_nothing(partition):
    flip(partition / layout.log_name(10), 3 * SIZE + 100)
    (partition / layout.index_name(0)).unlink()
    before = files(partition)
    repairs, _ = planned(partition)
    assert len(repairs) == 2
    assert files(partition) == before


@pytest.mark.parametrize("start", [0, 10, 20])
@pytest.mark.parametrize("at", [0, 30, 52, 100])
def test_a_damaged_message_becomes_an_empty_one_and_every_other_stays(partition, start, at):
    before = stored(partition)
    flip(partition / layout.log_name(start), SIZE + at)
    (repair,) = repaired(partition)
    assert repair.loses == 1
    assert str(start + 1) in repair.what
    assert worst(partition) is Severity.NOTE
    assert stored(partition) == before | {start + 1: b""}
    kept = partition.parent / "backup" / layout.log_name(start)
    assert len(kept.read_bytes()) > 0


def test_a_damaged_message_keeps_its_neighbours_without_an_index_too(partition):
    before = stored(partition)
    flip(partition / layout.log_name(0), 3 * SIZE + 53)
    (partition / layout.index_name(0)).unlink()
    repaired(partition)
    assert stored(partition) == before | {3: b""}


def test_an_empty_message_has_the_time_of_the_one_before(partition):
    flip(partition / layout.log_name(10), 5 * SIZE + 100)
    repaired(partition)
    log = open_log(partition, MEDIUM)
    batch = walk(memoryview(log.read(10, 10).materialise()))
    assert set(batch.timestamps().tolist()) == {1010}


def test_a_torn_tail_is_cut_and_kept_aside(partition):
    before = stored(partition)
    path = partition / layout.log_name(20)
    with path.open("ab") as file:
        file.write(b"half a message")
    (repair,) = repaired(partition)
    assert "cut off the last 14 bytes, from byte 820" in repair.what
    assert repair.loses == 0
    assert stored(partition) == before
    backup = partition.parent / "backup" / f"{layout.log_name(20)}.from-byte-820"
    assert backup.read_bytes() == b"half a message"


def test_a_damaged_last_message_is_cut_with_its_index_entry(partition):
    before = stored(partition)
    flip(partition / layout.log_name(20), 4 * SIZE + 80)
    cut, accepted = repaired(partition)
    assert "cut off" in cut.what
    assert "accept that messages are lost" in accepted.what
    assert worst(partition) is Severity.NOTE
    assert stored(partition) == {offset: before[offset] for offset in range(24)}


def test_the_loss_of_the_last_segment_is_found_and_can_be_accepted(partition):
    before = stored(partition)
    for name in (layout.log_name(20), layout.index_name(20)):
        (partition / name).unlink()
    assert worst(partition) is Severity.DAMAGE
    assert open_log(partition, MEDIUM).fenced is not None
    (accepted,) = repaired(partition)
    assert "Their offsets are given to new messages" in accepted.what
    assert worst(partition) is Severity.NOTE
    assert stored(partition) == {offset: before[offset] for offset in range(20)}


def test_zeros_taken_ahead_are_left_alone(partition):
    path = partition / layout.log_name(20)
    with path.open("ab") as file:
        file.write(bytes(1000))
    assert planned(partition) == ([], [])


def test_an_end_of_a_sealed_segment_that_cannot_be_read_is_filled_up_to_the_next(partition):
    before = stored(partition)
    path = partition / layout.log_name(10)
    content = path.read_bytes()
    path.write_bytes(content[: 6 * SIZE] + random.Random(1).randbytes(50))
    (partition / layout.index_name(10)).unlink()
    (repair,) = repaired(partition)
    assert repair.loses == 4
    assert "16 to 19" in repair.what
    assert stored(partition) == before | dict.fromkeys(range(16, 20), b"")


def test_stray_bytes_behind_a_sealed_segment_are_cut(partition):
    before = stored(partition)
    with (partition / layout.log_name(0)).open("ab") as file:
        file.write(random.Random(1).randbytes(70))
    (repair,) = repaired(partition)
    assert repair.loses == 0
    assert worst(partition) is Severity.NOTE
    assert stored(partition) == before


def test_a_missing_segment_is_replaced_by_empty_messages(partition):
    before = stored(partition)
    (partition / layout.log_name(10)).unlink()
    (partition / layout.index_name(10)).unlink()
    (repair,) = repaired(partition)
    assert repair.loses == 10
    assert stored(partition) == before | dict.fromkeys(range(10, 20), b"")


def test_a_gap_too_wide_for_empty_messages_needs_a_backup(partition):
    write_segment(partition, 10**9, 1)
    _, hopeless = planned(partition)
    assert "messages are missing: restore them" in hopeless[0].what


def test_segments_that_overlap_are_left_to_their_owner(partition):
    write_segment(partition, 15, 5)
    _, hopeless = planned(partition)
    assert "reaches to message 19, the next segment begins at 15" in hopeless[0].what


@pytest.mark.parametrize("start", [0, 20])
def test_a_wrong_or_missing_index_is_rebuilt(partition, start):
    path = partition / layout.index_name(start)
    whole = path.read_bytes()
    for damage in (lambda: flip(path, 20), lambda: path.write_bytes(whole + bytes(16))):
        damage()
        (repair,) = repaired(partition)
        assert "rebuild it" in repair.what
        assert path.read_bytes() == whole
    path.unlink()
    repaired(partition)
    assert path.read_bytes() == whole


def test_a_damaged_recovery_point_is_put_aside(partition):
    recovery_point.store(MEDIUM, partition, recovery_point.RecoveryPoint(20, 0, False, "boot"))
    assert planned(partition) == ([], [])
    flip(partition / "recovery.point", 3)
    repaired(partition)
    assert not (partition / "recovery.point").exists()


def test_many_damaged_messages_are_told_in_short(partition):
    write_segment(partition, 25, 50)
    path = partition / layout.log_name(25)
    content = bytearray(path.read_bytes())
    for number in range(0, 40, 2):
        content[number * SIZE + 80] ^= 1
    path.write_bytes(content)
    (repair,) = repaired(partition)
    assert repair.loses == 20
    assert repair.what.endswith("and 10 more")
    assert worst(partition) is Severity.NOTE


def twin_of(partition, start: int) -> None:
    plain = partition / layout.log_name(start)
    pieces = compress_frames(Compression.ZSTD, cut(plain.read_bytes(), 2 * SIZE), 2 * SIZE)
    (partition / layout.twin_name(start, ".zst")).write_bytes(b"".join(pieces))
    plain.unlink()


def test_a_damaged_frame_costs_its_own_messages_and_the_twin_becomes_plain(partition):
    before = stored(partition)
    twin_of(partition, 0)
    assert stored(partition) == before
    flip(partition / layout.twin_name(0, ".zst"), 10)
    (repair,) = repaired(partition)
    assert repair.loses == 2
    assert stored(partition) == before | {0: b"", 1: b""}
    assert (partition / layout.log_name(0)).exists()
    assert not (partition / layout.twin_name(0, ".zst")).exists()


def test_a_twin_whose_index_is_missing_gets_it_back(partition):
    before = stored(partition)
    twin_of(partition, 0)
    (partition / layout.index_name(0)).unlink()
    (repair,) = repaired(partition)
    assert repair.path == partition / layout.index_name(0)
    assert stored(partition) == before


def test_a_twin_without_a_table_needs_a_backup(partition):
    twin_of(partition, 0)
    twin = partition / layout.twin_name(0, ".zst")
    twin.write_bytes(twin.read_bytes()[:-10])
    _, hopeless = planned(partition)
    assert "restore the file from a backup" in hopeless[0].what


def data_directory(tmp_path):
    open_info(MEDIUM, tmp_path, version="0.1.0", now=1)
    log, _ = open_state_log(MEDIUM, tmp_path)
    for number in range(3):
        log.append(timestamp=number, user_id=0, code=202, command=b"\x92\x01\x81\xa4name\xa1a")
    log.close()
    return tmp_path / "state.messages"


def test_a_torn_metadata_entry_is_cut_and_kept_aside(tmp_path):
    path = data_directory(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole + b"torn")
    found = list(plan_repairs(MEDIUM, tmp_path, tmp_path / "backup/now"))
    (repair,) = [each for each in found if isinstance(each, Repair)]
    assert "never completed" in repair.what
    repair.carry_out()
    assert path.read_bytes() == whole
    assert (tmp_path / "backup/now/metadata").is_dir()
    assert worst(tmp_path) is Severity.NOTE


def test_damaged_metadata_is_never_guessed(tmp_path):
    path = data_directory(tmp_path)
    flip(path, 40)
    found = list(plan_repairs(MEDIUM, tmp_path, tmp_path / "backup"))
    assert [each for each in found if isinstance(each, Repair)] == []
    (finding,) = [each for each in found if isinstance(each, Finding)]
    assert "restore this file from a backup" in finding.what
    path.unlink()
    assert not any(isinstance(f, Repair) for f in plan_repairs(MEDIUM, tmp_path, tmp_path / "b"))


def damage(path, draws: random.Random) -> None:
    content = bytearray(path.read_bytes())
    at = draws.randrange(len(content) + 1)
    match draws.randrange(6):
        case 0 if at < len(content):
            content[at] ^= 1 << draws.randrange(8)
        case 1:
            del content[at:]
        case 2:
            content += draws.randbytes(draws.randrange(300))
        case 3:
            del content[at : at + draws.randrange(400)]
        case 4:
            content[at:at] = draws.randbytes(draws.randrange(100))
        case _:
            path.unlink()
            return
    path.write_bytes(content)


@pytest.mark.parametrize("seed", range(80))
def test_after_any_damage_and_its_repair_everything_is_sound_and_nothing_is_invented(
    partition, seed
):
    draws = random.Random(seed)
    before = stored(partition)
    segments = sorted(path for path in partition.iterdir() if path.suffix in (".log", ".index"))
    for path in draws.sample(segments, draws.randrange(1, 4)):
        damage(path, draws)
    repaired(partition)
    assert worst(partition) is Severity.NOTE
    after = stored(partition)
    assert list(after) == list(range(min(after, default=0), min(after, default=0) + len(after)))
    assert all(payload in (b"", before[offset]) for offset, payload in after.items())
