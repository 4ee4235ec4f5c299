from pathlib import Path

import pytest

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.data_directory import DataDirectory, DirectoryInUse
from borzoi.server.emptying import empty, own_directories
from borzoi.server.settings import Settings


def test_emptying_keeps_the_lock(tmp_path: Path) -> None:
    (tmp_path / "streams" / "0").mkdir(parents=True)
    (tmp_path / "state.messages").write_bytes(b"x")
    (tmp_path / "logs").symlink_to("/")
    (tmp_path / "presence.json.tmp").touch()
    with DataDirectory(tmp_path):
        empty(tmp_path, {"streams", "logs"})
        assert [path.name for path in tmp_path.iterdir()] == ["borzoi.lock"]
        with pytest.raises(DirectoryInUse):
            DataDirectory(tmp_path)
        empty(tmp_path, set())


def test_only_the_data_directory_of_a_server_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with DataDirectory(tmp_path):
        with pytest.raises(InvalidConfiguration, match="not the data directory of a server"):
            empty(tmp_path, {"logs"})
        (tmp_path / "info.json").touch()
        (tmp_path / "thesis.tex").touch()
        with pytest.raises(InvalidConfiguration, match=r"1 entries that no server.*thesis\.tex"):
            empty(tmp_path, {"logs"})
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
    with DataDirectory(tmp_path):
        empty(tmp_path, {"streams"})
    assert [path.name for path in tmp_path.iterdir()] == ["borzoi.lock"]


def test_the_directories_of_the_settings_are_known() -> None:
    assert own_directories(Settings()) == {"streams", "runtime", "logs", "backup", "compatibility"}
