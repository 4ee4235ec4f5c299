import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.starts import start_with

from borzoi.model.errors import InvalidConfiguration
from borzoi.server import exit_statuses
from borzoi.server.data_directory import DataDirectory, DirectoryInUse
from borzoi.server.launching import Start, launch
from borzoi.server.placement import ALONE, Placement, Seat


@pytest.fixture(autouse=True)
def _the_process_is_as_before() -> Iterator[None]:
    umask = os.umask(0)
    os.umask(umask)
    yield
    os.umask(umask)
    root = logging.getLogger("borzoi")
    root.propagate = True
    root.setLevel(logging.NOTSET)
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()


def start_in(
    folder: Path, *, fresh: bool = False, placement: Placement = ALONE, **variables: str
) -> Start:
    environment = {"BORZOI_SYSTEM_PATH": str(folder), "BORZOI_TCP_ENABLED": "false", **variables}
    return start_with(environment, folder.parent, fresh=fresh, placement=placement)


def test_it_serves_in_a_directory_that_is_locked_and_private(tmp_path: Path) -> None:
    def serve(_: Start, directory: DataDirectory) -> int:
        with pytest.raises(DirectoryInUse):
            DataDirectory(directory.path)
        (directory.path / "made").touch()
        return 42

    assert launch(start_in(tmp_path / "data"), serve) == 42
    assert (tmp_path / "data" / "made").stat().st_mode & 0o777 == 0o600
    DataDirectory(tmp_path / "data").close()


def test_a_fresh_start_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "data" / "streams" / "0").mkdir(parents=True)
    (tmp_path / "data" / "info.json").touch()
    seen: list[set[str]] = []

    def serve(_: Start, directory: DataDirectory) -> int:
        seen.append({path.name for path in directory.path.iterdir()})
        return 0

    assert launch(start_in(tmp_path / "data", fresh=True), serve) == 0
    assert seen == [{"borzoi.lock", "logs"}]


@pytest.mark.parametrize(
    "fault", [InvalidConfiguration("it is not so"), OSError(5, "it is not so")]
)
def test_what_keeps_it_from_starting_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: Exception
) -> None:
    def serve(*_: object) -> int:
        raise fault

    assert launch(start_in(tmp_path / "data"), serve) == exit_statuses.CANNOT_START
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("borzoi cannot start: ")
    assert line.endswith("it is not so")


def test_what_is_odd_about_the_start_is_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    placement = Placement((Seat(),), ("three share two",))
    assert launch(start_in(tmp_path / "data", placement=placement), lambda *_: 0) == 0
    logged = capsys.readouterr().err
    assert "is open to other users" in logged
    assert "three share two" in logged
