import random

import pytest

from borzoi.model.topics import Compression
from borzoi.records.batch import stamp, walk
from borzoi.records.compression import compress_frames, cut
from borzoi.records.header import HEADER
from borzoi.storage import layout, recovery_point
from borzoi.storage.index import entries_of
from borzoi.storage.local import LocalMedium
from borzoi.tools.findings import Finding, Progress, Severity
from borzoi.tools.partition_inspection import inspect_partition, segment_files

MEDIUM = LocalMedium()


def write_segment(directory, start: int, count: int, payload_bytes: int = 100) -> bytes:
    draws = random.Random(start)
    messages = bytearray()
    for _ in range(count):
        messages += HEADER.pack(0, draws.randbytes(16), 0, 0, 9, 0, payload_bytes, 0)
        messages += draws.randbytes(payload_bytes)
    batch = walk(memoryview(messages))
    stamp(batch, base_offset=start, timestamp=1000 + start, new_ids=bytes)
    (directory / layout.log_name(start)).write_bytes(messages)
    index = entries_of(batch, relative_offset=0, position=0) if count else b""
    (directory / layout.index_name(start)).write_bytes(index)
    return bytes(messages)


@pytest.fixture
def partition(tmp_path):
    """Two sealed segments and an open one: 0..9, 10..19, 20..24."""
    for start, count in ((0, 10), (10, 10), (20, 5)):
        write_segment(tmp_path, start, count)
    for kind in ("consumers", "groups"):
        (tmp_path / "offsets" / kind).mkdir(parents=True)
    (tmp_path / "offsets/consumers/1").write_bytes((24).to_bytes(8, "little"))
    recovery_point.store(MEDIUM, tmp_path, recovery_point.RecoveryPoint(20, 0, False, "boot"))
    return tmp_path


def findings(directory) -> list[Finding]:
    return [found for found in inspect_partition(MEDIUM, directory) if isinstance(found, Finding)]


def worst(directory) -> Severity | None:
    return max((finding.severity for finding in findings(directory)), default=None)


