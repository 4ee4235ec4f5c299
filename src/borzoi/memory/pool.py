"""Reusable buffers in memory that all shards share.

The pool is one sparse memory file (the arena), mapped once. Each of the 32 sizes owns a region of
it with as many places as the whole pool could ever hold of that size, so places never have to be
moved or merged; a page exists only after it was written to, so an idle pool takes no memory.

    arena    | 256 B × n | 512 B × n | 1 KiB × n | … | 512 MiB × n |

A buffer is named by (position in the arena, length): shards exchange that instead of the bytes. A
buffer that did not fit (too large, or the pool is exhausted) is plain memory outside the arena; it
has no position, and only its own process can see it. It has no pages either before they are written
to: announcing a large frame costs a client nothing, so it must cost the server nothing.
"""

import ctypes
import logging
import mmap
import os
from bisect import bisect_left
from typing import Final, Self

from borzoi.model.value import Value

logger = logging.getLogger(__name__)

KIB: Final = 1024
MIB: Final = 1024 * KIB

# fmt: off
BUCKET_BYTES: Final[tuple[int, ...]] = (
    256, 512, 1 * KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB,
    256 * KIB, 512 * KIB, 768 * KIB,
    1 * MIB, 3 * MIB // 2, 2 * MIB, 4 * MIB, 6 * MIB, 8 * MIB, 10 * MIB, 12 * MIB, 16 * MIB,
    24 * MIB, 32 * MIB, 48 * MIB, 64 * MIB, 96 * MIB, 128 * MIB, 192 * MIB, 256 * MIB, 384 * MIB,
    512 * MIB,
)
# fmt: on
assert len(BUCKET_BYTES) == 32

#: The position of a buffer that lies outside the arena.
NOWHERE: Final = -1
OUTSIDE: Final = -1

BUCKET_CAPACITY_DEFAULT: Final = 8192

#: From this size on plain memory is a separate mapping. Smaller buffers come from the heap, which
#: zeroes them and so makes them resident, but needs no system call.
MAPPED_BYTES: Final = 128 * KIB


class Payload(Value):
    """Bytes of a request and their position."""

    view: memoryview
    #: In the arena, where the same memory is lent again; NOWHERE for any other memory.
    position: int = NOWHERE
    #: Whether it lies in a receive buffer: what outlives the call has to be copied.
    is_borrowed: bool = False

    def owned(self) -> "Payload":
        """The same bytes, in memory that stays."""
        return Payload(memoryview(bytearray(self.view))) if self.is_borrowed else self


class PooledBuffer:
    """Memory lent by the pool: `view` is all of it; return it with `MemoryPool.release`."""

    __slots__ = ("bucket", "capacity", "in_arena", "lent", "position", "view")

    def __init__(self, view: memoryview, position: int, bucket: int) -> None:
        self.view = view
        self.capacity = len(view)
        self.position = position
        #: Whether other processes can see it, so that its position can be sent instead of its
        #: bytes.
        self.in_arena = position != NOWHERE
        self.bucket = bucket
        self.lent = True

    def payload(self, start: int, size: int) -> Payload:
        """Return a part of the buffer."""
        position = self.position + start if self.in_arena else NOWHERE
        return Payload(self.view[start : start + size], position)


class PoolCounters(Value):
    """Counters of the pool since its creation; bytes and calls."""

    limit_bytes: int
    in_use_bytes: int
    retained_bytes: int
    allocations: int
    reuses: int
    returned: int
    external_allocations: int
    external_deallocations: int
    dropped_returns: int


class Arena:
    """A mapped memory file. Its creator writes into it; others attach by its descriptor."""

    __slots__ = ("_address", "_map", "descriptor", "size", "view")

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = descriptor
        self.size = size
        self._map = mmap.mmap(descriptor, size)
        self.view = memoryview(self._map)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self.view))

    @classmethod
    def create(cls, size: int, descriptor: int | None = None) -> Self:
        """Create a memory file, or use the empty one of a descriptor, which the arena then owns."""
        if descriptor is None:
            descriptor = os.memfd_create("borzoi-pool", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, size)
            return cls(descriptor, size)
        except OSError:
            os.close(descriptor)
            raise

    @classmethod
    def attach(cls, descriptor: int) -> Self:
        """Map the arena of another process, from a descriptor it sent, which is duplicated."""
        return cls(descriptor, os.fstat(descriptor).st_size)

    def position_of(self, view: memoryview) -> int:
        """Return the position of a view in the arena; NOWHERE if it is outside."""
        position = ctypes.addressof(ctypes.c_char.from_buffer(view)) - self._address
        return position if 0 <= position < self.size else NOWHERE

    def forget(self, position: int, length: int) -> None:
        """Return whole pages to the system; they read as zeros when touched again."""
        self._map.madvise(mmap.MADV_REMOVE, position, length)

    @property
    def resident_bytes(self) -> int:
        return os.fstat(self.descriptor).st_blocks * 512

    def close(self) -> None:
        """Unmap, unless there are views: then the last view unmaps it."""
        self.view.release()
        try:
            self._map.close()
        except BufferError:
            # A response that is still being sent holds a view, which keeps the mapping.
            pass
        os.close(self.descriptor)


class _Bucket:
    """The places of one size: free with pages, free without pages, and never used."""

    __slots__ = ("cold", "next_position", "region_end", "size", "warm")

    def __init__(self, size: int, region_start: int, region_end: int) -> None:
        self.size = size
        self.next_position = region_start
        self.region_end = region_end
        # Last in, first out: the place used last is still in the CPU cache.
        self.warm: list[PooledBuffer] = []
        self.cold: list[PooledBuffer] = []


