"""Files that cross once and are numbers afterwards."""

import os
from pathlib import Path

import pytest
from tests.support.descriptors import is_open
from tests.support.lenient import LenientMedium

from borzoi.model.errors import InvalidFormat, StorageFailure
from borzoi.shard.crossing_files import Announcement, ReceivedFiles, SentFiles
from borzoi.storage.compressed import FrameCache


@pytest.fixture
def medium() -> LenientMedium:
    return LenientMedium()


def announced(sent: SentFiles, file) -> tuple[int, Announcement]:
    number, found = sent.number_of(file)
    assert found is not None
    announcement, descriptor = found
    os.close(descriptor)
    return number, announcement


def test_a_file_is_announced_once_however_it_is_opened(medium, tmp_path: Path):
    path = tmp_path / "0.log"
    sent = SentFiles(files_max=256)
    with medium.open(path, create=True) as first:
        number, announcement = announced(sent, first)
        assert announcement == Announcement(number, str(path))
        assert sent.number_of(first) == (number, None)
    # The open segment, then the sealed one: another descriptor of the same file.
    with medium.open(path, writable=False) as second:
        assert sent.number_of(second) == (number, None)


def test_the_files_used_least_go_when_there_are_too_many(medium, tmp_path: Path):
    sent = SentFiles(files_max=2)
    files = [medium.open(tmp_path / f"{n}.log", create=True) for n in range(3)]
    numbers = [announced(sent, file)[0] for file in files[:2]]
    assert sent.surplus() == []
    sent.number_of(files[0])
    announced(sent, files[2])
    assert sent.surplus() == [numbers[1]]
    assert len(sent) == 2


def test_a_file_that_was_deleted_renamed_or_replaced_is_gone(medium, tmp_path: Path):
    sent = SentFiles(files_max=256)
    paths = [tmp_path / f"{n}.log" for n in range(4)]
    files = [medium.open(path, create=True) for path in paths]
    numbers = [announced(sent, file)[0] for file in files]
    assert sent.gone() == []
    paths[0].unlink()
    paths[1].rename(tmp_path / "trash")
    paths[2].rename(tmp_path / "elsewhere")
    paths[2].write_bytes(b"another file")
    assert sent.gone() == numbers[:3]
    assert sent.gone() == []
    number, announcement = announced(sent, medium.open(paths[2], writable=False))
    assert number not in numbers
    assert announcement.path == str(paths[2])


def test_a_file_that_is_closed_cannot_cross(medium, tmp_path: Path):
    file = medium.open(tmp_path / "0.log", create=True)
    file.close()
    with pytest.raises(StorageFailure, match="hand over"):
        SentFiles(files_max=256).number_of(file)


def test_a_received_file_stays_open_while_it_is_sent_from(medium, tmp_path: Path):
    path = tmp_path / "0.log"
    path.write_bytes(b"stored")
    received = ReceivedFiles(FrameCache())
    descriptor = os.open(path, os.O_RDONLY)
    received.add(Announcement(7, str(path)), descriptor)
    file = received.get(7)
    received.drop([7, 8])
    assert len(received) == 0
    assert file.read(6, 0) == b"stored"
    assert file.path == path
    del file
    assert not is_open(descriptor)


def test_a_number_that_was_not_announced_is_refused(tmp_path: Path):
    received = ReceivedFiles(FrameCache())
    with pytest.raises(InvalidFormat, match="not announced"):
        received.get(1)
    (tmp_path / "x").touch()
    received.add(Announcement(1, str(tmp_path / "x")), os.open(tmp_path / "x", os.O_RDONLY))
    assert [file.path.name for file in received] == ["x"]
    received.clear()
    assert len(received) == 0
