"""Stored and polled messages as columns, and columns as the messages of a request.

Everything that reads messages in bulk (data frames, Spark, archives) works on a `Run`: one buffer,
the bounds of its messages, and their headers gathered into one array by a single pass (15-30 ns a
message at any alignment). A run comes from a range of a segment and its index entries
(`run_between`), or from a poll answer, which has no index (`run_of`). There is no Python loop over
messages except in `walk`, for poll answers whose messages differ in size.

The other direction is `header_block`: the headers of a request, built as one array. Bodies are
joined and gathered by Arrow (`arrow.py`), which does both in C++.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from borzoi.model.errors import (
    InvalidMessagesSize,
    InvalidOffset,
    InvalidReservedField,
    PayloadTooBig,
    UserHeadersTooBig,
)
from borzoi.model.limits import (
    HEADER_BYTES,
    PAYLOAD_BYTES_MAX,
    USER_HEADER_BYTES_MAX,
    USER_HEADERS_BYTES_MAX,
)
from borzoi.model.value import Value
from borzoi.records.batch import walk
from borzoi.records.columns import gathered_column
from borzoi.records.header import HEADER_DTYPE
from borzoi.records.user_headers import KINDS, PREFIX
from borzoi.records.validation import INDEX_DTYPE

Buffer = bytes | bytearray | memoryview
Positions = NDArray[np.int64]

#: A header gathered as plain bytes and viewed as fields afterwards: field by field is slower.
HEADER_BLOCK: Final = np.dtype(f"V{HEADER_BYTES}")

#: Bytes of messages in one batch of columns. 1 to 16 MiB are equally fast; 64 MiB is slower.
BATCH_BYTES: Final = 4 * 1024 * 1024

#: Producers send batches of one shape over and over. The indexes of up to this many messages are
#: kept, for 64 shapes.
KEPT_INDEXES_COUNT_MAX: Final = 4096


class Run(Value):
    """Whole messages in one buffer, in order; back to back, unless some were left out."""

    buffer: memoryview
    #: Where each message starts and ends in the buffer.
    starts: Positions
    ends: Positions
    #: The headers, one item of HEADER_DTYPE each: a copy.
    headers: NDArray[Any]

    @property
    def count(self) -> int:
        return len(self.ends)

    @property
    def payload_starts(self) -> Positions:
        return self.starts + HEADER_BYTES

    @property
    def payload_ends(self) -> Positions:
        """Where the payloads end and the user headers start."""
        return self.starts + (self.headers["payload_length"].astype(np.int64) + HEADER_BYTES)

    def part(self, low: int, high: int) -> Self:
        """The messages `low` up to `high`, over a slice of the same buffer."""
        if low >= high:
            none = self.ends[:0]
            return type(self)(self.buffer[:0], none, none, self.headers[:0])
        base = int(self.starts[low])
        return type(self)(
            self.buffer[base : int(self.ends[high - 1])],
            self.starts[low:high] - base,
            self.ends[low:high] - base,
            self.headers[low:high],
        )

    def chosen(self, wanted: NDArray[np.bool_]) -> Self:
        """The messages for which `wanted` is true, over the same buffer."""
        return type(self)(self.buffer, self.starts[wanted], self.ends[wanted], self.headers[wanted])


# Reading. ----------------------------------------------------------------------------------------


def run_of(messages: Buffer) -> Run:
    """The messages of a poll answer, found by their headers; raises when they do not add up."""
    batch = walk(memoryview(messages))
    return run_between(batch.messages, batch.ends.astype(np.int64))


def run_between(messages: Buffer, ends: Positions) -> Run:
    """Messages that end at these positions of the buffer, the last one at its end.

    The headers are read as they are: `check_run` compares them with the positions.
    """
    view = memoryview(messages)
    count = len(ends)
    if (int(ends[-1]) if count else 0) != len(view):
        raise InvalidMessagesSize(f"{count} messages do not end with their {len(view)} bytes")
    starts = np.zeros(count, np.int64)
    starts[1:] = ends[:-1]
    if count == 0:
        return Run(view, starts, starts, np.empty(0, HEADER_DTYPE))
    if int((ends - starts).min()) < HEADER_BYTES:
        raise InvalidMessagesSize("an index entry leaves no room for a message header")
    headers = gathered_column(view, starts, 0, HEADER_BLOCK).view(HEADER_DTYPE)
    return Run(view, starts, ends, headers)


def check_run(run: Run, first_offset: int) -> None:
    """Raise when headers and positions disagree, or the offsets do not count from `first_offset`.

    A few comparisons of whole columns; checksums are for `batch.verify`.
    """
    headers = run.headers
    bodies = headers["payload_length"].astype(np.int64) + headers["user_headers_length"]
    wrong = run.ends - run.starts != bodies + HEADER_BYTES
    if wrong.any():
        raise InvalidMessagesSize(
            f"message {first_offset + int(wrong.argmax())} does not have the size in its header"
        )
    expected = np.arange(first_offset, first_offset + run.count, dtype=np.uint64)
    wrong = headers["offset"] != expected
    if wrong.any():
        at = int(wrong.argmax())
        raise InvalidOffset(f"found offset {headers['offset'][at]} in place of {first_offset + at}")
    wrong = headers["reserved"] != 0
    if wrong.any():
        raise InvalidReservedField(
            f"the reserved field of message {first_offset + int(wrong.argmax())} is not zero"
        )


def cuts(ends: Positions, *, bytes_max: int = BATCH_BYTES, base: int = 0) -> Iterator[slice]:
    """Slices of about `bytes_max` bytes, at least one message each.

    `base` is where the first message starts.
    """
    low = 0
    while low < len(ends):
        high = max(low + 1, int(np.searchsorted(ends, base + bytes_max, side="right")))
        yield slice(low, high)
        low, base = high, int(ends[high - 1])


def parts(run: Run, *, bytes_max: int = BATCH_BYTES) -> Iterator[Run]:
    """The run in pieces of about `bytes_max` bytes."""
    for piece in cuts(run.ends, bytes_max=bytes_max):
        yield run.part(piece.start, piece.stop)


# User headers of all messages at once. -----------------------------------------------------------


class Pairs(NamedTuple):
    """User headers, pair by pair in the order of the messages; bounds are positions in the run."""

    rows: NDArray[np.int64]
    key_kinds: NDArray[np.uint8]
    key_starts: Positions
    key_ends: Positions
    value_kinds: NDArray[np.uint8]
    value_starts: Positions
    value_ends: Positions
    #: Of each message, whether its headers cannot be read; none of its pairs is listed.
    damaged: NDArray[np.bool_]


def header_pairs(run: Run) -> Pairs:
    """The pairs of every message.

    All messages move from pair to pair together: the loop runs as often as the message with the
    most pairs needs.
    """
    damaged = np.zeros(run.count, bool)
    rows = np.flatnonzero(run.headers["user_headers_length"]).astype(np.int64)
    positions, limits = run.payload_ends[rows], run.ends[rows]
    found: list[tuple[NDArray[Any], ...]] = []
    while len(rows):
        key_kinds, key_starts, key_ends, is_key = _parts_at(run.buffer, positions, limits)
        at_value = np.where(is_key, key_ends, positions)
        value_kinds, value_starts, value_ends, is_value = _parts_at(run.buffer, at_value, limits)
        sound = is_key & is_value
        damaged[rows[~sound]] = True
        pair = (rows, key_kinds, key_starts, key_ends, value_kinds, value_starts, value_ends)
        found.append(tuple(column[sound] for column in pair))
        goes_on = sound & (value_ends < limits)
        rows, positions, limits = rows[goes_on], value_ends[goes_on], limits[goes_on]
    return _in_order(found, damaged)


def _parts_at(
    buffer: memoryview, positions: Positions, limits: Positions
) -> tuple[NDArray[np.uint8], Positions, Positions, NDArray[np.bool_]]:
    """Kind, start and end of the key or value at each position, and whether there is a sound one.

    Where a prefix does not fit before the limit, another place is read and the result ignored.
    """
    has_prefix = positions + PREFIX.size <= limits
    safe = np.where(has_prefix, positions, 0)
    octets = np.frombuffer(buffer, np.uint8)
    kinds = octets[safe]
    lengths = gathered_column(buffer, safe + 1, 0, np.dtype("<u4")).astype(np.int64)
    starts = safe + PREFIX.size
    ends = starts + lengths
    sound = has_prefix & (kinds >= min(KINDS)) & (kinds <= max(KINDS))
    sound &= (lengths >= 1) & (lengths <= USER_HEADER_BYTES_MAX) & (ends <= limits)
    return kinds, starts, ends, sound


def _in_order(found: list[tuple[NDArray[Any], ...]], damaged: NDArray[np.bool_]) -> Pairs:
    if not found:
        none = np.empty(0, np.int64)
        kinds = np.empty(0, np.uint8)
        return Pairs(none, kinds, none, none, kinds, none, none, damaged)
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    order = order[~damaged[columns[0][order]]]
    rows, key_kinds, key_starts, key_ends, *value = (column[order] for column in columns)
    return Pairs(rows, key_kinds, key_starts, key_ends, value[0], value[1], value[2], damaged)


# Writing. ----------------------------------------------------------------------------------------


class Encoded(NamedTuple):
    """Messages for a request, and where each of them ends."""

    messages: memoryview
    ends: Positions


class SendSections(Value):
    """The sections of one SendMessages request."""

    indexes: bytes
    messages: memoryview
    count: int


def header_block(
    payload_lengths: NDArray[Any],
    user_headers_lengths: NDArray[Any],
    *,
    ids: NDArray[Any] | None = None,
    origin_timestamps: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """The headers of a request, one item of HEADER_DTYPE each; the server's fields are zero.

    `ids` are 16 bytes each as they travel (dtype V16); without them the server gives ids.
    """
    _check_lengths(payload_lengths, PAYLOAD_BYTES_MAX, PayloadTooBig, "payload")
    _check_lengths(user_headers_lengths, USER_HEADERS_BYTES_MAX, UserHeadersTooBig, "user headers")
    headers = np.zeros(len(payload_lengths), HEADER_DTYPE)
    headers["payload_length"] = payload_lengths
    headers["user_headers_length"] = user_headers_lengths
    if ids is not None:
        headers["id"] = ids
    if origin_timestamps is not None:
        headers["origin_timestamp"] = origin_timestamps
    return headers


def requests(encoded: Encoded, *, bytes_max: int, count_max: int) -> Iterator[SendSections]:
    """The messages in requests of bounded size, at least one message each."""
    base = 0
    for piece in cuts(encoded.ends, bytes_max=bytes_max):
        for low in range(piece.start, piece.stop, count_max):
            ends = encoded.ends[low : min(low + count_max, piece.stop)]
            yield SendSections(
                request_indexes(ends, base), encoded.messages[base : int(ends[-1])], len(ends)
            )
            base = int(ends[-1])


def request_indexes(ends: Positions, base: int = 0) -> bytes:
    """The index section of a request whose first message starts at `base` of these positions."""
    entries = np.zeros(len(ends), INDEX_DTYPE)
    entries["position"] = ends - base
    return entries.tobytes()


def equal_indexes(size: int, count: int) -> bytes:
    """The index section of a request whose messages all have this size."""
    return (_kept_indexes if count <= KEPT_INDEXES_COUNT_MAX else _equal_indexes)(size, count)


def _equal_indexes(size: int, count: int) -> bytes:
    return request_indexes(np.arange(size, size * count + 1, size, dtype=np.int64))


_kept_indexes = lru_cache(maxsize=64)(_equal_indexes)


def _check_lengths(
    lengths: NDArray[Any], most: int, fault: type[PayloadTooBig | UserHeadersTooBig], what: str
) -> None:
    too_big = lengths > most
    if too_big.any():
        row = int(too_big.argmax())
        raise fault(f"row {row} has {lengths[row]} bytes of {what}; {most:,} are allowed")
