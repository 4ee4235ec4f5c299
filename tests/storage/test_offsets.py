import asyncio
import logging
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.disk import SimulatedDisk

from borzoi.model.consuming import ConsumerKind
from borzoi.model.errors import CannotSync, ConsumerOffsetNotFound, StorageFailure
from borzoi.storage.local import LocalFile, LocalMedium
from borzoi.storage.offsets import OPEN_FILES_MAX, ConsumerOffsets, OffsetWriter, open_offsets
from borzoi.storage.settings import Acknowledge

CONSUMER, GROUP = ConsumerKind.CONSUMER, ConsumerKind.GROUP


class WatchedFile(LocalFile):
    __slots__ = ("medium",)
    medium: Any

    def write(self, buffers, position):
        self.medium.writes.append(self.path.name)
        if self.path.name in self.medium.unwritable:
            raise StorageFailure(f"cannot write to {self.path}: the disk is full")
        return super().write(buffers, position)

    def fdatasync(self):
        self.medium.syncs.append(self.path.name)
        if self.path.name in self.medium.unsyncable:
            raise CannotSync(f"cannot sync {self.path}")
        super().fdatasync()


class WatchedMedium(LocalMedium):
    """Real files, with a record of writes and syncs, and faults on request."""

    __slots__ = ("directory_syncs", "syncs", "unsyncable", "unwritable", "writes")

    def __init__(self):
        super().__init__()
        self.writes: list[str] = []
        self.syncs: list[str] = []
        self.directory_syncs: list[str] = []
        self.unwritable: set[str] = set()
        self.unsyncable: set[str] = set()

    def open(self, path, *, create=False, writable=True):
        with super().open(path, create=create, writable=writable) as opened:
            file = WatchedFile(path, os.dup(opened.fileno()))
        file.medium = self
        return file

    def fsync_directory(self, directory):
        self.directory_syncs.append(directory.name)
        super().fsync_directory(directory)


@pytest.fixture
def medium():
    return WatchedMedium()


def looped(medium, acknowledge=Acknowledge.WRITTEN):
    return OffsetWriter(medium, acknowledge, loop=asyncio.get_running_loop())


async def stored(*answers: Any) -> None:
    for answer in answers:
        if answer is not None:
            await answer


def on_disk(directory, kind, consumer_id):
    name = {CONSUMER: "consumers", GROUP: "groups"}[kind]
    return int.from_bytes((directory / "offsets" / name / str(consumer_id)).read_bytes(), "little")


def test_an_offset_is_8_bytes_under_the_consumers_number(tmp_path, medium):
    offsets = open_offsets(tmp_path, OffsetWriter(medium))
    assert offsets.load(CONSUMER, 1) is None
    assert offsets.store(CONSUMER, 2115191887, 513) is None
    assert offsets.store(GROUP, 0, 2**64 - 1) is None
    assert (tmp_path / "offsets/consumers/2115191887").read_bytes() == b"\x01\x02" + bytes(6)
    assert (tmp_path / "offsets/groups/0").read_bytes() == b"\xff" * 8
    assert offsets.load(CONSUMER, 2115191887) == 513
    assert offsets.load(CONSUMER, 0) is None


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(ConsumerKind), st.integers(0, 2**32 - 1)),
        st.integers(0, 2**64 - 1),
        max_size=5,
    )
)
def test_what_was_stored_is_there_after_opening_again(tmp_path_factory, numbers):
    directory = tmp_path_factory.mktemp("partition")
    offsets = open_offsets(directory, OffsetWriter(LocalMedium()))
    for (kind, consumer_id), offset in numbers.items():
        offsets.store(kind, consumer_id, offset)
    again = open_offsets(directory, OffsetWriter(LocalMedium()))
    found = {(kind, i): offset for kind in ConsumerKind for i, offset in again.items(kind)}
    assert found == numbers
    assert again.minimum() == min(numbers.values(), default=None)


async def test_a_single_commit_is_in_its_file_before_it_is_answered(tmp_path, medium):
    offsets = open_offsets(tmp_path, looped(medium))
    assert offsets.store(CONSUMER, 1, 5) is None
    assert on_disk(tmp_path, CONSUMER, 1) == 5


