"""One suite for every medium, and the functions that stand on the interface."""

from pathlib import Path

import pytest
from tests.support.disk import SimulatedDisk
from tests.support.faults import Fault, FaultyMedium
from tests.support.lenient import LenientMedium

from borzoi.model.errors import CannotSync, StorageFailure
from borzoi.model.limits import VECTORS_MAX
from borzoi.storage.media import Medium, read_exactly, replace_file, write_all


@pytest.fixture(params=[LenientMedium, SimulatedDisk])
def medium(request: pytest.FixtureRequest) -> Medium:
    made: Medium = request.param()
    return made


@pytest.fixture
def directory(medium: Medium, tmp_path: Path) -> Path:
    path = tmp_path / "a" / "b"
    medium.make_directory(path)
    return path


def test_what_is_written_is_read(medium: Medium, directory: Path) -> None:
    file = medium.open(directory / "f", create=True)
    assert file.write([b"hello ", memoryview(b"world")], 3) == 11
    assert file.size() == 14
    assert file.read(100, 0) == bytes(3) + b"hello world"
    assert file.read(5, 9) == b"world"
    assert file.read(5, 14) == b""
    file.fdatasync()


def test_a_file_can_be_cut_and_grown(medium: Medium, directory: Path) -> None:
    file = medium.open(directory / "f", create=True)
    file.write([b"0123456789"], 0)
    file.truncate(4)
    assert file.read(10, 0) == b"0123"
    file.truncate(8)
    assert file.read(10, 0) == b"0123" + bytes(4)


def test_reserving_space_changes_nothing_that_is_read(medium: Medium, directory: Path) -> None:
    file = medium.open(directory / "f", create=True)
    file.write([b"0123"], 0)
    file.reserve(4, 1 << 20)
    assert (file.size(), file.read(10, 0)) == (4, b"0123")
    file.write([b"45"], 4)
    file.trim()
    assert (file.size(), file.read(10, 0)) == (6, b"012345")


def test_a_missing_file_is_an_error_unless_it_is_created(medium: Medium, directory: Path) -> None:
    with pytest.raises(StorageFailure):
        medium.open(directory / "f")
    medium.open(directory / "f", create=True)
    assert medium.exists(directory / "f")
    assert medium.open(directory / "f", writable=False).size() == 0


def test_names_are_listed_moved_and_removed(medium: Medium, directory: Path) -> None:
    medium.open(directory / "a", create=True).write([b"new"], 0)
    medium.open(directory / "b", create=True).write([b"old"], 0)
    assert sorted(medium.list(directory)) == ["a", "b"]
    medium.rename(directory / "a", directory / "b")
    assert medium.list(directory) == ["b"]
    assert medium.open(directory / "b").read(10, 0) == b"new"
    medium.unlink(directory / "b")
    medium.unlink(directory / "b")
    assert medium.list(directory) == []
    assert medium.list(directory / "nowhere") == []


def test_an_open_file_outlives_its_name(medium: Medium, directory: Path) -> None:
    file = medium.open(directory / "f", create=True)
    file.write([b"still here"], 0)
    medium.unlink(directory / "f")
    assert file.read(10, 0) == b"still here"


def test_directories_are_made_with_their_parents_and_say_what_changed(
    medium: Medium, tmp_path: Path
) -> None:
    medium.make_directory(tmp_path)
    changed = medium.make_directory(tmp_path / "x" / "y")
    assert set(changed) == {tmp_path, tmp_path / "x"}
    assert medium.make_directory(tmp_path / "x" / "y") == []
    medium.fsync_directory(tmp_path / "x")
    medium.remove_tree(tmp_path / "x")
    medium.remove_tree(tmp_path / "x")
    assert not medium.exists(tmp_path / "x" / "y")
    with pytest.raises((CannotSync, StorageFailure)):
        medium.fsync_directory(tmp_path / "x")


def test_the_boot_stays_the_same(medium: Medium) -> None:
    assert medium.boot_id == medium.boot_id != ""


def test_all_is_written_however_little_goes_at_once(tmp_path: Path) -> None:
    medium = FaultyMedium(LenientMedium(), lambda *_: Fault.SHORT_WRITE)
    file = medium.open(tmp_path / "f", create=True)
    assert write_all(file, [b"abc", b"", b"defghij", b"k"], 2) == 13
    assert file.file.read(20, 0) == bytes(2) + b"abcdefghijk"
    assert len(medium.operations) > 3


def test_more_buffers_than_a_call_takes_are_written(tmp_path: Path) -> None:
    file = LenientMedium().open(tmp_path / "f", create=True)
    count = VECTORS_MAX * 2 + 3
    assert write_all(file, [bytes([each % 256]) for each in range(count)], 0) == count
    assert file.read(count, 0) == bytes(each % 256 for each in range(count))


def test_a_file_that_takes_nothing_is_an_error(tmp_path: Path) -> None:
    class Stuck:
        path = tmp_path / "f"

        def write(self, buffers: object, position: int) -> int:
            return 0

    with pytest.raises(StorageFailure, match="no more bytes"):
        write_all(Stuck(), [b"x"], 0)  # type: ignore[arg-type]


def test_fewer_bytes_than_expected_are_an_error(medium: Medium, directory: Path) -> None:
    file = medium.open(directory / "f", create=True)
    file.write([b"abc"], 0)
    assert read_exactly(file, 2, 1) == b"bc"
    with pytest.raises(StorageFailure, match="2 of the 3 bytes"):
        read_exactly(file, 3, 1)


def test_a_file_is_replaced_in_one_step(medium: Medium, directory: Path) -> None:
    replace_file(medium, directory / "f", b"a long first content")
    replace_file(medium, directory / "f", b"short")
    assert medium.list(directory) == ["f"]
    assert medium.open(directory / "f").read(100, 0) == b"short"


def test_one_buffer_that_is_written_in_pieces_is_written_whole() -> None:
    medium = FaultyMedium(
        SimulatedDisk(), lambda name, _: Fault.SHORT_WRITE if name == "write" else None
    )
    medium.make_directory(Path("/d"))
    file = medium.open(Path("/d/f"), create=True)
    assert write_all(file, [b"0123456789"], 5) == 15
    assert file.read(100, 5) == b"0123456789"
