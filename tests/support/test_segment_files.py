"""Segments made for tests are what the format says."""

from pathlib import Path

from tests.support.segment_files import FIRST_TIME, STEP, write_segment

from borzoi.records.message import Message, decode_messages


def test_a_segment_has_a_log_and_an_index(tmp_path: Path) -> None:
    end = write_segment(tmp_path, 5, [[Message(b"a")], [Message(b"b"), Message(b"c")]])
    assert end == 8
    found = decode_messages((tmp_path / f"{5:020}.log").read_bytes())
    assert [(m.offset, m.payload) for m in found] == [(5, b"a"), (6, b"b"), (7, b"c")]
    assert [m.timestamp - FIRST_TIME for m in found] == [0, STEP, STEP]
    assert len((tmp_path / f"{5:020}.index").read_bytes()) == 3 * 16
