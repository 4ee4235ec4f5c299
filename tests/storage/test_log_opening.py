"""What opening costs at full size: 10 GiB of real messages in ten segments and a tail."""

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.support.logs import batch_of

from borzoi.model.limits import INDEX_ENTRY_BYTES
from borzoi.records.batch import stamp, verify, walk
from borzoi.storage.index_lag import LAG_BYTES
from borzoi.storage.local import LocalFile, LocalMedium
from borzoi.storage.log import SegmentedLog, open_log
from borzoi.storage.scanning import CHUNK_BYTES
from borzoi.storage.segment import SegmentFacts

GIB = 1 << 30
SEALED = 10
PAYLOAD_BYTES = 8 << 10
BATCH_MESSAGES = 128
#: The open segment holds about this much behind the sealed ones.
TAIL_BYTES = 100 << 20


class CountedFile(LocalFile):
    """Adds what is read of it to the count of its suffix."""

    __slots__ = ("_bytes_read",)

    def __init__(self, path: Path, descriptor: int, bytes_read: Counter[str]) -> None:
        super().__init__(path, descriptor)
        self._bytes_read = bytes_read

    def read(self, length: int, position: int) -> bytes:
        found = super().read(length, position)
        self._bytes_read[self.path.suffix] += len(found)
        return found


class CountingMedium(LocalMedium):
    """The real files, and how many bytes were read of each kind."""

    __slots__ = ("bytes_read",)

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read: Counter[str] = Counter()

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> LocalFile:
        with super().open(path, create=create, writable=writable) as file:
            return CountedFile(path, os.dup(file.fileno()), self.bytes_read)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Removed at once: the temporary directories of three runs are kept otherwise."""
    free = shutil.disk_usage(tmp_path).free
    if free < 2 * SEALED * GIB:
        pytest.skip(f"needs {2 * SEALED} GiB of free disk, there are {free // GIB}")
    yield tmp_path / "0"
    shutil.rmtree(tmp_path / "0", ignore_errors=True)


def fill(log: SegmentedLog) -> None:
    """Append until ten segments are sealed and the tail has its bytes."""
    noise = Random(1).randbytes(BATCH_MESSAGES * PAYLOAD_BYTES)
    batch = batch_of(
        [noise[at : at + PAYLOAD_BYTES] for at in range(0, len(noise), PAYLOAD_BYTES)],
        ids=range(1, BATCH_MESSAGES + 1),
    )
    timestamp = 1
    while log.segments_count <= SEALED or log.segments()[-1].size < TAIL_BYTES:
        stamp(batch, base_offset=log.next_offset, timestamp=timestamp, new_ids=bytes)
        log.append(batch, timestamp=timestamp)
        timestamp += 1


def opened(directory: Path, expected: list[SegmentFacts]) -> tuple[Counter[str], float]:
    medium = CountingMedium()
    began = time.perf_counter()
    log = open_log(directory, medium)
    seconds = time.perf_counter() - began
    bytes_read = Counter(medium.bytes_read)
    assert log.fenced is None
    assert log.segments() == expected
    for offset in (0, log.next_offset // 2, log.next_offset - 5):
        stored = walk(memoryview(log.read(offset, 5).materialise()))
        assert stored.offsets().tolist() == list(range(offset, offset + 5))
        assert verify(stored) is None
    log.abandon()
    return bytes_read, seconds


@pytest.mark.deep
def test_opening_ten_gib_reads_no_message_but_the_unindexed_ones_of_the_tail(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.perf_counter()
    log = open_log(directory, LocalMedium())
    fill(log)
    facts = log.segments()
    assert sum(each.size for each in facts) >= SEALED * GIB
    log.abandon()  # as kill -9 leaves it: written, not synced, the index of the tail behind
    report = [f"{sum(each.size for each in facts)} bytes in {len(facts)} segments,"
              f" written in {time.perf_counter() - began:.1f} s"]  # fmt: skip

    bytes_read, seconds = opened(directory, facts)
    report.append(f"after a kill: opened in {1000 * seconds:.1f} ms, read {dict(bytes_read)}")
    assert 0 < bytes_read[".log"] <= LAG_BYTES + 2 * CHUNK_BYTES

    again = open_log(directory, LocalMedium())
    again.close()
    bytes_read, seconds = opened(directory, facts)
    report.append(f"after a close: opened in {1000 * seconds:.1f} ms, read {dict(bytes_read)}")
    assert bytes_read[".log"] == 0
    # Of a sealed index the ends alone, of the last one every entry.
    tail_entries = facts[-1].end_offset - facts[-1].start_offset + 1
    assert bytes_read[".index"] <= (tail_entries + 4 * len(facts)) * INDEX_ENTRY_BYTES
    with capsys.disabled():
        print("", *report, sep="\n")