class MemoryPool:
    """Lends buffers of 32 sizes; one per shard, never shared between threads.

    `limit_bytes` bounds what is lent from the arena at any time, and `bucket_capacity` how many
    returned buffers each size keeps. Beyond the limit a request is still served, from plain
    memory, and counted: an exhausted pool makes the server slower, not wrong.
    """

    def __init__(
        self,
        limit_bytes: int,
        *,
        bucket_capacity: int = BUCKET_CAPACITY_DEFAULT,
        descriptor: int | None = None,
    ) -> None:
        """`descriptor` is that of an empty memory file that other processes have as well."""
        self.limit_bytes = limit_bytes
        self.bucket_capacity = bucket_capacity
        self._buckets: list[_Bucket] = []
        position = 0
        for size in BUCKET_BYTES:
            region = limit_bytes // size * size
            # Regions start on a page, so that pages can be returned bucket by bucket.
            region_pages_end = position + -(-region // mmap.PAGESIZE) * mmap.PAGESIZE
            self._buckets.append(_Bucket(size, position, position + region))
            position = region_pages_end
        self.arena: Arena | None = None
        if position:
            try:
                self.arena = Arena.create(position, descriptor)
            except OSError as error:
                # The server must start even where address space is limited (`ulimit -v`).
                logger.warning(
                    "buffers are not pooled, %d bytes cannot be mapped: %s", position, error
                )
                self.limit_bytes = 0
        self._in_use_bytes = 0
        self._retained_bytes = 0
        self._allocations = 0
        self._reuses = 0
        self._returned = 0
        self._external_allocations = 0
        self._external_deallocations = 0
        self._dropped_returns = 0

    @classmethod
    def disabled(cls) -> Self:
        """Create a pool without an arena: every buffer is plain memory."""
        return cls(0)

    def acquire(self, size: int) -> PooledBuffer:
        """Return a buffer of at least `size` bytes with undefined content."""
        number = bisect_left(BUCKET_BYTES, size)
        if number < 32:
            bucket = self._buckets[number]
            in_use_bytes = self._in_use_bytes + bucket.size
            if in_use_bytes <= self.limit_bytes:
                self._in_use_bytes = in_use_bytes
                if bucket.warm:
                    buffer = bucket.warm.pop()
                    buffer.lent = True
                    self._reuses += 1
                    self._retained_bytes -= bucket.size
                    return buffer
                return self._born(bucket, number)
        self._external_allocations += 1
        return PooledBuffer(_plain_memory(size), NOWHERE, OUTSIDE)

    def release(self, buffer: PooledBuffer) -> None:
        """Take the buffer back; its views must no longer be used."""
        assert buffer.lent, "a buffer was released twice"
        buffer.lent = False
        number = buffer.bucket
        if number < 0:
            self._external_deallocations += 1
            return
        bucket = self._buckets[number]
        self._in_use_bytes -= bucket.size
        self._returned += 1
        if (
            len(bucket.warm) < self.bucket_capacity
            and self._in_use_bytes + self._retained_bytes + bucket.size <= self.limit_bytes
        ):
            bucket.warm.append(buffer)
            self._retained_bytes += bucket.size
        else:
            self._dropped_returns += 1
            self._cool(bucket, buffer)

    def view(self, position: int, length: int) -> memoryview:
        """Return the bytes at (position, length) of this pool."""
        assert self.arena is not None, "a pool without an arena has no positions"
        return self.arena.view[position : position + length]

    def trim(self, keep_bytes: int = 0) -> int:
        """Return pages of free buffers to the system, largest first, down to `keep_bytes`."""
        before = self._retained_bytes
        for bucket in reversed(self._buckets):
            while bucket.warm and self._retained_bytes > keep_bytes:
                self._retained_bytes -= bucket.size
                self._cool(bucket, bucket.warm.pop())
        return before - self._retained_bytes

    def counters(self) -> PoolCounters:
        return PoolCounters(
            limit_bytes=self.limit_bytes,
            in_use_bytes=self._in_use_bytes,
            retained_bytes=self._retained_bytes,
            allocations=self._allocations,
            reuses=self._reuses,
            returned=self._returned,
            external_allocations=self._external_allocations,
            external_deallocations=self._external_deallocations,
            dropped_returns=self._dropped_returns,
        )

    def close(self) -> None:
        self._buckets.clear()
        if self.arena is not None:
            self.arena.close()

    def _born(self, bucket: _Bucket, number: int) -> PooledBuffer:
        """Return a place without pages: one that was trimmed, or the next of the region."""
        self._allocations += 1
        if self._in_use_bytes + self._retained_bytes > self.limit_bytes:
            # Return free buffers of other sizes, so that the arena never exceeds the limit.
            self.trim(self.limit_bytes - self._in_use_bytes)
        if bucket.cold:
            buffer = bucket.cold.pop()
            buffer.lent = True
            return buffer
        position = bucket.next_position
        # The limit was checked, and the region holds as many places as the limit does.
        assert position < bucket.region_end
        bucket.next_position += bucket.size
        return PooledBuffer(self.view(position, bucket.size), position, number)

    def _cool(self, bucket: _Bucket, buffer: PooledBuffer) -> None:
        # Sizes below a page share it with neighbours that may be lent, so their pages stay; all
        # of them together are at most a few pages per bucket capacity.
        if self.arena is not None and bucket.size % mmap.PAGESIZE == 0:
            self.arena.forget(buffer.position, bucket.size)
        bucket.cold.append(buffer)


def _plain_memory(size: int) -> memoryview:
    """Return zeroed memory; large blocks are resident only once touched, until the last view."""
    if size < MAPPED_BYTES:
        return memoryview(bytearray(size))
    try:
        return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    except OSError as error:
        raise MemoryError(f"{size} bytes cannot be mapped: {error.strerror}") from error
