"""Runs of messages as Arrow record batches, and Arrow columns as the messages of a request.

pyarrow is an extra: only callers that hand out data frames import this module.

====================  =========================  ==================================================
column                type                       holds
====================  =========================  ==================================================
stream, topic         string                     what the caller says
partition             int32                      what the caller says
offset                int64
timestamp             timestamp[us, UTC]         when the server appended the message
origin_timestamp      timestamp[us, UTC]         when the client made it; null beyond 63 bits
id                    binary                     16 bytes, most significant first, as a UUID prints
checksum              int64                      the 64 bits of XXH3, read as signed
headers               see HeadersForm
payload               binary
====================  =========================  ==================================================

Bodies are gathered by one `take` over the buffer of the run: an array whose elements are, in turn,
a body and the gap behind it. The encoder joins headers, payloads and user headers element by
element; the values buffer of the result is the message section of a request, and its offsets are
the index. Offsets are 32 bits, as Spark requires, so a batch stays below 2 GiB.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from borzoi.model.errors import InvalidHeaderValue, InvalidMessagesSize
from borzoi.model.limits import HEADER_BYTES
from borzoi.records.columnar import Encoded as Encoded
from borzoi.records.columnar import Pairs, Positions, Run, header_block, header_pairs
from borzoi.records.columnar import SendSections as SendSections
from borzoi.records.columnar import requests as requests
from borzoi.records.columns import gathered_column
from borzoi.records.user_headers import WIDTHS, HeaderKind, HeaderValue

#: Arrow `binary` counts its bytes in 31 bits.
ARROW_BYTES_MAX: Final = 2**31 - 1
ID_BYTES: Final = 16
I64_MAX: Final = 2**63 - 1

#: How a `binary_view` column refers to a value. Shorter ones would lie in the view itself.
VIEW_DTYPE: Final = np.dtype(
    [("length", "<i4"), ("prefix", "V4"), ("buffer", "<i4"), ("start", "<i4")]
)
VIEWED_BYTES_MIN: Final = 13

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
TYPED_HEADERS: Final = pa.list_(
    pa.struct(
        [
            pa.field("key", pa.string()),
            pa.field("kind", pa.string()),
            pa.field("value", pa.binary()),
        ]
    )
)


class HeadersForm(Enum):
    """How the user headers of a message become a column."""

    RAW = "raw"  # the bytes as stored
    MAP = "map"  # map<string, string>; values as text, raw bytes as hexadecimal digits
    TYPED = "typed"  # list of (key, kind, bytes of the value)


HEADERS_TYPES: Final[Mapping[HeadersForm, pa.DataType]] = {
    HeadersForm.RAW: pa.binary(),
    HeadersForm.MAP: pa.map_(pa.string(), pa.string()),
    HeadersForm.TYPED: TYPED_HEADERS,
}

COLUMN_TYPES: Final[Mapping[str, pa.DataType]] = {
    "stream": pa.string(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "origin_timestamp": TIMESTAMP,
    "id": pa.binary(),
    "checksum": pa.int64(),
    "headers": pa.binary(),
    "payload": pa.binary(),
}

#: What a reader gets when it does not choose.
DEFAULT_COLUMNS: Final = (
    "partition",
    "offset",
    "timestamp",
    "origin_timestamp",
    "id",
    "headers",
    "payload",
)
#: Columns that the caller's constants fill.
CONSTANTS: Final = ("stream", "topic", "partition")


def schema_of(
    columns: Sequence[str] = DEFAULT_COLUMNS, *, headers: HeadersForm = HeadersForm.RAW
) -> pa.Schema:
    """The Arrow schema of these columns, in this order."""
    return pa.schema(
        [
            pa.field(name, HEADERS_TYPES[headers] if name == "headers" else COLUMN_TYPES[name])
            for name in columns
        ]
    )


def record_batch(
    run: Run,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    *,
    constants: Mapping[str, str | int] | None = None,
    headers: HeadersForm = HeadersForm.RAW,
) -> pa.RecordBatch:
    """These columns of the run, as one `pyarrow.RecordBatch` that shares no memory with it."""
    if len(run.buffer) > ARROW_BYTES_MAX:
        raise InvalidMessagesSize("a record batch is limited to 2 GiB of messages: cut the run")
    schema = schema_of(columns, headers=headers)
    arrays = [_column(run, name, constants or {}, headers) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(
    run: Run, name: str, constants: Mapping[str, str | int], headers: HeadersForm
) -> pa.Array:
    match name:
        case "payload":
            return _gathered(run.buffer, run.payload_starts, run.payload_ends)
        case "headers":
            return _headers_column(run, headers)
        case "offset" | "checksum":
            return numbers(run.headers[name].view(np.int64))
        case "timestamp" | "origin_timestamp":
            return timestamps(run.headers[name])
        case "id":
            return _fixed(run.headers["id"].copy().view("u1").reshape(-1, ID_BYTES)[:, ::-1])
        case _:
            return constant(name, constants[name], run.count)


def constant(name: str, value: str | int, count: int) -> pa.Array:
    """A column of COLUMN_TYPES with one value throughout."""
    if isinstance(value, int):
        return numbers(np.full(count, value, np.int32))
    encoded = np.frombuffer(value.encode(), np.uint8)
    return _fixed(np.broadcast_to(encoded, (count, len(encoded)))).view(pa.string())


def timestamps(micros: NDArray[np.uint64]) -> pa.Array:
    """Microseconds as an Arrow column; null beyond 63 bits, which clients may send."""
    beyond = micros > I64_MAX
    column = numbers(np.ascontiguousarray(micros).view(np.int64))
    if beyond.any():
        column = pc.if_else(_flags(~beyond), column, pa.scalar(None, pa.int64()))
    return column.view(TIMESTAMP)


def numbers(values: NDArray[Any]) -> pa.Array:
    """An array of numbers as an Arrow array.

    `pa.array` would import pandas where it is installed, which takes 30 MB and a third of a second.
    """
    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def ascii_texts(texts: Sequence[str]) -> pa.Array:
    """Texts of ASCII characters as an Arrow array, without pandas as well."""
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer("".join(texts).encode("ascii"))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def _flags(values: NDArray[np.bool_]) -> pa.Array:
    packed = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(packed)])


def _gathered(buffer: memoryview, starts: Positions, ends: Positions) -> pa.Array:
    """A `binary` array of the ranges, which must be in order and not overlap: a copy."""
    count = len(starts)
    if count == 0:
        return _fixed(np.empty((0, 0), np.uint8))
    offsets = np.empty(2 * count, np.int32)
    offsets[::2] = starts
    offsets[1::2] = ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    ranges_and_gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    return ranges_and_gaps.take(numbers(np.arange(0, 2 * count - 1, 2, dtype=np.int32)))


def payload_views(run: Run) -> pa.Array:
    """The payloads as a `binary_view` column that shares the memory of the run.

    It takes a tenth of the time of the column `payload`, which is a copy. Not every reader of Arrow
    knows views, so they are for columns that are encoded once more, as in Parquet.
    """
    lengths, starts = run.headers["payload_length"], run.payload_starts
    if not run.count or int(lengths.min()) < VIEWED_BYTES_MIN:
        return _gathered(run.buffer, starts, run.payload_ends).cast(pa.binary_view())
    views = np.zeros(run.count, VIEW_DTYPE)
    views["length"], views["start"] = lengths, starts
    views["prefix"] = gathered_column(run.buffer, starts, 0, VIEW_DTYPE["prefix"])
    buffers = [None, pa.py_buffer(views), pa.py_buffer(run.buffer)]
    return pa.Array.from_buffers(pa.binary_view(), run.count, buffers)


def _fixed(rows: NDArray[np.uint8]) -> pa.Array:
    """A `binary` array of the rows of a matrix of bytes."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


