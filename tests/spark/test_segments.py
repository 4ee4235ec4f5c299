"""Segments read from the disk, against a parser that reads one message after the other."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.record_strategies import messages
from tests.support.segment_files import FIRST_TIME, STEP, write_segment

from borzoi.model.errors import InvalidMessagesSize
from borzoi.model.topics import Compression
from borzoi.records.message import Message, decode_messages
from borzoi.spark.segments import (
    Piece,
    SealedSegment,
    SegmentGone,
    all_segments,
    body_size,
    index_between,
    list_bases,
    offset_from_time,
    open_body,
    partition_directory,
    read_runs,
    sealed_segments,
)

batches = st.lists(st.lists(messages(), min_size=1, max_size=8), min_size=1, max_size=6)


@given(
    batches,
    st.sampled_from(Compression),
    st.integers(1, 4000),
    st.tuples(st.integers(0, 50), st.integers(0, 50)),
)
def test_any_piece_of_a_segment_reads_as_the_slow_parser_reads_it(
    sent: list[list[Message]], compression: Compression, bytes_max: int, bounds: tuple[int, int]
) -> None:
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        end = write_segment(directory, 100, sent, compression)
        low, high = sorted(100 + bound % (end - 100 + 1) for bound in bounds)
        body = open_body(directory, 100)
        everything = decode_messages(body.read(0, body.size))
        if low == high:
            return
        piece = Piece(directory, 100, low, high, 0)
        found: list[Message] = []
        for offset, run in read_runs(piece, bytes_max=bytes_max):
            assert offset == low + len(found)
            found += decode_messages(run.buffer)
        assert found == everything[low - 100 : high - 100]


def three(directory: Path) -> None:
    at = 0
    for count in (3, 4, 2):
        at = write_segment(directory, at, [[Message(b"%d" % n)] for n in range(count)])


def test_every_segment_but_the_last_is_sealed(tmp_path: Path) -> None:
    three(tmp_path)
    (tmp_path / "recovery.point").write_bytes(b"")
    (tmp_path / "00000000000000000009.log.tmp").write_bytes(b"")
    assert list_bases(tmp_path) == [0, 3, 7]
    assert sealed_segments(tmp_path) == [
        SealedSegment(tmp_path, 0, 3),
        SealedSegment(tmp_path, 3, 7),
    ]
    assert all_segments(tmp_path)[-1] == SealedSegment(tmp_path, 7, 9)
    assert list_bases(tmp_path / "absent") == []
    assert all_segments(tmp_path / "absent") == []


def test_the_open_segment_is_read_as_far_as_log_and_index_agree(tmp_path: Path) -> None:
    three(tmp_path)
    log = tmp_path / f"{7:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    assert all_segments(tmp_path)[-1].end == 8
    log.write_bytes(b"")
    assert body_size(tmp_path, 7) == 0
    assert all_segments(tmp_path)[-1].end == 7


def test_what_is_gone_is_said(tmp_path: Path) -> None:
    three(tmp_path)
    with pytest.raises(SegmentGone, match="ends before offset 5"):
        index_between(tmp_path, 0, 0, 5)
    (tmp_path / f"{0:020}.log").unlink()
    with pytest.raises(SegmentGone, match="segment 0 is missing"):
        open_body(tmp_path, 0)
    (tmp_path / f"{0:020}.index").unlink()
    with pytest.raises(SegmentGone, match="index of segment 0"):
        index_between(tmp_path, 0, 0, 1)


def test_an_index_that_does_not_fit_its_log_is_refused(tmp_path: Path) -> None:
    three(tmp_path)
    (tmp_path / f"{0:020}.log").write_bytes((tmp_path / f"{3:020}.log").read_bytes()[:100])
    with pytest.raises(InvalidMessagesSize):
        list(read_runs(Piece(tmp_path, 0, 0, 3, 0)))


def test_times_are_found_by_the_index(tmp_path: Path) -> None:
    end = write_segment(tmp_path, 10, [[Message(b"a")] * 3, [Message(b"b")] * 2])
    segment = SealedSegment(tmp_path, 10, end)
    assert offset_from_time(segment, 0) == 10
    assert offset_from_time(segment, FIRST_TIME) == 10
    assert offset_from_time(segment, FIRST_TIME + 1) == 13
    assert offset_from_time(segment, FIRST_TIME + STEP + 1) == 15


def test_partitions_lie_where_the_server_puts_them() -> None:
    found = partition_directory(Path("data"), 1, 2, 3)
    assert found == Path("data/streams/1/topics/2/partitions/3")
