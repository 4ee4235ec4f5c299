import os
from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.logs import numbered

from borzoi.model.errors import StorageFailure
from borzoi.storage.descriptors import Descriptors
from borzoi.storage.local import LocalMedium
from borzoi.storage.log import open_log
from borzoi.storage.settings import SegmentSettings

DIRECTORY = Path("/d")


def disk_with(*names: str) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    for name in names:
        disk.open(DIRECTORY / name, create=True)
    return disk


def test_a_file_is_opened_once_while_it_is_used() -> None:
    descriptors = Descriptors(disk_with("a"), 2)
    assert descriptors.file(DIRECTORY / "a") is descriptors.file(DIRECTORY / "a")


def test_the_least_recently_used_file_goes_first() -> None:
    descriptors = Descriptors(disk_with("a", "b", "c"), 2)
    first, second = descriptors.file(DIRECTORY / "a"), descriptors.file(DIRECTORY / "b")
    descriptors.file(DIRECTORY / "a")
    descriptors.file(DIRECTORY / "c")
    assert len(descriptors) == 2
    assert descriptors.file(DIRECTORY / "a") is first
    assert descriptors.file(DIRECTORY / "b") is not second


def test_a_forgotten_file_is_opened_again() -> None:
    descriptors = Descriptors(disk_with("a"), 2)
    first = descriptors.file(DIRECTORY / "a")
    descriptors.forget(DIRECTORY / "a")
    descriptors.forget(DIRECTORY / "never seen")
    assert descriptors.file(DIRECTORY / "a") is not first


def test_logs_share_the_cache_they_are_given_although_it_is_empty() -> None:
    disk = SimulatedDisk()
    descriptors = Descriptors(disk, 3)
    for name in ("a", "b"):
        log = open_log(
            DIRECTORY / name, disk, segment=SegmentSettings(size=512), descriptors=descriptors
        )
        for number in range(5):
            log.append(numbered([bytes(512)], base_offset=number, timestamp=number))
        for number in range(5):
            assert log.read(number, 1).count == 1
        assert len(descriptors) == 3
        log.close()


def test_a_file_on_demand_has_no_descriptor_of_its_own() -> None:
    disk = disk_with("a", "b", "c")
    disk.open(DIRECTORY / "a").write([b"0123456789"], 0)
    descriptors = Descriptors(disk, 2)
    files = [descriptors.on_demand(DIRECTORY / name) for name in "abc"]
    assert len(descriptors) == 0
    assert (files[0].size(), files[0].read(3, 2)) == (10, b"234")
    assert files[0].path == DIRECTORY / "a"
    assert [file.size() for file in files] == [10, 0, 0]
    assert len(descriptors) == 2
    disk.unlink(DIRECTORY / "b")
    descriptors.forget(DIRECTORY / "b")
    with pytest.raises(StorageFailure):
        files[1].size()


def test_a_file_on_demand_can_be_sent(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    file = Descriptors(LocalMedium(), 1).on_demand(tmp_path / "a")
    assert os.pread(file.fileno(), 3, 2) == b"234"
