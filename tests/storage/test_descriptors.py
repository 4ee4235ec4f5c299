import asyncio
import os
import threading
from pathlib import Path

import pytest
from tests.support.descriptors import is_open
from tests.support.disk import SimulatedDisk
from tests.support.logs import numbered

from borzoi.model.errors import StorageFailure
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.local import LocalMedium
from borzoi.storage.log import open_log
from borzoi.storage.settings import PartitionSettings, SegmentSettings

DIRECTORY = Path("/d")


def disk_with(*names: str) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    for name in names:
        disk.open(DIRECTORY / name, create=True)
    return disk


def open_of(directory: Path) -> list[str]:
    """The files below a directory that this process has open, deleted ones included."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            found.append(os.readlink(descriptor))
        except FileNotFoundError:
            continue
    return [target for target in found if target.startswith(str(directory))]


def test_a_file_is_opened_when_it_is_used_and_once() -> None:
    descriptors = Descriptors(disk_with("a"), 2)
    file = descriptors.file(DIRECTORY, "a")
    assert len(descriptors) == 0
    assert file.held() is file.held()
    assert len(descriptors) == 1


def test_a_new_file_is_empty_whatever_was_left_there() -> None:
    disk = disk_with("a")
    disk.open(DIRECTORY / "a").write([b"left"], 0)
    assert Descriptors(disk).created(DIRECTORY, "a").size() == 0


def test_a_file_that_was_not_used_for_longest_makes_room() -> None:
    descriptors = Descriptors(disk_with("a", "b", "c", "d"), 2)
    a, b, c, d = (descriptors.file(DIRECTORY, name) for name in "abcd")
    a.size()
    b.size()
    c.size()  # all were used, so the first one goes
    assert [one.opened is not None for one in (a, b, c)] == [False, True, True]
    c.size()
    d.size()
    assert [one.opened is not None for one in (b, c, d)] == [False, True, True]
    assert len(descriptors) == 2


def test_what_was_written_is_there_after_its_file_made_room(tmp_path: Path) -> None:
    descriptors = Descriptors(LocalMedium(), 1)
    files = [descriptors.created(tmp_path, str(number)) for number in range(3)]
    for at in range(3):
        for number, file in enumerate(files):
            file.write([b"%d" % number], at)
            assert len(open_of(tmp_path)) == 1
    assert [file.read(9, 0) for file in files] == [b"000", b"111", b"222"]
    for file in files:
        file.fdatasync()
        file.truncate(1)
        file.reserve(1, 10)
        file.trim()
        assert file.size() == 1
        file.close()
    assert open_of(tmp_path) == []


def test_a_file_that_is_held_stays_open_although_it_made_room(tmp_path: Path) -> None:
    descriptors = Descriptors(LocalMedium(), 1)
    first, second = (descriptors.created(tmp_path, name) for name in "ab")
    held = first.held()
    number = held.fileno()
    second.write([b"x"], 0)
    assert first.opened is None
    os.fstat(number)
    held.write([b"y"], 0)
    del held
    assert open_of(tmp_path) == [str(tmp_path / "b")]
    assert first.read(1, 0) == b"y"


def test_a_closed_file_is_not_opened_again(tmp_path: Path) -> None:
    descriptors = Descriptors(LocalMedium(), 1)
    with descriptors.created(tmp_path, "a") as file:
        file.write([b"x"], 0)
    assert open_of(tmp_path) == []
    with pytest.raises(StorageFailure, match="/a is closed"):
        file.size()
    assert not is_open(file.fileno())
    file.detach()
    assert open_of(tmp_path) == []


def test_who_reads_a_file_whose_name_went_reads_on(tmp_path: Path) -> None:
    descriptors = Descriptors(LocalMedium(), 1)
    file, other = (descriptors.created(tmp_path, name) for name in "ab")
    file.write([b"bytes"], 0)
    other.write([b"x"], 0)
    file.detach()
    (tmp_path / "a").unlink()
    other.write([b"x"], 0)
    assert file.read(9, 0) == b"bytes"
    assert len(open_of(tmp_path)) == 2
    del file
    assert open_of(tmp_path) == [str(tmp_path / "b")]


def test_a_sync_of_what_was_deleted_succeeds_and_one_that_fails_does_not() -> None:
    disk = disk_with("a", "b", "c")
    descriptors = Descriptors(disk)
    closed, unlinked, lost = (descriptors.file(DIRECTORY, name) for name in "abc")
    closed.close()
    closed.fdatasync()
    disk.unlink(DIRECTORY / "b")
    unlinked.fdatasync()
    lost.held()
    disk.kill()
    with pytest.raises(StorageFailure, match="the process that had"):
        lost.fdatasync()


def test_another_thread_opens_a_file_for_one_call_and_evicts_none(tmp_path: Path) -> None:
    """The loop may be between `fileno` and the call it needs the number for."""
    descriptors = Descriptors(LocalMedium(), 1)
    ours, theirs = (descriptors.created(tmp_path, name) for name in "ab")
    number = ours.fileno()
    thread = threading.Thread(target=lambda: theirs.write([b"x"], 0))
    thread.start()
    thread.join()
    assert os.fstat(number).st_ino == (tmp_path / "a").stat().st_ino
    assert open_of(tmp_path) == [str(tmp_path / "a")]
    assert theirs.read(1, 0) == b"x"


async def test_files_that_make_room_beside_syncs_on_threads_lose_and_mix_nothing(
    tmp_path: Path,
) -> None:
    descriptors = Descriptors(LocalMedium(), 2)
    files = [descriptors.created(tmp_path, str(number)) for number in range(8)]
    for at in range(50):
        syncs = [asyncio.to_thread(file.fdatasync) for file in files]
        running = asyncio.gather(*syncs)
        for number, file in enumerate(files):
            file.write([b"%d" % number], at)
            await asyncio.sleep(0)
        await running
    assert [file.read(99, 0) for file in files] == [b"%d" % number * 50 for number in range(8)]
    assert len(open_of(tmp_path)) == 2


def test_logs_share_the_descriptors_they_are_given() -> None:
    disk = SimulatedDisk()
    descriptors = Descriptors(disk, 3)
    for name in ("a", "b"):
        log = open_log(
            DIRECTORY / name,
            disk,
            segment=SegmentSettings(size=512),
            partition=PartitionSettings(messages_required_to_save=1),
            descriptors=descriptors,
        )
        for number in range(10):
            log.append(numbered([bytes(512)], base_offset=number, timestamp=number))
        assert log.segments_count > 4
        for number in range(10):
            assert log.read(number, 1).materialise()
        assert len(descriptors) == 3
        log.close()
        assert len(descriptors) == 0
