import os
from pathlib import Path

import pytest

from borzoi.server.data_directory import DataDirectory, DirectoryInUse


def test_one_server_works_on_a_directory_at_a_time(tmp_path: Path) -> None:
    with DataDirectory(tmp_path / "data"):
        with pytest.raises(DirectoryInUse, match=f"process {os.getpid()}"):
            DataDirectory(tmp_path / "data")
    DataDirectory(tmp_path / "data").close()


def test_emptying_keeps_the_lock(tmp_path: Path) -> None:
    (tmp_path / "streams" / "0").mkdir(parents=True)
    (tmp_path / "state.messages").write_bytes(b"x")
    (tmp_path / "link").symlink_to("/")
    with DataDirectory(tmp_path) as directory:
        directory.empty()
        assert [path.name for path in tmp_path.iterdir()] == ["borzoi.lock"]
        with pytest.raises(DirectoryInUse):
            DataDirectory(tmp_path)
