"""XXH3-64 of messages: one call per message, and as little as possible around each call.

Four fifths of the time of a call on 1000 bytes is the call: making the argument, finding the
buffer behind it, making the result. Hence digests joined into one array instead of integers, and,
for short messages of one size, arguments cut out of the buffer by one call for the whole batch.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from borzoi.records.header import ID_AT

#: Up to this size copying a message into an object of its own is cheaper than a view of it.
COPIED_BYTES_MAX: Final = 512

#: Slices are kept for batches up to this many messages (100 bytes a slice, 16 batches).
KEPT_SLICES_MAX: Final = 4096

#: How xxhash writes a digest.
DIGEST: Final = np.dtype(">u8")


def checksum(hashed: bytes | bytearray | memoryview) -> int:
    """Of one message: give it bytes 8..end."""
    return xxh3_64_intdigest(hashed)


def checksums_of_equal(messages: memoryview, size: int) -> NDArray[np.uint64]:
    """Of messages that all have the same size."""
    count = len(messages) // size
    if size <= COPIED_BYTES_MAX:
        bodies = np.ndarray((count,), f"V{size - ID_AT}", messages, ID_AT, (size,)).tolist()
        return np.frombuffer(b"".join(map(xxh3_64_digest, bodies)), DIGEST)
    slices = _kept_slices(size, count) if count <= KEPT_SLICES_MAX else _slices(size, count)
    return np.frombuffer(b"".join([xxh3_64_digest(messages[each]) for each in slices]), DIGEST)


def checksums_between(
    messages: memoryview, starts: NDArray[np.int64], ends: NDArray[np.uint32]
) -> NDArray[np.uint64]:
    """Of messages that lie between these positions."""
    bounds = zip((starts + ID_AT).tolist(), ends.tolist(), strict=True)
    digests = [xxh3_64_digest(messages[start:end]) for start, end in bounds]
    return np.frombuffer(b"".join(digests), DIGEST)


def _slices(size: int, count: int) -> Sequence[slice]:
    return [slice(end - size + ID_AT, end) for end in range(size, (count + 1) * size, size)]


_kept_slices = lru_cache(maxsize=16)(_slices)
