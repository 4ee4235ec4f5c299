import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from borzoi.model.errors import InvalidConfiguration
from borzoi.server.logs import (
    FILE_NAME,
    FILES_MAX,
    file_name,
    files_kept,
    forgotten,
    remove_forgotten,
    start_logging,
)
from borzoi.server.settings import LoggingSection


@pytest.fixture(autouse=True)
def quiet_again() -> Iterator[None]:
    yield
    start_logging(LoggingSection(file_enabled=False), Path())
    logging.getLogger("borzoi").propagate = True
    logging.getLogger("borzoi").setLevel(logging.NOTSET)
    for handler in list(logging.getLogger("borzoi").handlers):
        logging.getLogger("borzoi").removeHandler(handler)


def test_lines_go_to_the_console_and_to_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging(LoggingSection(), tmp_path)
    logging.getLogger("borzoi.test").info("a line")
    logging.getLogger("borzoi.test").debug("not worth one")
    text = (tmp_path / "logs" / "borzoi.log").read_text()
    assert "a line" in text
    assert "not worth" not in text
    assert "a line" in capsys.readouterr().err


def test_a_file_that_is_full_makes_room_for_the_next(tmp_path: Path) -> None:
    settings = LoggingSection(max_file_size=200, max_total_size=400)
    start_logging(settings, tmp_path)
    for number in range(20):
        logging.getLogger("borzoi.test").info("line %d", number)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
        "borzoi.log",
        "borzoi.log.1",
        "borzoi.log.2",
    ]


def test_a_log_file_that_cannot_be_written_is_told_before_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "borzoi.log").mkdir(parents=True)
    for path, why in (
        ("file", "File exists"),
        ("file/below", "Not a directory"),
        ("taken", "Is a directory"),
    ):
        said = rf"^system\.logging\.path: borzoi\.log cannot be written in {tmp_path / path}: {why}"
        with pytest.raises(InvalidConfiguration, match=said):
            start_logging(LoggingSection(path=path), tmp_path)
        start_logging(LoggingSection(path=path, file_enabled=False), tmp_path)


def test_how_many_files_fit() -> None:
    assert files_kept(100, 450) == 4
    assert files_kept(500, 100) == 1
    assert files_kept(0, 100) == files_kept(100, 0) == FILES_MAX


def test_old_files_go_first_then_the_oldest_until_the_rest_fits() -> None:
    files = [(Path(f"{age}"), 100.0 - age, 10) for age in (1, 2, 3, 50)]
    assert forgotten(files, now=100, keep_for=10, total_max=0) == [Path("50")]
    assert forgotten(files, now=100, keep_for=10, total_max=20) == [Path("50"), Path("3")]


def test_only_rotated_files_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("borzoi.log", "borzoi.log.1", "other.txt"):
        (folder / name).write_text("x")
        os.utime(folder / name, (0, 0))
    remove_forgotten(LoggingSection(), tmp_path, now=10**10)
    assert sorted(path.name for path in folder.iterdir()) == ["borzoi.log", "other.txt"]


def test_each_of_several_processes_has_its_own_files_and_its_name_in_every_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start_logging(LoggingSection(), tmp_path, "shard-1")
    logging.getLogger("borzoi.test").warning("a line")
    (line,) = (tmp_path / "logs" / "borzoi-shard-1.log").read_text().splitlines()
    assert line.startswith("[shard-1] ")
    assert line.endswith("borzoi.test: a line")
    assert line in capsys.readouterr().err
    assert file_name(None) == FILE_NAME


def test_the_files_of_all_processes_count_together(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for age, name in enumerate(("borzoi.log.1", "borzoi-shard-0.log.1", "borzoi-shard-1.log.2")):
        (folder / name).write_bytes(bytes(100))
        os.utime(folder / name, (1000 - age, 1000 - age))
    (folder / "borzoi-shard-0.log").write_bytes(bytes(1000))
    remove_forgotten(LoggingSection(max_total_size=250), tmp_path, now=1001)
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["borzoi-shard-0.log", "borzoi-shard-0.log.1", "borzoi.log.1"]


def test_a_full_disk_costs_lines_but_no_traceback_and_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "borzoi.log").symlink_to("/dev/full")
    start_logging(LoggingSection(max_file_size=0), tmp_path)
    for number in range(3):
        logging.getLogger("borzoi.test").info("line %d", number)
    told = capsys.readouterr().err
    assert told.count("borzoi.log loses lines: No space left on device") == 1
    assert "Traceback" not in told
    assert all(f"line {number}" in told for number in range(3))
    # What could not be written is still in the stream's buffer, which is closed with it.
    for handler in logging.getLogger("borzoi").handlers:
        if isinstance(handler, logging.FileHandler):
            with contextlib.suppress(OSError):
                handler.close()
            handler.stream = None
