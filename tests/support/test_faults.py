from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium

from borzoi.model.errors import CannotSync, StorageFailure

DIRECTORY = Path("/d")


def medium_with(fault: Fault, operation: str) -> FaultyMedium:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    return FaultyMedium(disk, lambda name, _: fault if name == operation else None)


@pytest.mark.parametrize("fault", [Fault.NO_SPACE, Fault.IO_ERROR])
@pytest.mark.parametrize(
    "operation",
    ["open", "list", "make_directory", "rename", "unlink", "remove_tree", "fsync_directory",
     "read", "write", "truncate", "fdatasync"],
)  # fmt: skip
def test_each_operation_fails_when_told_to(fault: Fault, operation: str) -> None:
    medium = medium_with(fault, operation)
    with pytest.raises(CannotSync if "sync" in operation else StorageFailure):
        attempt(medium, operation)


def attempt(medium: FaultyMedium, operation: str) -> None:
    file = medium.open(DIRECTORY / "f", create=True)
    match operation:
        case "list" | "make_directory" | "remove_tree" | "fsync_directory":
            getattr(medium, operation)(DIRECTORY)
        case "unlink":
            medium.unlink(file.path)
        case "rename":
            medium.rename(file.path, DIRECTORY / "g")
        case "read":
            file.read(1, 0)
        case "write":
            file.write([b"x"], 0)
        case "fdatasync":
            file.fdatasync()
        case _:
            getattr(file, operation)(1)


def test_a_short_write_says_how_much_was_written() -> None:
    file = medium_with(Fault.SHORT_WRITE, "write").open(DIRECTORY / "f", create=True)
    assert file.write([b"12", b"345"], 0) == 3
    assert file.read(10, 0) == b"123"


def test_a_torn_write_leaves_half_and_fails() -> None:
    file = medium_with(Fault.TORN_WRITE, "write").open(DIRECTORY / "f", create=True)
    with pytest.raises(StorageFailure):
        file.write([b"1234"], 0)
    assert file.read(10, 0) == b"12"
