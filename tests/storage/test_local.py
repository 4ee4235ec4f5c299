import os
from pathlib import Path

import pytest

from borzoi.model.errors import CannotSync, StorageFailure
from borzoi.storage import local
from borzoi.storage.local import LocalMedium


def test_a_descriptor_is_closed_with_the_last_reference(tmp_path: Path) -> None:
    file = LocalMedium().open(tmp_path / "f", create=True)
    descriptor = file.fileno()
    os.fstat(descriptor)
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_every_failure_of_the_system_becomes_one_of_ours(tmp_path: Path) -> None:
    medium = LocalMedium()
    file = medium.open(tmp_path / "f", create=True)
    os.close(file.fileno())
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
    file = LocalMedium().open(tmp_path / "f", create=True)
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
    file = LocalMedium().open(tmp_path / "f", create=True)
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
    os.close(file.fileno())
    file.reserve(0, 1)
    file.trim()
