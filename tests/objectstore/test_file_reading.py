import os
from pathlib import Path

import pytest

from borzoi.objectstore.file_reading import MAPPED_BYTES_MIN, read_piece


@pytest.mark.parametrize("length", [0, 1, 1000, MAPPED_BYTES_MIN - 1, MAPPED_BYTES_MIN, 700_000])
def test_a_piece_is_what_the_file_has_there(tmp_path: Path, length: int) -> None:
    data = os.urandom(MAPPED_BYTES_MIN * 2)
    (tmp_path / "file").write_bytes(data)
    with (tmp_path / "file").open("rb") as file:
        for position in (0, 100, len(data) - 10, len(data), len(data) + 5):
            found = read_piece(file.fileno(), length, position)
            assert bytes(found) == data[position : position + length]


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, views, at: real(file, [views[0][:3]], at))
    (tmp_path / "file").write_bytes(b"0123456789")
    with (tmp_path / "file").open("rb") as file:
        assert bytes(read_piece(file.fileno(), 8, 1)) == b"12345678"
