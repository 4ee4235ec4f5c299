"""Partitions that also say, in bytes that Java finds, which ranges of segments a task reads.

::

    bytes    field       big-endian
    0..16    magic       255, borzoi-segments
    16..24   resume      i64, the offset from which Python reads; -1 for the start of the split
    24..     stream      u16 and as many bytes of UTF-8
             topic       the same
             partition   i32
             count       i32, of pieces; then for each of them
             directory   u16 and as many bytes of UTF-8
             base, start, end   i64 each: the segment, and the offsets of the range

The bytes are one attribute of the pickled partition, and so lie in the pickle as they are. A task
that meets something it does not know sets `resume` and gives the partition to the Python reader.
"""

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql.datasource import InputPartition

from borzoi.spark.options import SourceOptions
from borzoi.spark.plan import Split
from borzoi.spark.segments import Piece

HEAD: Final = struct.Struct(">16sq")
LENGTH: Final = struct.Struct(">H")
COUNTS: Final = struct.Struct(">ii")
RANGE: Final = struct.Struct(">qqq")
#: 255 is in no text, so no name or path in the pickle is taken for it.
MAGIC: Final = b"\xffborzoi-segments"
#: The least share of the bytes that segments must have: other tasks only get slower.
SHARE_MIN: Final = 0.5


class SegmentPartition(InputPartition):
    """A partition whose task may read its segments inside the JVM."""

    def __init__(self, value: Split) -> None:
        super().__init__(value)
        self.jvm = described(value)

    @property
    def rest(self) -> Split:
        """What Python has to read: the split, or what the JVM left of it."""
        _, resume = HEAD.unpack_from(self.jvm)
        return self.value if resume < 0 else resumed(self.value, resume)


def described(split: Split) -> bytes:
    """The bytes that the Java classes read."""
    stream, _, topic = split.key.topic.partition("/")
    parts = [HEAD.pack(MAGIC, -1), _text(stream), _text(topic)]
    parts.append(COUNTS.pack(split.key.partition, len(split.pieces)))
    for piece in split.pieces:
        parts += [_text(f"{piece.directory}"), RANGE.pack(piece.base, piece.start, piece.end)]
    return b"".join(parts)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return LENGTH.pack(len(encoded)) + encoded


def resumed(split: Split, offset: int) -> Split:
    """The split without the messages before the offset."""
    pieces = tuple(
        replace(piece, start=max(piece.start, offset))
        for piece in split.pieces
        if piece.end > offset
    )
    return replace(split, start=offset, pieces=pieces)


def partitions_of(splits: Sequence[Split], options: SourceOptions) -> list[InputPartition]:
    """The splits as partitions, for the JVM where it can read enough of them."""
    flags = [is_known(options) and is_direct(split) for split in splits]
    share = sum(split.size for split, flag in zip(splits, flags, strict=True) if flag)
    is_worth_it = share >= SHARE_MIN * sum(split.size for split in splits)
    return [
        SegmentPartition(split) if flag and is_worth_it else InputPartition(split)
        for split, flag in zip(splits, flags, strict=True)
    ]


def is_known(options: SourceOptions) -> bool:
    """Whether the Java classes give the columns the form that the options ask for."""
    return (
        options.jvm == "auto"
        and options.plane == "row"
        and options.verify == "none"
        and options.payload_format == "binary"
        and options.headers in ("raw", "none")
    )


def is_direct(split: Split) -> bool:
    """Whether plain segments hold all of a split. A compressed one is left to Python."""
    is_whole = bool(split.pieces) and split.pieces[-1].end == split.end
    return is_whole and all(is_plain(piece) for piece in split.pieces)


def is_plain(piece: Piece) -> bool:
    """Whether a segment is not compressed, and has a path that Java can be told."""
    path = f"{piece.directory}"
    is_text = path.encode(errors="replace").decode() == path
    return is_text and (piece.directory / f"{piece.base:020}.log").exists()