async def test_a_thousand_commits_in_one_turn_cost_two_writes(tmp_path, medium):
    offsets = open_offsets(tmp_path, looped(medium))
    answers = [offsets.store(CONSUMER, 1, offset) for offset in range(1000)]
    assert offsets.load(CONSUMER, 1) == 999
    await stored(*answers)
    assert on_disk(tmp_path, CONSUMER, 1) == 999
    assert medium.writes == ["1", "1"]
    await asyncio.sleep(0)
    assert offsets.store(CONSUMER, 1, 1000) is None
    assert on_disk(tmp_path, CONSUMER, 1) == 1000


async def test_buffered_commits_are_answered_at_once_and_written_when_the_turn_ends(
    tmp_path, medium
):
    offsets = open_offsets(tmp_path, looped(medium, Acknowledge.BUFFERED))
    assert [offsets.store(CONSUMER, 1, offset) for offset in range(10)] == [None] * 10
    assert medium.writes == []
    await asyncio.sleep(0)
    assert medium.writes == ["1"]
    assert on_disk(tmp_path, CONSUMER, 1) == 9


async def test_synced_commits_share_their_sync_and_are_answered_after_it(tmp_path, medium):
    offsets = open_offsets(tmp_path, looped(medium, Acknowledge.SYNCED))
    answers = [offsets.store(CONSUMER, 1, offset) for offset in range(100)]
    answers += [offsets.store(GROUP, 7, offset) for offset in range(100)]
    assert medium.syncs == []
    await stored(answers[0])
    assert sorted(medium.syncs) == ["1", "7"]
    assert {"consumers", "groups", "offsets"} <= set(medium.directory_syncs)
    names_synced = len(medium.directory_syncs)
    await stored(*answers[1:])
    assert (on_disk(tmp_path, CONSUMER, 1), on_disk(tmp_path, GROUP, 7)) == (99, 99)
    # The names are on the disk now; only the bytes need another sync.
    await stored(offsets.store(CONSUMER, 1, 100))
    assert len(medium.syncs) == 3
    assert len(medium.directory_syncs) == names_synced


async def test_commits_during_a_sync_wait_for_the_next_one(tmp_path, medium):
    offsets = open_offsets(tmp_path, looped(medium, Acknowledge.SYNCED))
    first = offsets.store(CONSUMER, 1, 1)
    await asyncio.sleep(0)
    second = offsets.store(CONSUMER, 1, 2)
    await stored(first, second)
    assert medium.syncs == ["1", "1"]
    assert on_disk(tmp_path, CONSUMER, 1) == 2


async def test_one_cancelled_request_does_not_fail_its_neighbours(tmp_path, medium):
    offsets = open_offsets(tmp_path, looped(medium, Acknowledge.SYNCED))
    given_up = asyncio.ensure_future(stored(offsets.store(CONSUMER, 1, 1)))
    waiting = offsets.store(CONSUMER, 1, 2)
    given_up.cancel()
    await stored(waiting)
    assert on_disk(tmp_path, CONSUMER, 1) == 2


async def test_a_commit_that_cannot_be_written_fails_alone_and_changes_nothing(tmp_path, medium):
    offsets = open_offsets(tmp_path, looped(medium))
    offsets.store(CONSUMER, 1, 5)
    medium.unwritable = {"1"}
    later = offsets.store(CONSUMER, 1, 6)
    neighbours = [offsets.store(CONSUMER, 2, 7), offsets.store(CONSUMER, 2, 8)]
    with pytest.raises(StorageFailure, match="disk is full"):
        await stored(later)
    await stored(*neighbours)
    assert offsets.load(CONSUMER, 1) == 5
    assert offsets.load(CONSUMER, 2) == 8
    with pytest.raises(StorageFailure, match="disk is full"):
        offsets.store(CONSUMER, 1, 6)
    assert offsets.load(CONSUMER, 1) == 5


async def test_a_first_commit_that_cannot_be_written_leaves_no_offset(tmp_path, medium):
    medium.unwritable = {"1"}
    offsets = open_offsets(tmp_path, looped(medium))
    with pytest.raises(StorageFailure):
        offsets.store(CONSUMER, 1, 5)
    assert offsets.load(CONSUMER, 1) is None
    assert list(offsets.items(CONSUMER)) == []
    with pytest.raises(ConsumerOffsetNotFound):
        offsets.delete(CONSUMER, 1)


