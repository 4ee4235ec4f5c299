import os
from pathlib import Path

import pytest

from borzoi.server.data_directory import DataDirectory, DirectoryInUse, directory_fault


def test_one_server_works_on_a_directory_at_a_time(tmp_path: Path) -> None:
    with DataDirectory(tmp_path / "data"):
        with pytest.raises(DirectoryInUse, match=f"process {os.getpid()}"):
            DataDirectory(tmp_path / "data")
    DataDirectory(tmp_path / "data").close()


def test_a_place_where_nothing_can_be_made_is_found_without_making_anything(
    tmp_path: Path,
) -> None:
    assert directory_fault(tmp_path / "a" / "b") is None
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    assert "Not a directory" in str(directory_fault(tmp_path / "file" / "data"))


def test_a_directory_that_others_may_enter_is_told(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with DataDirectory(data) as directory:
        data.chmod(0o750)
        assert "(mode 0750)" in str(directory.open_to_others)
        data.chmod(0o700)
        assert directory.open_to_others is None
