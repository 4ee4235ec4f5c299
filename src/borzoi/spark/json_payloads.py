"""JSON payloads as typed columns: a block of messages is parsed at once, by Arrow.

Every payload becomes the value of a line `{"p":PAYLOAD,"n":ROW}`. A payload that is not exactly one
JSON value breaks its line, or makes lines without their number, so that rows can never shift. If a
block cannot be parsed its halves are, down to the records that are corrupt: what a record yields
does not depend on its neighbours.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json


def parsed(payloads: pa.Array, columns: pa.StructType) -> pa.StructArray:
    """Payloads as values of these columns: null where one is not a JSON object of them."""
    pieces = list(_pieces(payloads, columns))
    return pa.concat_arrays(pieces) if pieces else pa.array([], columns)


def _pieces(payloads: pa.Array, columns: pa.StructType) -> Iterator[pa.Array]:
    """The values in order, in pieces as large as can be parsed."""
    pending = [payloads] if len(payloads) else []
    while pending:
        block = pending.pop()
        values = _block(block, columns)
        if values is not None:
            yield values
        elif len(block) == 1:
            yield pa.nulls(1, columns)
        else:
            middle = len(block) // 2
            pending += [block[middle:], block[:middle]]


def _block(payloads: pa.Array, columns: pa.StructType) -> pa.Array | None:
    """The values of a block, or None when one of its payloads is corrupt."""
    numbers = pa.array(np.arange(len(payloads)), pa.int64())
    lines = _lines(payloads, numbers)
    reading = json.ReadOptions(use_threads=False, block_size=lines.size + 1)
    parsing = json.ParseOptions(
        explicit_schema=pa.schema([("p", columns), ("n", pa.int64())]),
        newlines_in_values=True,
        unexpected_field_behavior="ignore",
    )
    try:
        payloads.cast(pa.string())  # the parser does not check that text is UTF-8
        table = json.read_json(pa.BufferReader(lines), reading, parsing)
    except pa.ArrowInvalid:
        return None
    table = table.combine_chunks()
    if not table.column("n").equals(pa.chunked_array([numbers])):
        return None
    return table.column("p").chunk(0).cast(columns)


def _lines(payloads: pa.Array, numbers: pa.Array) -> pa.Buffer:
    """The text to parse, as one buffer."""
    ends = pc.binary_join_element_wise(
        b',"n":', numbers.cast(pa.string()).cast(pa.binary()), b"}\n", b""
    )
    joined = pc.binary_join_element_wise(b'{"p":', payloads, ends, b"")
    _, offsets, text = joined.buffers()
    return text.slice(0, int(np.frombuffer(offsets, np.int32)[len(payloads)]))