# User headers. -----------------------------------------------------------------------------------


def _headers_column(run: Run, form: HeadersForm) -> pa.Array:
    if form is HeadersForm.RAW:
        return _gathered(run.buffer, run.payload_ends, run.ends)
    pairs = header_pairs(run)
    counts = np.bincount(pairs.rows, minlength=run.count)
    offsets = np.zeros(run.count + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    keys = _texts(run, pairs.key_kinds, pairs.key_starts, pairs.key_ends)
    mask = _flags(pairs.damaged)
    if form is HeadersForm.MAP:
        values = _texts(run, pairs.value_kinds, pairs.value_starts, pairs.value_ends)
        return pa.MapArray.from_arrays(numbers(offsets), keys, values, mask=mask)
    return pa.ListArray.from_arrays(
        numbers(offsets), _typed_pairs(run, pairs, keys), type=TYPED_HEADERS, mask=mask
    )


def _typed_pairs(run: Run, pairs: Pairs, keys: pa.Array) -> pa.Array:
    kinds = ascii_texts([kind.name.lower() for kind in HeaderKind])
    named = kinds.take(numbers(pairs.value_kinds.astype(np.int32) - 1))
    values = _gathered(run.buffer, pairs.value_starts, pairs.value_ends)
    return pa.StructArray.from_arrays([keys, named, values], fields=list(TYPED_HEADERS.value_type))


def _texts(run: Run, kinds: NDArray[np.uint8], starts: Positions, ends: Positions) -> pa.Array:
    """Keys or values as text: strings as they are, numbers in digits, other bytes in hexadecimal.

    Strings are gathered all at once when every one is UTF-8, numbers kind by kind.
    """
    if len(kinds) == 0:
        return ascii_texts([])
    places, texts = [], []
    for code in np.unique(kinds):
        at = np.flatnonzero(kinds == code)
        places.append(at)
        texts.append(_texts_of_kind(run.buffer, HeaderKind(code), starts[at], ends[at]))
    order = np.empty(len(kinds), np.int64)
    order[np.concatenate(places)] = np.arange(len(kinds))
    return pa.concat_arrays(texts).take(numbers(order))


#: Kinds that numpy can read, with the type of their items.
NUMBERS: Final[Mapping[HeaderKind, str]] = {
    HeaderKind.INT8: "<i1",
    HeaderKind.INT16: "<i2",
    HeaderKind.INT32: "<i4",
    HeaderKind.INT64: "<i8",
    HeaderKind.UINT8: "<u1",
    HeaderKind.UINT16: "<u2",
    HeaderKind.UINT32: "<u4",
    HeaderKind.UINT64: "<u8",
}


def _texts_of_kind(
    buffer: memoryview, kind: HeaderKind, starts: Positions, ends: Positions
) -> pa.Array:
    if kind is HeaderKind.STRING:
        gathered = _gathered(buffer, starts, ends)
        try:
            return gathered.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([value.decode(errors="replace") for value in gathered.to_pylist()])
    if kind in NUMBERS and bool((ends - starts == WIDTHS[kind]).all()):
        found = gathered_column(buffer, starts, 0, np.dtype(NUMBERS[kind]))
        return numbers(found).cast(pa.string())
    values = _gathered(buffer, starts, ends).to_pylist()
    return pa.array([_text(HeaderValue(kind, value)) for value in values], pa.string())


def _text(value: HeaderValue) -> str:
    """One value as text; the bytes in hexadecimal digits when they do not fit their kind."""
    try:
        plain = value.value
    except InvalidHeaderValue:
        return value.data.hex()
    match plain:
        case bytes():
            return plain.hex()
        case bool():
            return "true" if plain else "false"
        case _:
            return str(plain)


# Writing. ----------------------------------------------------------------------------------------


def encode(
    payloads: pa.Array,
    *,
    ids: NDArray[Any] | None = None,
    headers: pa.Array | None = None,
    origin_timestamps: NDArray[Any] | None = None,
) -> Encoded:
    """Arrow columns as messages: `binary` or `string` payloads, `binary` headers (null is none).

    `ids` are 16 bytes each as they travel (dtype V16).
    """
    payloads = _without_nulls(payloads, "payload")
    lengths = _lengths(payloads)
    if headers is None:
        header_lengths = np.zeros(len(payloads), np.int32)
    else:
        headers = pc.fill_null(headers.cast(pa.binary()), b"")
        header_lengths = _lengths(headers)
    total = int(lengths.sum(dtype=np.int64) + header_lengths.sum(dtype=np.int64))
    if total + HEADER_BYTES * len(payloads) > ARROW_BYTES_MAX:
        raise InvalidMessagesSize("a batch to encode is limited to 2 GiB of messages")
    block = header_block(lengths, header_lengths, ids=ids, origin_timestamps=origin_timestamps)
    fronts = _fixed(block.view("u1").reshape(len(block), HEADER_BYTES))
    bodies = [payloads] if headers is None else [payloads, headers]
    separator = _fixed(np.empty((1, 0), np.uint8))[0]
    joined = pc.binary_join_element_wise(fronts, *bodies, separator)
    return _values_of(joined)


def _lengths(column: pa.Array) -> NDArray[np.int32]:
    """The length of each element of a `binary` array."""
    if len(column) == 0:
        return np.empty(0, np.int32)
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return np.diff(offsets[column.offset : column.offset + len(column) + 1])


def _without_nulls(column: pa.Array, name: str) -> pa.Array:
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise InvalidMessagesSize(f"row {row} has no {name}; null is not a message")
    return column.cast(pa.binary())


def _values_of(array: pa.Array) -> Encoded:
    count = len(array)
    if count == 0:
        return Encoded(memoryview(b""), np.empty(0, np.int64))
    _, offsets, values = array.buffers()
    positions = np.frombuffer(offsets, np.int32)[array.offset : array.offset + count + 1]
    base = int(positions[0])
    messages = memoryview(values)[base : int(positions[-1])]
    return Encoded(messages, positions[1:].astype(np.int64) - base)


def wire_ids(ids: pa.Array) -> NDArray[Any]:
    """A `binary` column of 16-byte ids, most significant byte first, as they travel; null is 0."""
    filled = pc.fill_null(ids, bytes(ID_BYTES))
    wrong = pc.not_equal(pc.binary_length(filled), ID_BYTES).to_pylist()
    if True in wrong:
        raise InvalidMessagesSize(f"the id of row {wrong.index(True)} does not have 16 bytes")
    values = np.frombuffer(_values_of(filled).messages, np.uint8).reshape(-1, ID_BYTES)
    return np.ascontiguousarray(values[:, ::-1]).view(f"V{ID_BYTES}").reshape(-1)
