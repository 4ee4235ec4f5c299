from pathlib import Path

from tests.support.disk import SimulatedDisk

from borzoi.storage.descriptors import Descriptors

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
