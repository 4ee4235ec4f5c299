"""What a partition says to the JVM, and what Python reads of it afterwards."""

import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.segment_files import write_segment

from borzoi.model.topics import Compression
from borzoi.records.message import Message
from borzoi.spark.jvm.splits import MAGIC, SegmentPartition, partitions_of, resumed
from borzoi.spark.offsets import PartitionKey
from borzoi.spark.options import source_options
from borzoi.spark.plan import Split
from borzoi.spark.segments import Piece

KEY = PartitionKey("shop/orders", 3)
OPTIONS = source_options({"subscribe": "shop/orders"})


def split_of(directory: Path, *bounds: int) -> Split:
    """Pieces between neighbouring bounds, each of a segment that begins there."""
    pieces = tuple(
        Piece(directory, start, start, end, 100 * (end - start)) for start, end in pairwise(bounds)
    )
    return Split(KEY, bounds[0], bounds[-1], sum(each.size for each in pieces), pieces)


def written(directory: Path, *bounds: int, compression: Compression = Compression.NONE) -> Split:
    """The same, with the segments."""
    for start, end in pairwise(bounds):
        write_segment(directory, start, [[Message(b"x")] * (end - start)], compression)
    return split_of(directory, *bounds)


def are_direct(splits: list[Split], **options: str) -> list[bool]:
    parsed = source_options({"subscribe": "shop/orders"} | options)
    return [isinstance(each, SegmentPartition) for each in partitions_of(splits, parsed)]


def test_the_bytes_for_java_lie_in_the_pickle_as_they_are() -> None:
    # 3,000 pieces, so that the pickler puts them outside its frames.
    made = SegmentPartition(split_of(Path("/data/Straße"), *range(3001)))
    pickled = pickle.dumps(made)
    assert made.jvm in pickled
    assert pickled.count(MAGIC) == 1
    assert len(made.jvm) > 64 * 1024
    assert pickle.loads(pickled).rest == made.value


def test_no_name_is_taken_for_the_bytes_for_java() -> None:
    name = MAGIC.decode("latin-1")
    named = replace(split_of(Path("/") / name, 0, 1), key=PartitionKey(f"{name}/{name}", 0))
    assert pickle.dumps(SegmentPartition(named)).count(MAGIC) == 1


@pytest.mark.parametrize("offset", [5, 6, 9, 10, 14])
def test_python_reads_from_the_offset_that_the_jvm_wrote(offset: int) -> None:
    made = SegmentPartition(split_of(Path("/data"), 5, 10, 15))
    pickled = bytearray(pickle.dumps(made))
    at = pickled.index(MAGIC) + len(MAGIC)
    pickled[at : at + 8] = offset.to_bytes(8, "big")
    rest = pickle.loads(bytes(pickled)).rest
    assert (rest.start, rest.end) == (offset, 15)
    read = [n for piece in rest.pieces for n in range(piece.start, piece.end)]
    assert read == list(range(offset, 15))
    assert {piece.base for piece in rest.pieces} <= {5, 10}


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 60))
def test_what_is_left_of_a_split_is_its_end(sizes: list[int], skipped: int) -> None:
    bounds = [100]
    for size in sizes:
        bounds.append(bounds[-1] + size)
    offset = min(100 + skipped, bounds[-1] - 1)
    rest = resumed(split_of(Path("/data"), *bounds), offset)
    assert [n for piece in rest.pieces for n in range(piece.start, piece.end)] == list(
        range(offset, bounds[-1])
    )


def test_plain_segments_are_for_the_jvm(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain", 0, 3, 8)
    packed = written(tmp_path / "packed", 0, 3, 8, compression=Compression.GZIP)
    assert are_direct([plain]) == [True]
    assert are_direct([packed]) == [False]
    assert are_direct([plain, packed]) == [True, False]
    (tmp_path / "plain" / f"{3:020}.log").unlink()
    assert are_direct([plain]) == [False]
    assert are_direct([]) == []


def test_a_path_that_is_no_text_is_left_to_python(tmp_path: Path) -> None:
    assert are_direct([written(tmp_path / "Stra\u00dfe", 0, 3)]) == [True]
    assert are_direct([written(tmp_path / "Stra\udcdfe", 0, 3)]) == [False]


def test_what_comes_from_the_server_is_for_python(tmp_path: Path) -> None:
    plain = written(tmp_path, 0, 3, 8)
    tail = Split(KEY, 8, 9, plain.size)
    assert are_direct([plain, tail]) == [True, False]
    assert are_direct([plain, replace(tail, size=plain.size + 1)]) == [False, False]
    assert are_direct([replace(plain, end=9)]) == [False], "the rest of it is polled"


@pytest.mark.parametrize(
    "options",
    [
        {"jvm": "off"},
        {"plane": "bulk"},
        {"verify": "checksum"},
        {"payloadFormat": "string"},
        {"headers": "map"},
        {"headers": "typed"},
    ],
)
def test_forms_that_only_python_knows(tmp_path: Path, options: dict[str, str]) -> None:
    plain = written(tmp_path, 0, 3)
    assert are_direct([plain], headers="none") == [True]
    assert are_direct([plain], **options) == [False]