def flip(path, place: int, mask: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= mask
    path.write_bytes(content)


def test_nothing_is_found_in_a_sound_partition_and_everything_was_read(partition):
    assert findings(partition) == []
    progress = [p for p in inspect_partition(MEDIUM, partition) if isinstance(p, Progress)]
    assert sum(p.messages for p in progress) == 25
    sizes = [path.stat().st_size for path in partition.rglob("*") if path.is_file()]
    assert (
        sum(p.read_bytes for p in progress)
        == sum(sizes) - (partition / "recovery.point").stat().st_size
    )


@pytest.mark.parametrize("missing", [(20,), (0, 10, 20)])
def test_messages_that_the_recovery_point_knows_and_the_log_lacks_are_damage(partition, missing):
    recovery_point.store(MEDIUM, partition, recovery_point.RecoveryPoint(20, 820, False, "boot"))
    assert findings(partition) == []
    for start in missing:
        (partition / layout.log_name(start)).unlink()
        (partition / layout.index_name(start)).unlink()
    (found,) = [each for each in findings(partition) if each.severity is Severity.DAMAGE]
    assert "messages are missing at the end: segment 20 had 820 bytes or more" in found.what


def test_a_last_segment_that_is_too_short_is_damage(partition):
    recovery_point.store(MEDIUM, partition, recovery_point.RecoveryPoint(20, 820, False, "boot"))
    for name, size in ((layout.log_name(20), 164), (layout.index_name(20), 16)):
        path = partition / name
        path.write_bytes(path.read_bytes()[:size])
    (found,) = [each for each in findings(partition) if each.severity is Severity.DAMAGE]
    assert "the log ends with byte 164 of segment 20" in found.what


def test_an_empty_directory_is_a_sound_partition(tmp_path):
    assert findings(tmp_path) == []
    write_segment(tmp_path, 0, 0)
    assert findings(tmp_path) == []


def test_a_flipped_byte_is_found_with_its_file_byte_and_message(partition):
    path = partition / layout.log_name(10)
    flip(path, 3 * 164 + 100)
    (finding,) = findings(partition)
    assert finding == Finding(
        Severity.DAMAGE, path, "the message is damaged: its checksum does not fit", 3 * 164, 13
    )
    assert (
        str(finding)
        == f"{path}, byte 492, message 13: the message is damaged: its checksum does not fit"
    )


def test_every_single_flipped_byte_of_headers_index_and_recovery_point_is_found(tmp_path):
    """A partition of 5 MB: all bytes of all headers and index entries, a sample of the payloads."""
    payload_bytes = 250_000
    write_segment(tmp_path, 0, 12, payload_bytes)
    write_segment(tmp_path, 12, 8, payload_bytes)
    recovery_point.store(MEDIUM, tmp_path, recovery_point.RecoveryPoint(12, 0, False, "boot"))
    size = sum(path.stat().st_size for path in tmp_path.glob("*.log"))
    assert size >= 5_000_000
    assert findings(tmp_path) == []
    draws = random.Random(5)
    step = 64 + payload_bytes
    for path in sorted(tmp_path.iterdir()):
        content = bytearray(path.read_bytes())
        if path.suffix == ".log":
            starts = range(0, len(content), step)
            places = [start + at for start in starts for at in range(64)]
            places += draws.sample(range(len(content)), 200)
        else:
            places = list(range(len(content)))
        with path.open("r+b", buffering=0) as file:
            for place in places:
                file.seek(place)
                file.write(bytes([content[place] ^ 1 << draws.randrange(8)]))
                assert worst(tmp_path) in (Severity.WARNING, Severity.DAMAGE), (path.name, place)
                file.seek(place)
                file.write(content[place : place + 1])
    assert findings(tmp_path) == []


@pytest.mark.parametrize("algorithm", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_compressed_segment_is_inflated_and_looked_through(partition, algorithm):
    plain = partition / layout.log_name(0)
    suffix = {2: ".gz", 3: ".lz4", 4: ".zst"}[algorithm]
    twin = partition / layout.twin_name(0, suffix)
    twin.write_bytes(b"".join(compress_frames(algorithm, cut(plain.read_bytes(), 500), 500)))
    (both,) = findings(partition)
    assert "is next to its plain segment" in both.what
    assert both.severity is Severity.NOTE
    plain.unlink()
    assert findings(partition) == []
    flip(twin, 100)
    assert worst(partition) is Severity.DAMAGE
    flip(twin, 100)
    flip(twin, len(twin.read_bytes()) - 20)
    assert worst(partition) is Severity.DAMAGE
    flip(twin, len(twin.read_bytes()) - 20)
    (partition / layout.index_name(0)).unlink()
    assert worst(partition) is Severity.DAMAGE


def test_a_torn_tail_of_the_open_segment_is_a_warning(partition):
    path = partition / layout.log_name(20)
    with path.open("ab") as file:
        file.write(b"half a message")
    (finding,) = findings(partition)
    assert finding.severity is Severity.WARNING
    assert finding.position == 5 * 164


def test_zeros_taken_ahead_in_the_open_segment_are_as_they_should_be(partition):
    path = partition / layout.log_name(20)
    with path.open("ab") as file:
        file.write(bytes(10_000))
    (finding,) = findings(partition)
    assert finding.severity is Severity.NOTE
    sealed = partition / layout.log_name(0)
    with sealed.open("ab") as file:
        file.write(bytes(10_000))
    assert worst(partition) is Severity.DAMAGE


def test_an_index_that_lags_is_normal_only_in_the_open_segment(partition):
    for start, severity in ((20, Severity.NOTE), (10, Severity.WARNING)):
        path = partition / layout.index_name(start)
        whole = path.read_bytes()
        path.write_bytes(whole[:-16])
        (finding,) = findings(partition)
        assert (finding.severity, finding.path) == (severity, path)
        path.write_bytes(whole[:-9])
        assert worst(partition) is Severity.WARNING
        path.write_bytes(whole)


def test_an_index_with_entries_for_nothing_is_damage(partition):
    path = partition / layout.index_name(10)
    path.write_bytes(path.read_bytes() + bytes(32))
    (finding,) = findings(partition)
    assert "2 entries for messages that are not in the log" in finding.what
    assert finding.position == 160


def test_a_missing_index_can_be_rebuilt(partition):
    (partition / layout.index_name(0)).unlink()
    (finding,) = findings(partition)
    assert finding.severity is Severity.WARNING


def test_a_missing_segment_is_named_by_its_messages(partition):
    (partition / layout.log_name(10)).unlink()
    found = findings(partition)
    assert [f.severity for f in found] == [Severity.NOTE, Severity.DAMAGE]
    assert "messages 10 to 19 are missing" in found[1].what


def test_segments_that_overlap_are_damage(partition):
    write_segment(partition, 15, 5)
    assert any("begins before message 20" in f.what for f in findings(partition))


def test_a_file_damaged_all_over_does_not_flood_the_report(partition):
    write_segment(partition, 25, 100)
    log = partition / layout.log_name(25)
    content = bytearray(log.read_bytes())
    for start in range(0, len(content), 164):
        content[start + 90] ^= 1
    log.write_bytes(content)
    found = findings(partition)
    assert len(found) == 21
    assert "80 more places are damaged" in found[-1].what
    write_segment(partition, 25, 100)
    index = partition / layout.index_name(25)
    index.write_bytes(bytes(b ^ 0x80 for b in index.read_bytes()))
    found = findings(partition)
    assert len(found) == 21
    assert "80 more entries are wrong" in found[-1].what


def test_from_where_nothing_can_be_read_the_rest_is_one_finding(partition):
    path = partition / layout.log_name(0)
    content = path.read_bytes()
    path.write_bytes(content[: 4 * 164] + random.Random(1).randbytes(6 * 164))
    (partition / layout.index_name(0)).unlink()
    texts = [f.what for f in findings(partition)]
    assert any("from here on nothing can be read, 984 bytes" in text for text in texts)


def test_several_lost_messages_are_counted(partition):
    path = partition / layout.log_name(0)
    content = bytearray(path.read_bytes())
    content[2 * 164 : 4 * 164] = random.Random(1).randbytes(2 * 164)
    path.write_bytes(content)
    (partition / layout.index_name(0)).unlink()
    texts = [f.what for f in findings(partition)]
    assert any("2 messages cannot be read, 328 bytes" in text for text in texts)


def test_consumers_ahead_of_the_log_and_files_of_the_wrong_size_are_warnings(partition):
    folder = partition / "offsets/groups"
    (folder / "5").write_bytes((25).to_bytes(8, "little"))
    (folder / "6").write_bytes(b"short")
    (folder / "7").mkdir()
    (folder / "notes").write_bytes(b"")
    found = {f.path.name: f for f in findings(partition)}
    assert {name: f.severity for name, f in found.items()} == {
        "5": Severity.WARNING,
        "6": Severity.WARNING,
        "7": Severity.WARNING,
        "notes": Severity.NOTE,
    }
    assert "is at offset 25, the log ends before 25" in found["5"].what


def test_what_the_next_start_clears_away_is_a_note(partition):
    for name in ("intent", "x.tmp", f"{99:020}.index", "readme"):
        (partition / name).write_bytes(b"")
    found = findings(partition)
    assert {f.severity for f in found} == {Severity.NOTE}
    assert len(found) == 4


def test_segments_are_listed_oldest_first_and_plain_before_compressed(partition):
    (partition / f"{0:020}.log.gz").write_bytes(b"")
    (partition / f"{5:020}.log.zst").write_bytes(b"")
    listed = [(s.start_offset, s.is_twin, s.is_last) for s in segment_files(MEDIUM, partition)]
    assert listed == [(0, False, False), (5, True, False), (10, False, False), (20, False, True)]
