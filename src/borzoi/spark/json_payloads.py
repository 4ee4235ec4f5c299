"""JSON payloads as typed columns: a block of messages is parsed at once, by Arrow.

Every payload becomes the value of a line `{"p":PAYLOAD,"n":ROW}`. A payload that is not exactly one
JSON value breaks its line, or makes lines without their number, so that rows can never shift. If a
block cannot be parsed its halves are, down to the records that are corrupt: what a record yields
does not depend on its neighbours.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json


def parsed(payloads: pa.Array, columns: pa.StructType) -> pa.StructArray:
    """Payloads as values of these columns: null where one is not a JSON object of them."""
    if len(payloads) == 0:
        return pa.array([], columns)
    lines = _lines(payloads)
    parsing = json.ParseOptions(
        explicit_schema=pa.schema([("p", columns), ("n", pa.int64())]),
        newlines_in_values=True,
        unexpected_field_behavior="ignore",
    )
    pieces = []
    pending = [(0, len(payloads))]
    while pending:
        start, end = pending.pop()
        values = _block(lines[start:end], start, parsing)
        if values is not None:
            pieces.append(values.cast(columns))
        elif end - start == 1:
            pieces.append(pa.nulls(1, columns))
        else:
            middle = (start + end) // 2
            pending += [(middle, end), (start, middle)]
    return pa.concat_arrays(pieces)


def _lines(payloads: pa.Array) -> pa.Array:
    """The text to parse, by rows."""
    numbers = pa.array(np.arange(len(payloads)), pa.int64())
    ends = pc.binary_join_element_wise(
        b',"n":', numbers.cast(pa.string()).cast(pa.binary()), b"}\n", b""
    )
    return pc.binary_join_element_wise(b'{"p":', payloads, ends, b"")


def _block(lines: pa.Array, first: int, parsing: json.ParseOptions) -> pa.Array | None:
    """The values of lines that start with this row, or None when one of them is corrupt."""
    _, offsets, buffer = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[[lines.offset, lines.offset + len(lines)]].tolist()
    text = buffer.slice(bounds[0], bounds[1] - bounds[0])
    reading = json.ReadOptions(use_threads=False, block_size=text.size + 1)
    try:
        lines.cast(pa.string())  # the parser does not check that text is UTF-8
        table = json.read_json(pa.BufferReader(text), reading, parsing).combine_chunks()
    except pa.ArrowInvalid:
        return None
    numbers = table.column("n").chunk(0)
    if not numbers.equals(pa.array(np.arange(first, first + len(lines)), pa.int64())):
        return None
    return table.column("p").chunk(0)