async def test_a_sync_that_fails_fails_its_own_consumer(tmp_path, medium):
    medium.unsyncable = {"1"}
    offsets = open_offsets(tmp_path, looped(medium, Acknowledge.SYNCED))
    bad, good = offsets.store(CONSUMER, 1, 5), offsets.store(CONSUMER, 2, 6)
    with pytest.raises(CannotSync):
        await stored(bad)
    await stored(good)


async def test_a_buffered_commit_that_fails_is_told_in_the_log(tmp_path, medium, caplog):
    medium.unwritable = {"1"}
    offsets = open_offsets(tmp_path, looped(medium, Acknowledge.BUFFERED))
    offsets.store(CONSUMER, 1, 5)
    await asyncio.sleep(0)
    assert "could not store" in caplog.text
    assert offsets.load(CONSUMER, 1) is None


def test_a_short_file_loses_only_its_own_consumer(tmp_path, medium, caplog):
    offsets = open_offsets(tmp_path, OffsetWriter(medium))
    for consumer_id in (1, 2, 3):
        offsets.store(CONSUMER, consumer_id, 10 + consumer_id)
    (tmp_path / "offsets/consumers/2").write_bytes(b"\x01\x02\x03")
    (tmp_path / "offsets/consumers/4").mkdir()
    (tmp_path / "offsets/consumers/3").write_bytes((9).to_bytes(8, "little") + b"more")
    again = open_offsets(tmp_path, OffsetWriter(medium))
    assert dict(again.items(CONSUMER)) == {1: 11, 3: 9}
    assert "consumers/2 holds 3 of 8 bytes" in caplog.text
    assert "consumers/4 holds 0 of 8 bytes" in caplog.text
    again.store(CONSUMER, 2, 7)
    assert on_disk(tmp_path, CONSUMER, 2) == 7


@pytest.mark.parametrize("name", ["notes.txt", "007", "-1", "4294967296", "१"])
def test_a_foreign_name_is_left_alone_with_a_warning(tmp_path, medium, caplog, name):
    stranger = tmp_path / "offsets/groups" / name
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(bytes(8))
    with caplog.at_level(logging.WARNING):
        offsets = open_offsets(tmp_path, OffsetWriter(medium))
    assert "ignoring it" in caplog.text
    offsets.clear()
    assert stranger.exists()


def test_directories_are_made_for_the_first_offset(tmp_path, medium):
    """Most partitions of a large topic never need them."""
    offsets = open_offsets(tmp_path, OffsetWriter(medium))
    assert offsets.load(GROUP, 3) is None
    assert offsets.minimum() is None
    offsets.clear()
    assert not (tmp_path / "offsets").exists()
    offsets.store(CONSUMER, 1, 2)
    assert on_disk(tmp_path, CONSUMER, 1) == 2
    assert not (tmp_path / "offsets/groups").exists()
    offsets = ConsumerOffsets(tmp_path / "elsewhere", OffsetWriter(medium))
    offsets.store(GROUP, 3, 4)
    assert on_disk(tmp_path / "elsewhere", GROUP, 3) == 4


def test_deleting_removes_the_file_and_asking_twice_is_an_error(tmp_path, medium):
    offsets = open_offsets(tmp_path, OffsetWriter(medium, Acknowledge.SYNCED))
    offsets.store(CONSUMER, 1, 5)
    assert medium.syncs == ["1"]
    offsets.delete(CONSUMER, 1)
    assert offsets.load(CONSUMER, 1) is None
    assert not (tmp_path / "offsets/consumers/1").exists()
    assert medium.directory_syncs[-2:] == ["consumers", "consumers"]
    with pytest.raises(ConsumerOffsetNotFound, match="consumer 1 stored no offset"):
        offsets.delete(CONSUMER, 1)


async def test_a_commit_pending_when_its_offset_is_deleted_does_not_bring_it_back(tmp_path, medium):
    offsets = open_offsets(tmp_path, looped(medium))
    offsets.store(CONSUMER, 1, 5)
    pending = offsets.store(CONSUMER, 1, 6)
    offsets.delete(CONSUMER, 1)
    await stored(pending)
    await asyncio.sleep(0)
    assert not (tmp_path / "offsets/consumers/1").exists()


