"""JSON payloads as typed columns: a block of messages is parsed at once, by Arrow.

Every payload becomes the value of a line `{"p":PAYLOAD,"n":ROW}`. A payload that is not exactly one
JSON value breaks its line, or makes lines without their number, so that rows can never shift. If a
block cannot be parsed a shorter one is, down to the records that are corrupt: what a record yields
does not depend on its neighbours. The parser names the row that it stumbled over, which is a hint
where to cut; payloads without braces around them are not given to it at all.
"""

import re
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import json

#: Rows of the block behind a corrupt record: a parser that stumbles has looked at all of a block.
ROWS_AFTER_CORRUPT: Final = 64
#: How much larger the next block is when one was parsed.
GROWTH: Final = 4

SPACE: Final = b" \t\n\r"
_ROW = re.compile(r" in row (\d+)")


def parsed(payloads: pa.Array, columns: pa.StructType) -> pa.StructArray:
    """Payloads as values of these columns: null where one is not a JSON object of them."""
    is_candidate = _has_braces(payloads)
    if is_candidate.all():
        return _parsed_candidates(payloads, columns)
    found = _parsed_candidates(payloads.filter(pa.array(is_candidate)), columns)
    rows = np.cumsum(is_candidate) - 1
    return found.take(pa.array(rows, pa.int64(), mask=~is_candidate))


def _has_braces(payloads: pa.Array) -> NDArray[np.bool_]:
    """Which payloads begin and end with a brace or a space, as objects do."""
    _, offsets, buffer = payloads.buffers()
    count = len(payloads)
    if count == 0 or not buffer:
        return np.zeros(count, bool)
    bounds = np.frombuffer(offsets, np.int32)[payloads.offset : payloads.offset + count + 1]
    octets = np.frombuffer(buffer, np.uint8)
    begins, ends = np.zeros(256, bool), np.zeros(256, bool)
    begins[list(SPACE + b"{")] = True
    ends[list(SPACE + b"}")] = True
    # An empty payload reads a byte of a neighbour, or of the last one.
    first = octets[np.minimum(bounds[:-1], len(octets) - 1)]
    last = octets[np.maximum(bounds[1:] - 1, 0)]
    return (bounds[:-1] < bounds[1:]) & begins[first] & ends[last]


def _parsed_candidates(payloads: pa.Array, columns: pa.StructType) -> pa.StructArray:
    """The same for payloads that may be objects."""
    count = len(payloads)
    if count == 0:
        return pa.array([], columns)
    lines = _lines(payloads)
    parsing = json.ParseOptions(
        explicit_schema=pa.schema([("p", columns), ("n", pa.int64())]),
        newlines_in_values=True,
        unexpected_field_behavior="ignore",
    )
    pieces = []
    start, size = 0, count
    #: The row after a block that was cut by a hint.
    suspect = -1
    while start < count:
        tried = lines[start : start + (1 if start == suspect else size)]
        block = _block(tried, start, parsing)
        if block.values is not None:
            pieces.append(block.values.cast(columns))
            start, size = start + len(tried), max(size, len(tried) * GROWTH)
        elif len(tried) == 1:
            pieces.append(pa.nulls(1, columns))
            start, size = start + 1, max(size, ROWS_AFTER_CORRUPT)
        elif block.sound_rows is not None:
            size, suspect = max(1, block.sound_rows), start + block.sound_rows
        else:
            size = len(tried) // 2
    return pa.concat_arrays(pieces)


def _lines(payloads: pa.Array) -> pa.Array:
    """The text to parse, by rows."""
    numbers = pa.array(np.arange(len(payloads)), pa.int64())
    ends = pc.binary_join_element_wise(
        b',"n":', numbers.cast(pa.string()).cast(pa.binary()), b"}\n", b""
    )
    return pc.binary_join_element_wise(b'{"p":', payloads, ends, b"")


class Block(NamedTuple):
    """The values of some lines; or None, perhaps with the number of rows before a corrupt one."""

    values: pa.Array | None = None
    sound_rows: int | None = None


def _block(lines: pa.Array, first: int, parsing: json.ParseOptions) -> Block:
    """Parse lines that start with this row."""
    _, offsets, buffer = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[[lines.offset, lines.offset + len(lines)]].tolist()
    text = buffer.slice(bounds[0], bounds[1] - bounds[0])
    reading = json.ReadOptions(use_threads=False, block_size=text.size + 1)
    try:
        lines.cast(pa.string())  # the parser does not check that text is UTF-8
        table = json.read_json(pa.BufferReader(text), reading, parsing).combine_chunks()
    except pa.ArrowInvalid as error:
        row = _ROW.search(str(error))
        # A payload that holds lines of its own shifts the rows of the parser.
        return Block(None, int(row[1])) if row and int(row[1]) < len(lines) else Block()
    numbers = table.column("n").chunk(0)
    if not numbers.equals(pa.array(np.arange(first, first + len(lines)), pa.int64())):
        return Block()
    return Block(table.column("p").chunk(0))
