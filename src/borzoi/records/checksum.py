"""XXH3-64 of messages: one call per message, and as little as possible around each call.

Four fifths of the time of a call on 1000 bytes is the call: making the argument, finding the
buffer behind it, making the result. Hence digests joined into one array instead of integers, and,
for messages of one size, arguments cut out of the buffer many at a time by one call.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from borzoi.records.header import ID_AT

#: Up to this size copying a message into a separate object is cheaper than a view of it.
COPIED_BYTES_MAX: Final = 512

#: Views made by one call; few enough that the garbage collector does not come to look at them.
CUTS_AT_ONCE: Final = 250

#: How xxhash writes a digest.
DIGEST: Final = np.dtype(">u8")

Cutter = Callable[[memoryview], tuple[memoryview, ...]]


def checksum(hashed: bytes | bytearray | memoryview) -> int:
    """Of one message: give it bytes 8..end."""
    return xxh3_64_intdigest(hashed)


def checksums_of_equal(
    messages: memoryview, size: int, cuts: Sequence[Cutter]
) -> NDArray[np.uint64]:
    """Of two or more messages that all have the same size; `cuts` are their `cutters`."""
    count = len(messages) // size
    assert count > 1  # a getter of one item gives the item, not a tuple of it
    if size <= COPIED_BYTES_MAX:
        hashed = np.ndarray((count,), f"V{size - ID_AT}", messages, ID_AT, (size,)).tolist()
        digests = joined_digests(hashed)
    else:
        digests = b"".join([joined_digests(cut(messages)) for cut in cuts])
    return np.frombuffer(digests, DIGEST)


def joined_digests(hashed: Iterable[bytes | memoryview]) -> bytes:
    """Of messages whose views were made before: bytes 8..end of each."""
    return b"".join(map(xxh3_64_digest, hashed))


def checksums_between(messages: memoryview, ends: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Of messages that end at these positions."""
    digests = []
    start = ID_AT
    for end in ends.tolist():
        digests.append(xxh3_64_digest(messages[start:end]))
        start = end + ID_AT
    return np.frombuffer(b"".join(digests), DIGEST)


def cutters(size: int, count: int) -> list[Cutter]:
    """Each cuts a run of messages out of the buffer: what is hashed of each, as a view.

    None for small messages, which are copied instead.
    """
    if size <= COPIED_BYTES_MAX:
        return []
    cuts = [slice(end - size + ID_AT, end) for end in range(size, (count + 1) * size, size)]
    # No run may have only one (see above), so the last takes what is left over.
    starts = range(0, max(count - CUTS_AT_ONCE, 0) + 1, CUTS_AT_ONCE)
    ends = [*starts[1:], count]
    return [itemgetter(*cuts[start:end]) for start, end in zip(starts, ends, strict=True)]