def test_clearing_removes_every_file(tmp_path, medium):
    offsets = open_offsets(tmp_path, OffsetWriter(medium))
    offsets.store(CONSUMER, 1, 5)
    offsets.store(GROUP, 2, 6)
    (tmp_path / "offsets/consumers/9").write_bytes(b"bad")
    offsets.clear()
    assert list((tmp_path / "offsets").rglob("*/*")) == []
    assert sorted(medium.directory_syncs) == ["consumers", "groups"]
    assert offsets.minimum() is None


def test_an_offset_beyond_the_log_moves_back_to_its_end(tmp_path, medium, caplog):
    offsets = open_offsets(tmp_path, OffsetWriter(medium))
    offsets.store(CONSUMER, 1, 100)
    offsets.store(GROUP, 2, 6)
    offsets.clamp(50)
    assert (offsets.load(CONSUMER, 1), offsets.load(GROUP, 2)) == (50, 6)
    assert "consumer 1 of" in caplog.text
    assert on_disk(tmp_path, CONSUMER, 1) == 100


async def test_flushing_with_sync_leaves_nothing_pending(tmp_path, medium):
    offsets = open_offsets(tmp_path, looped(medium, Acknowledge.BUFFERED))
    offsets.store(CONSUMER, 1, 5)
    offsets.flush(sync=True)
    assert on_disk(tmp_path, CONSUMER, 1) == 5
    assert medium.syncs == ["1"]
    medium.unwritable = {"1"}
    offsets.store(CONSUMER, 1, 6)
    with pytest.raises(StorageFailure):
        offsets.flush()


async def test_closing_writes_what_is_pending_and_abandoning_does_not(tmp_path, medium):
    offsets = open_offsets(tmp_path, looped(medium, Acknowledge.BUFFERED))
    offsets.store(CONSUMER, 1, 5)
    offsets.close()
    assert on_disk(tmp_path, CONSUMER, 1) == 5
    offsets = open_offsets(tmp_path, looped(medium, Acknowledge.BUFFERED))
    offsets.store(CONSUMER, 1, 6)
    offsets.abandon()
    await asyncio.sleep(0)
    assert on_disk(tmp_path, CONSUMER, 1) == 5


async def test_a_commit_on_its_way_to_a_disk_it_was_removed_from_has_succeeded(tmp_path, medium):
    medium.unsyncable = {"1"}
    offsets = open_offsets(tmp_path, looped(medium, Acknowledge.SYNCED))
    waiting = offsets.store(CONSUMER, 1, 5)
    await asyncio.sleep(0)  # the sync is under way
    offsets.abandon()
    await stored(waiting)
    assert medium.syncs == ["1"]


def test_only_so_many_files_stay_open(tmp_path, medium):
    offsets = open_offsets(tmp_path, OffsetWriter(medium))
    for round_ in range(2):
        for consumer_id in range(OPEN_FILES_MAX + 50):
            offsets.store(CONSUMER, consumer_id, round_)
    opened = [slot for slot in offsets._slots[CONSUMER].values() if slot.file is not None]
    assert len(opened) == OPEN_FILES_MAX
    again = open_offsets(tmp_path, OffsetWriter(medium))
    assert set(dict(again.items(CONSUMER)).values()) == {1}


@pytest.mark.parametrize("seed", range(60))
async def test_a_commit_that_was_answered_as_synced_survives_a_power_cut(seed):
    draws = random.Random(seed)
    disk, place = SimulatedDisk(), Path("/data/partition")
    answered: dict[int, int] = {}
    asked: dict[int, set[int | None]] = {}
    for run in range(3):
        offsets = open_offsets(place, looped(disk, Acknowledge.SYNCED))
        for consumer_id in range(4):
            found = offsets.load(CONSUMER, consumer_id)
            assert found in asked.get(consumer_id, {None})
            if found is not None:
                answered[consumer_id] = found
            asked[consumer_id] = {found}
        for number in range(draws.randrange(8)):
            consumer_id, offset = draws.randrange(4), 100 * run + number
            asked[consumer_id].add(offset)
            answer = offsets.store(CONSUMER, consumer_id, offset)
            if draws.random() < 0.7:
                await stored(answer)
                # An acknowledged commit must be found, or a later one.
                asked[consumer_id] = {offset}
        await asyncio.sleep(draws.choice([0, 0.001]))
        disk.power_cut(draws)
