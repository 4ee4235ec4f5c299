"""Message ids that a repeated attempt reproduces, so that stored messages are recognised.

::

    way        id, most significant first                                       repeatable when
    lineage    hash of query and source topic (32), source partition (20),     always
               ordinal among the rows of one message (12), source offset (64)
    position   hash of the query (64), epoch (24), task (16), row (24)         the plan is fixed
    key        hash of query, epoch, the named columns and their ordinal (128)  rows are the same
    column     the column `id` (128)                                           ids are unique

All functions work on whole columns. Ids are 16 bytes as they travel, dtype V16.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from borzoi.spark.options import InvalidOption

ORDINAL_BITS: Final = 12
PARTITION_BITS: Final = 20
EPOCH_BITS, TASK_BITS, ROW_BITS = 24, 16, 24

Ids = NDArray[Any]


def ids_of_words(high: NDArray[np.uint64] | int, low: NDArray[np.uint64]) -> Ids:
    """Ids from their two halves; the wire is little-endian, so the low half comes first."""
    words = np.empty((len(low), 2), "<u8")
    words[:, 0] = low
    words[:, 1] = high
    return words.reshape(-1).view("V16")


def query_hash(query: str, topic: str = "") -> int:
    return xxh3_64_intdigest(f"{query}\0{topic}".encode())


class Lineage:
    """Ids from the origin of each row; rows of one message are numbered in their order."""

    def __init__(self, query: str) -> None:
        self._query = query
        #: Origin of the last row of the previous batch, and how many rows it has had.
        self._last: tuple[int, int, int] | None = None
        self._ordinal = 0

    def ids(self, topics: NDArray[Any], partitions: NDArray[Any], offsets: NDArray[Any]) -> Ids:
        """`topics` are 32-bit hashes of the source topics (`topic_hashes`)."""
        count = len(offsets)
        if count == 0:
            return np.empty(0, "V16")
        if int(partitions.max()) >= 1 << PARTITION_BITS:
            raise InvalidOption("ids by lineage have room for partitions up to 1048575")
        ordinals = self._ordinals(topics, partitions, offsets)
        if int(ordinals.max()) >= 1 << ORDINAL_BITS:
            raise InvalidOption("ids by lineage have room for 4096 rows from one message")
        high = topics.astype(np.uint64) << np.uint64(32)
        high |= partitions.astype(np.uint64) << np.uint64(ORDINAL_BITS)
        high |= ordinals.astype(np.uint64)
        return ids_of_words(high, offsets.astype(np.uint64))

    def _ordinals(
        self, topics: NDArray[Any], partitions: NDArray[Any], offsets: NDArray[Any]
    ) -> NDArray[np.int64]:
        """0, 1, 2 … within each run of rows that come from the same message."""
        count = len(offsets)
        is_new = np.ones(count, bool)
        is_new[1:] = (
            (offsets[1:] != offsets[:-1])
            | (partitions[1:] != partitions[:-1])
            | (topics[1:] != topics[:-1])
        )
        numbers = np.arange(count)
        ordinals = numbers - np.maximum.accumulate(np.where(is_new, numbers, 0))
        first = (int(topics[0]), int(partitions[0]), int(offsets[0]))
        if first == self._last:
            # A message whose first rows are in the previous batch.
            length = int(is_new[1:].argmax()) + 1 if is_new[1:].any() else count
            ordinals[:length] += self._ordinal + 1
        self._last = (int(topics[-1]), int(partitions[-1]), int(offsets[-1]))
        self._ordinal = int(ordinals[-1])
        return ordinals


def topic_hashes(query: str, names: pa.Array | None, count: int) -> NDArray[np.uint64]:
    """32 bits for the source topic of each row; few names, so each is hashed once."""
    if names is None:
        return np.full(count, query_hash(query) >> 32, np.uint64)
    encoded = names.dictionary_encode()
    hashes = [query_hash(query, str(name)) >> 32 for name in encoded.dictionary.to_pylist()]
    chosen: NDArray[np.uint64] = np.array(hashes, np.uint64)
    return chosen[np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)]


def position_ids(query: str, epoch: int, task: int, first_row: int, count: int) -> Ids:
    """Ids from the place of each row in its task."""
    if epoch >= 1 << EPOCH_BITS or task >= 1 << TASK_BITS or first_row + count > 1 << ROW_BITS:
        raise InvalidOption(
            "ids by position have room for 16777216 epochs and rows of a task, and 65536 tasks"
        )
    low = np.arange(first_row, first_row + count, dtype=np.uint64)
    low |= np.uint64(epoch << (TASK_BITS + ROW_BITS) | task << ROW_BITS)
    return ids_of_words(query_hash(query), low)


class Keys:
    """Ids from the values of the columns that make a row unique; equal rows are numbered."""

    def __init__(self, query: str, epoch: int) -> None:
        self._prefix = f"{query}\0{epoch}\0"
        self._seen: Counter[tuple[Any, ...]] = Counter()

    def ids(self, columns: Sequence[pa.Array]) -> Ids:
        digests = []
        for row in zip(*(column.to_pylist() for column in columns), strict=True):
            text = f"{self._prefix}{self._seen[row]}\0{row!r}"
            self._seen[row] += 1
            digests.append(xxh3_128_digest(text.encode()))
        return np.array(digests, "V16") if digests else np.empty(0, "V16")
