import asyncio
import gzip
import itertools
import os
import random
from collections import Counter
from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.power_cuts import Crash, PowerCut

from borzoi.model.errors import InvalidChecksum, StorageFailure
from borzoi.model.topics import Compression
from borzoi.records.batch import stamp, walk
from borzoi.records.compression import FRAME_BYTES, Frames
from borzoi.records.header import HEADER
from borzoi.storage.compressed import (
    SUFFIXES,
    CompressedBody,
    FrameCache,
    TwinOpener,
    compress_sealed,
    open_twin,
    write_draft,
)
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.local import LocalFile, LocalMedium
from borzoi.storage.log import open_log
from borzoi.storage.settings import PartitionSettings, SegmentSettings

ALGORITHMS = list(SUFFIXES)
SEGMENT_BYTES = 600 * 1024


def batch_of(count: int, size: int, seed: int, *, noise: bool = False):
    draws = random.Random(seed)
    messages = bytearray()
    for number in range(count):
        text = b'{"sensor": %d, "value": %d}' % (number % 7, draws.randrange(1000))
        payload = draws.randbytes(size) if noise else (text * (size // len(text) + 1))[:size]
        messages += HEADER.pack(0, bytes(16), 0, 0, 0, 0, len(payload), 0) + payload
    return walk(memoryview(messages))


def ids(count: int) -> bytes:
    return random.Random(count).randbytes(16 * count)


def filled(directory, *, open_twin=None, batches=20, noise=False, medium=None):
    """A log of several sealed segments and an open one."""
    log = open_log(
        directory,
        medium or LocalMedium(),
        segment=SegmentSettings(size=SEGMENT_BYTES),
        partition=PartitionSettings(messages_required_to_save=1),
        open_twin=open_twin,
    )
    for seed in range(batches):
        batch = batch_of(100, 1000, seed, noise=noise)
        stamp(batch, base_offset=log.next_offset, timestamp=1000 + seed, new_ids=ids)
        log.append(batch, timestamp=1000 + seed)
    log.flush()
    return log


def names(directory) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("0"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_clients_see_unchanged_bytes(tmp_path, algorithm):
    opener = TwinOpener()
    log = filled(tmp_path, open_twin=opener)
    before = log.read(0, 10_000).materialise()
    facts = log.segments()
    assert await compress_sealed(log, algorithm, opener) == len(facts) - 1 > 1
    assert log.read(0, 10_000).materialise() == before
    assert log.segments() == facts
    suffix = SUFFIXES[algorithm]
    assert f"{0:020}.log{suffix}" in names(tmp_path)
    assert [name for name in names(tmp_path) if name.endswith(".log")] == [
        f"{facts[-1].start_offset:020}.log"
    ]
    log.close()
    again = open_log(tmp_path, LocalMedium(), open_twin=TwinOpener())
    assert again.fenced is None
    assert again.read(0, 10_000).materialise() == before
    for offset in (0, 1, 99, 512, 599, 600, 1999):
        message = again.read(offset, 1).materialise()
        assert message == before[offset * 1064 : (offset + 1) * 1064]
    assert again.offset_at(1005) == 500
    again.close()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_lost_index_is_made_anew_by_inflating_once(tmp_path, algorithm, monkeypatch):
    log = filled(tmp_path)
    before = log.read(0, 10_000).materialise()
    await compress_sealed(log, algorithm, TwinOpener())
    indexes = sorted(tmp_path.glob("*.index"))[:-1]
    stored = [path.read_bytes() for path in indexes]
    log.close()
    for path in indexes:
        path.unlink()
    inflated: Counter[tuple[int, int]] = Counter()
    inflate = Frames.inflate

    def counted(self, number, content):
        inflated[id(self), number] += 1
        return inflate(self, number, content)

    monkeypatch.setattr(Frames, "inflate", counted)
    again = open_log(tmp_path, LocalMedium(), open_twin=TwinOpener())
    assert again.fenced is None
    assert set(inflated.values()) == {1}
    assert [path.read_bytes() for path in indexes] == stored
    assert again.read(0, 10_000).materialise() == before
    again.close()


async def test_a_segment_is_compressed_once(tmp_path):
    opener = TwinOpener()
    log = filled(tmp_path, open_twin=opener)
    assert await compress_sealed(log, Compression.ZSTD, opener) > 0
    assert await compress_sealed(log, Compression.ZSTD, opener) == 0
    assert await compress_sealed(log, Compression.GZIP, opener) == 0


async def test_what_does_not_shrink_stays_plain_and_is_not_tried_again(tmp_path):
    opener = TwinOpener()
    log = filled(tmp_path, open_twin=opener, noise=True)
    before = names(tmp_path)
    assert await compress_sealed(log, Compression.LZ4, opener) == 0
    assert names(tmp_path) == before
    assert len(opener.stays_plain) == len(log.segments()) - 1

    async def refuse(*_):
        raise AssertionError("tried again")

    assert await compress_sealed(log, Compression.LZ4, opener, offload=refuse) == 0


async def test_the_twin_is_an_ordinary_file_of_its_format(tmp_path):
    log = filled(tmp_path, batches=8)
    plain = (tmp_path / f"{0:020}.log").read_bytes()
    await compress_sealed(log, Compression.GZIP, TwinOpener())
    assert gzip.decompress((tmp_path / f"{0:020}.log.gz").read_bytes()) == plain


async def test_a_read_inflates_only_the_frames_it_touches(tmp_path, monkeypatch):
    opener = TwinOpener(frames_kept=4)
    log = filled(tmp_path, open_twin=opener)
    await compress_sealed(log, Compression.ZSTD, opener)
    inflated = []
    original = CompressedBody._inflated

    def counted(self, number):
        inflated.append(number)
        return original(self, number)

    monkeypatch.setattr(CompressedBody, "_inflated", counted)
    per_frame = FRAME_BYTES // 1064
    log.read(0, 10)
    assert inflated == [0]
    log.read(per_frame - 5, 10)
    assert inflated == [0, 0, 1]


async def test_a_purge_during_compression_wins(tmp_path):
    opener = TwinOpener()
    log = filled(tmp_path, open_twin=opener)

    async def purging(function, *arguments):
        result = await asyncio.to_thread(function, *arguments)
        if function is write_draft:
            log.purge()
        return result

    assert await compress_sealed(log, Compression.ZSTD, opener, offload=purging) == 0
    assert [name for name in names(tmp_path) if "zst" in name] == []
    assert log.messages_count == 0
    log.close()


async def test_retention_between_rename_and_adoption_wins(tmp_path):
    opener = TwinOpener()
    log = filled(tmp_path, open_twin=opener)

    async def expiring(function, *arguments):
        if function is not write_draft:
            log.delete_segments(1)
        return await asyncio.to_thread(function, *arguments)

    assert await compress_sealed(log, Compression.ZSTD, opener, offload=expiring) == 0
    assert [name for name in names(tmp_path) if "zst" in name] == []
    start = log.first_offset
    log.close()
    again = open_log(tmp_path, LocalMedium(), open_twin=TwinOpener())
    assert (again.fenced, again.first_offset) == (None, start)


def test_an_index_that_is_not_whole_yet_postpones_compression(tmp_path):
    log = filled(tmp_path)
    facts = log.segments()[0]
    index = tmp_path / f"{0:020}.index"
    index.write_bytes(index.read_bytes()[:-16])
    assert write_draft(LocalMedium(), tmp_path, facts, Compression.ZSTD) is None
    assert list(tmp_path.glob("*.tmp")) == []


def test_a_crash_after_the_draft_leaves_the_plain_segment_in_charge(tmp_path):
    log = filled(tmp_path)
    facts = log.segments()[0]
    before = log.read(0, 10_000).materialise()
    draft = write_draft(LocalMedium(), tmp_path, facts, Compression.ZSTD)
    assert draft is not None
    log.close()
    assert draft.exists()
    again = open_log(tmp_path, LocalMedium(), open_twin=TwinOpener())
    assert not draft.exists()
    assert again.read(0, 10_000).materialise() == before
    # And after the rename, with both files there.
    draft = write_draft(LocalMedium(), tmp_path, facts, Compression.ZSTD)
    assert draft is not None
    twin = draft.rename(draft.with_suffix(""))
    again.close()
    again = open_log(tmp_path, LocalMedium(), open_twin=TwinOpener())
    assert not twin.exists()
    assert again.read(0, 10_000).materialise() == before


class FailingDisk(PowerCut, SimulatedDisk):
    """Loses its power before a chosen change of a directory."""

    def open(self, path, *, create=False, writable=True):
        self.step()
        return super().open(path, create=create, writable=writable)


async def inline(function, *arguments):
    return function(*arguments)


@pytest.mark.parametrize("seed", range(3))
async def test_a_power_cut_at_any_step_of_compression_loses_nothing(seed):
    directory = Path("/partition")
    for steps in itertools.count():
        disk = FailingDisk()
        opener = TwinOpener()
        log = filled(directory, open_twin=opener, batches=8, medium=disk)
        log.flush(sync=True)
        before = log.read(0, 10_000).materialise()
        disk.steps_left = steps
        try:
            finished = await compress_sealed(log, Compression.LZ4, opener, offload=inline) > 0
        except Crash:
            finished = False
        disk.steps_left = 10**9
        disk.power_cut(random.Random(seed * 1000 + steps))
        again = open_log(directory, disk, open_twin=TwinOpener())
        assert again.fenced is None
        assert again.read(0, 10_000).materialise() == before
        if finished:
            assert steps > 5
            return


class FullFile(LocalFile):
    __slots__ = ()

    def write(self, buffers, position):
        raise StorageFailure(f"cannot write to {self.path}: the disk is full")


class FullMedium(LocalMedium):
    __slots__ = ()

    def open(self, path, *, create=False, writable=True):
        opened = super().open(path, create=create, writable=writable)
        if path.suffix != ".tmp":
            return opened
        with opened:
            return FullFile(path, os.dup(opened.fileno()))


def test_a_full_disk_leaves_no_draft_behind(tmp_path):
    facts = filled(tmp_path).segments()[0]
    with pytest.raises(StorageFailure, match="disk is full"):
        write_draft(FullMedium(), tmp_path, facts, Compression.ZSTD)
    assert list(tmp_path.glob("*.tmp")) == []


def inflate_all(path) -> bytes:
    body = open_twin(LocalMedium(), path)
    return bytes(body.part(0, body.size))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_every_damaged_byte_of_a_twin_is_noticed(tmp_path, algorithm):
    """All bytes of the table and the trailer, a sample of the others."""
    log = filled(tmp_path, batches=8)
    await compress_sealed(log, algorithm, TwinOpener())
    path = tmp_path / f"{0:020}.log{SUFFIXES[algorithm]}"
    whole = path.read_bytes()
    draws = random.Random(1)
    places = [*range(len(whole) - 150, len(whole)), *draws.sample(range(len(whole) - 150), 100)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << draws.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(StorageFailure, match=path.name):
            inflate_all(path)
    for length in (0, 1, 40, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(StorageFailure, match=path.name):
            open_twin(LocalMedium(), path)


async def test_a_damaged_frame_spares_the_others(tmp_path):
    log = filled(tmp_path, batches=8)
    await compress_sealed(log, Compression.ZSTD, TwinOpener())
    path = tmp_path / f"{0:020}.log.zst"
    damaged = bytearray(path.read_bytes())
    damaged[20] ^= 1
    path.write_bytes(damaged)
    body = TwinOpener(Descriptors(LocalMedium()))(LocalMedium(), path)
    assert len(body.part(FRAME_BYTES, 1000)) == 1000
    with pytest.raises(InvalidChecksum, match="frame 0"):
        body.part(0, 1000)
    assert bytes(body.part(0, 0)) == b""


def test_a_file_of_another_name_is_not_opened_as_a_twin(tmp_path):
    (tmp_path / "notes.txt").write_bytes(bytes(100))
    with pytest.raises(StorageFailure, match="not named like"):
        open_twin(LocalMedium(), tmp_path / "notes.txt")


def test_the_cache_lets_the_least_recently_used_frame_go(tmp_path):
    cache = FrameCache(2)
    cache.put(tmp_path, 0, b"a")
    cache.put(tmp_path, 1, b"b")
    assert cache.get(tmp_path, 0) == b"a"
    cache.put(tmp_path, 2, b"c")
    assert cache.get(tmp_path, 1) is None
    assert len(cache) == 2
    cache.forget(tmp_path)
    assert len(cache) == 0


async def test_a_long_read_is_inflated_while_it_is_sent(tmp_path, monkeypatch):
    opener = TwinOpener(frames_kept=1)
    log = filled(tmp_path, open_twin=opener, batches=40)
    before = log.read(0, 10_000).materialise()
    await compress_sealed(log, Compression.ZSTD, opener)
    inflated = []
    inflate = Frames.inflate

    def counted(self, number, content):
        inflated.append(number)
        return inflate(self, number, content)

    monkeypatch.setattr(Frames, "inflate", counted)
    reading = log.read(0, 10_000)
    assert reading.must_be_checked
    assert reading.size == len(before)
    assert list(reading.checks())
    assert inflated == []
    assert reading.materialise() == before


async def test_a_long_read_over_a_damaged_frame_is_told_before_it_is_sent(tmp_path):
    opener = TwinOpener()
    log = filled(tmp_path, open_twin=opener, batches=40)
    await compress_sealed(log, Compression.ZSTD, opener)
    path = tmp_path / f"{0:020}.log.zst"
    damaged = bytearray(path.read_bytes())
    damaged[-200] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(StorageFailure, match=path.name):
        list(log.read(0, 10_000).checks())
