"""The work of a task on segments without a server."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.segment_files import FIRST_TIME, STEP, write_segment

from borzoi.model.errors import InvalidChecksum
from borzoi.records.message import Message
from borzoi.spark.offsets import PartitionKey
from borzoi.spark.options import ConnectionOptions, SourceOptions
from borzoi.spark.plan import Split
from borzoi.spark.reading import first_header, index_batches, read_batches, read_runs_of
from borzoi.spark.rows import Shape
from borzoi.spark.segments import Piece, SegmentGone

OPTIONS = SourceOptions(ConnectionOptions("nowhere:1"), segments="direct-only")


@pytest.fixture
def split(tmp_path: Path) -> Split:
    """Offsets 2 to 7 of two segments with four messages each."""
    for base in (0, 4):
        write_segment(tmp_path, base, [[Message(b"%d" % (base + n))] for n in range(4)])
    pieces = (Piece(tmp_path, 0, 2, 4, 0), Piece(tmp_path, 4, 4, 7, 0))
    return Split(PartitionKey("s/t", 3), 2, 7, 0, pieces)


def test_pieces_are_read_one_after_the_other(split: Split) -> None:
    shape = Shape(("topic", "partition", "offset", "payload"), is_text=True)
    table = pa.Table.from_batches(read_batches(split, OPTIONS, shape))
    assert table.column("offset").to_pylist() == [2, 3, 4, 5, 6]
    assert table.column("payload").to_pylist() == ["2", "3", "4", "5", "6"]
    assert set(table.column("partition").to_pylist()) == {3}
    assert set(table.column("topic").to_pylist()) == {"t"}


def test_offset_and_time_come_from_the_index_alone(split: Split) -> None:
    for log in split.pieces[0].directory.glob("*.log"):
        log.unlink()
    shape = Shape(("offset", "timestamp", "stream"))
    table = pa.Table.from_batches(read_batches(split, OPTIONS, shape))
    assert table.column("offset").to_pylist() == [2, 3, 4, 5, 6]
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [FIRST_TIME + n * STEP for n in (2, 3, 0, 1, 2)]
    assert sum(batch.num_rows for batch in index_batches(split, shape)) == 5


def test_without_a_server_a_missing_segment_ends_the_task(split: Split) -> None:
    (split.pieces[0].directory / f"{4:020}.log").unlink()
    with pytest.raises(SegmentGone):
        list(read_runs_of(split, OPTIONS))
    (split.pieces[0].directory / f"{4:020}.index").unlink()
    with pytest.raises(SegmentGone):
        list(read_batches(split, OPTIONS, Shape(("offset",))))


def test_a_damaged_message_is_found_when_checksums_are_asked_for(split: Split) -> None:
    log = split.pieces[0].directory / f"{4:020}.log"
    damaged = bytearray(log.read_bytes())
    damaged[65 + 64] ^= 1
    log.write_bytes(damaged)
    assert sum(run.count for run in read_runs_of(split, OPTIONS)) == 5
    with pytest.raises(InvalidChecksum, match="message 5"):
        list(read_runs_of(split, replace(OPTIONS, verify="checksum")))


def test_the_first_header_is_a_witness(split: Split) -> None:
    log = (split.pieces[0].directory / f"{0:020}.log").read_bytes()
    assert first_header(split) == log[2 * 65 : 2 * 65 + 64]
