from pathlib import Path
from random import Random

import pytest
from tests.support.disk import SECTOR_BYTES, SimulatedDisk

from borzoi.model.errors import StorageFailure

DIRECTORY = Path("/d")
PATH = DIRECTORY / "f"


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    return disk


def outcomes(prepare: object, tries: int = 200) -> set[bytes | None]:
    """What a file may hold after a power cut."""
    found: set[bytes | None] = set()
    for seed in range(tries):
        disk = new_disk()
        prepare(disk)  # type: ignore[operator]
        disk.power_cut(Random(seed))
        found.add(disk.open(PATH).read(10_000, 0) if disk.exists(PATH) else None)
    return found


def test_what_was_synced_with_its_name_survives() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        file = disk.open(PATH, create=True)
        file.write([b"safe"], 0)
        file.fdatasync()
        disk.fsync_directory(DIRECTORY)

    assert outcomes(prepare) == {b"safe"}


def test_a_synced_file_without_a_synced_name_may_be_lost() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        file = disk.open(PATH, create=True)
        file.write([b"safe"], 0)
        file.fdatasync()

    assert outcomes(prepare) == {b"safe", None}


def test_unsynced_writes_are_kept_or_lost_in_any_order() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        file = disk.open(PATH, create=True)
        disk.fsync_directory(DIRECTORY)
        file.write([b"a"], 0)
        file.write([b"b"], 1)

    assert outcomes(prepare) == {b"", b"a", b"\0b", b"ab"}


def test_a_write_may_be_torn_where_sectors_meet_and_nowhere_else() -> None:
    content = b"x" * SECTOR_BYTES + b"y" * SECTOR_BYTES

    def prepare(disk: SimulatedDisk) -> None:
        file = disk.open(PATH, create=True)
        disk.fsync_directory(DIRECTORY)
        file.write([content], 0)

    zeros = bytes(SECTOR_BYTES)
    assert outcomes(prepare, 500) == {
        b"",
        content,
        content[:SECTOR_BYTES],
        zeros + content[SECTOR_BYTES:],
    }


def test_a_rename_is_one_step() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        for path, content in ((PATH, b"old"), (DIRECTORY / "draft", b"new")):
            file = disk.open(path, create=True)
            file.write([content], 0)
            file.fdatasync()
        disk.fsync_directory(DIRECTORY)
        disk.rename(DIRECTORY / "draft", PATH)

    assert outcomes(prepare) == {b"old", b"new"}


def test_a_kill_loses_no_byte_but_every_open_file() -> None:
    disk = new_disk()
    file = disk.open(PATH, create=True)
    file.write([b"here"], 0)
    boot = disk.boot_id
    disk.kill()
    assert disk.boot_id == boot
    with pytest.raises(StorageFailure, match="is gone"):
        file.read(1, 0)
    assert disk.open(PATH).read(10, 0) == b"here"


def test_a_power_cut_is_a_new_boot_and_the_same_seed_the_same_outcome() -> None:
    def life(seed: int) -> bytes:
        disk = new_disk()
        boot = disk.boot_id
        file = disk.open(PATH, create=True)
        disk.fsync_directory(DIRECTORY)
        for number in range(20):
            file.write([bytes([number]) * 700], number * 700)
        disk.power_cut(Random(seed))
        assert disk.boot_id != boot
        return disk.open(PATH).read(100_000, 0)

    assert life(5) == life(5)
    assert len({life(seed) for seed in range(20)}) > 5


def test_simulated_files_have_no_descriptor() -> None:
    file = new_disk().open(PATH, create=True)
    with pytest.raises(StorageFailure):
        file.fileno()
