import os
from pathlib import Path

import pytest

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.data_directory import DataDirectory, DirectoryInUse, directory_fault


def test_one_server_works_on_a_directory_at_a_time(tmp_path: Path) -> None:
    with DataDirectory(tmp_path / "data"):
        with pytest.raises(DirectoryInUse, match=f"process {os.getpid()}"):
            DataDirectory(tmp_path / "data")
    DataDirectory(tmp_path / "data").close()


def test_emptying_keeps_the_lock(tmp_path: Path) -> None:
    (tmp_path / "streams" / "0").mkdir(parents=True)
    (tmp_path / "state.messages").write_bytes(b"x")
    (tmp_path / "logs").symlink_to("/")
    (tmp_path / "presence.json.tmp").touch()
    with DataDirectory(tmp_path) as directory:
        directory.empty({"streams", "logs"})
        assert [path.name for path in tmp_path.iterdir()] == ["borzoi.lock"]
        with pytest.raises(DirectoryInUse):
            DataDirectory(tmp_path)
        directory.empty(set())


def test_only_the_data_directory_of_a_server_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with DataDirectory(tmp_path) as directory:
        with pytest.raises(InvalidConfiguration, match="not the data directory of a server"):
            directory.empty({"logs"})
        (tmp_path / "info.json").touch()
        (tmp_path / "thesis.tex").touch()
        with pytest.raises(InvalidConfiguration, match=r"1 things that no server.*thesis\.tex"):
            directory.empty({"logs"})
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "borzoi.lock",
            "info.json",
            "logs",
            "thesis.tex",
        ]


def test_the_directory_of_the_published_server_may_be_emptied(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "log").touch()
    (tmp_path / "streams").mkdir()
    with DataDirectory(tmp_path) as directory:
        directory.empty({"streams"})
    assert [path.name for path in tmp_path.iterdir()] == ["borzoi.lock"]


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
