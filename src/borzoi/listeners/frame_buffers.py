"""Where a frame is received of which only the first bytes are there.

A small frame is copied out of the receive buffer. A larger one stays there, and the listener takes
another buffer; a very large one gets its own buffer. The rest of a frame is received straight into
its place, so a batch is copied at most once on its way in.
"""

from typing import Final, Protocol

from borzoi.memory.pool import MemoryPool, Payload, PooledBuffer
from borzoi.model.limits import UNAUTHENTICATED_BYTES_MAX

#: A smaller frame is copied out of the receive buffer: copying is cheaper than handing over the
#: buffer. Larger than any frame before login, so unauthenticated clients never hold a buffer.
STAYING_BYTES_MIN: Final = UNAUTHENTICATED_BYTES_MAX + 1


class Lender(Protocol):
    """Whose receive buffer a frame may stay in."""

    def lend(self, size: int) -> PooledBuffer | None:
        """The buffer, if it has this size: it belongs to the frame from now on, and the lender
        receives into another one."""


def begun(
    pool: MemoryPool, lender: Lender | None, data: memoryview, start: int, size: int
) -> tuple[Payload, PooledBuffer]:
    """The memory of a frame of this size, with its first bytes, and the buffer that it lies in.

    They begin at `start` of the data, which is the receive buffer of the lender if there is one.
    """
    buffer = None
    if lender is not None and size >= STAYING_BYTES_MIN:
        buffer = lender.lend(start + size)
    if buffer is None:
        first = data[start:]
        buffer, start = pool.acquire(size), 0
        buffer.view[: len(first)] = first
    return buffer.payload(start, size), buffer
