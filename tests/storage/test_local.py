import os
from pathlib import Path

import pytest
from tests.support.descriptors import is_open
from tests.support.lenient import LenientMedium

from borzoi.model.errors import CannotSync, DiskFull, StorageFailure
from borzoi.storage import local
from borzoi.storage.local import LocalMedium


def test_a_shared_file_is_closed_with_the_last_reference(tmp_path: Path) -> None:
    file = LocalMedium().open(tmp_path / "f", create=True)
    file.share()
    descriptor = file.fileno()
    os.fstat(descriptor)
    del file
    assert not is_open(descriptor)


def test_an_owner_that_forgot_to_close_is_warned_and_leaks_nothing(tmp_path: Path) -> None:
    file = LocalMedium().open(tmp_path / "f", create=True)
    descriptor = file.fileno()
    with pytest.warns(ResourceWarning, match=r"/f was never closed by its owner"):
        del file
    assert not is_open(descriptor)


def test_closing_twice_closes_nothing_else(tmp_path: Path) -> None:
    """A second close must not hit whatever has the number by then."""
    file = LocalMedium().open(tmp_path / "f", create=True)
    number = file.fileno()
    file.close()
    with (tmp_path / "other").open("wb") as other:
        assert other.fileno() == number, "the lowest free number is given out again"
        file.close()
        del file
        os.fstat(number)


def test_a_file_closed_behind_its_back_never_closes_a_strangers_descriptor(tmp_path: Path) -> None:
    file = LocalMedium().open(tmp_path / "f", create=True)
    number = file.fileno()
    os.close(number)
    with (tmp_path / "other").open("wb") as other:
        assert other.fileno() == number, "the lowest free number is given out again"
        with pytest.warns(ResourceWarning, match="closed by something else"):
            del file
        os.fstat(number)


def test_a_file_is_closed_at_the_end_of_its_block(tmp_path: Path) -> None:
    with LocalMedium().open(tmp_path / "f", create=True) as file:
        number = file.fileno()
    assert not is_open(number)


def test_every_failure_of_the_system_becomes_one_of_ours(tmp_path: Path) -> None:
    medium = LocalMedium()
    file = medium.open(tmp_path / "f", create=True)
    file.close()
    for fails in (
        file.size,
        lambda: file.read(1, 0),
        lambda: file.write([b"x"], 0),
        lambda: file.truncate(1),
        lambda: medium.open(tmp_path / "no" / "f"),
        lambda: medium.list(tmp_path / "f"),
        lambda: medium.make_directory(tmp_path / "f" / "g"),
        lambda: medium.rename(tmp_path / "no", tmp_path / "f"),
        lambda: medium.unlink(tmp_path),
    ):
        with pytest.raises(StorageFailure):
            fails()
    with pytest.raises(CannotSync):
        file.fdatasync()
    with pytest.raises(CannotSync):
        medium.fsync_directory(tmp_path / "no")


def test_a_long_read_is_put_together_from_short_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LenientMedium().open(tmp_path / "f", create=True)
    file.write([b"0123456789"], 0)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: pread(fd, min(length, 3), at))
    assert file.read(8, 1) == b"12345678"
    assert file.read(100, 4) == b"456789"


def test_without_a_boot_id_every_start_counts_as_a_new_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "BOOT_ID", tmp_path / "missing")
    assert LocalMedium().boot_id != LocalMedium().boot_id


def test_space_is_set_aside_and_given_back_without_changing_the_size(tmp_path: Path) -> None:
    file = LenientMedium().open(tmp_path / "f", create=True)
    file.write([b"x" * 4096], 0)
    file.reserve(4096, 1 << 20)
    taken = os.fstat(file.fileno())
    file.trim()
    left = os.fstat(file.fileno())
    assert (taken.st_size, left.st_size) == (4096, 4096)
    assert taken.st_blocks * 512 >= 1 << 20
    assert left.st_blocks * 512 < 1 << 20


def test_space_that_cannot_be_set_aside_is_only_a_wish(tmp_path: Path) -> None:
    file = LocalMedium().open(tmp_path / "f", create=True)
    file.reserve(0, 1 << 60)
    file.close()
    file.reserve(0, 1)
    file.trim()


def test_a_disk_without_space_is_told_apart_from_a_broken_one() -> None:
    file = LenientMedium().open(Path("/dev/full"))
    with pytest.raises(DiskFull, match="/dev/full: No space left on device"):
        file.write([b"x"], 0)
