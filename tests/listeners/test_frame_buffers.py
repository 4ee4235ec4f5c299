"""Frames that arrive in parts: which of them stay in the receive buffer."""

import pytest
from tests.support.conversations import (
    PING,
    Sink,
    frame,
    root_talk,
)
from tests.support.embedded import EmbeddedServer

from borzoi.memory.pool import MemoryPool, PooledBuffer
from borzoi.model.limits import (
    UNAUTHENTICATED_BYTES_MAX,
)
from borzoi.protocol.codes import Code


class Lender:
    """A listener with a receive buffer, into which a read has put something."""

    def __init__(self, data: memoryview, pool: MemoryPool) -> None:
        self.buffer = pool.acquire(256 << 10)
        self.buffer.view[: len(data)] = data
        self.data = self.buffer.view[: len(data)]
        self.has_lent = False

    def lend(self, size: int) -> PooledBuffer | None:
        self.has_lent = size <= self.buffer.capacity
        return self.buffer if self.has_lent else None


async def test_a_frame_that_fits_stays_where_its_first_bytes_arrived(
    server: EmbeddedServer, sink: Sink
) -> None:
    pool = MemoryPool(512 << 20)
    talk = root_talk(server, sink, pool)
    whole = memoryview(PING + frame(int(Code.PING), bytes(200_000)))
    lender = Lender(whole[:1000], pool)
    talk.received(lender.data, lender)
    assert lender.has_lent
    buffer, rest = lender.buffer, talk.wanted
    assert rest is not None
    buffer.view[1000 : len(whole)] = b"\x01" * (len(whole) - 1000)
    assert rest == buffer.view[1000 : len(whole)]
    assert pool.counters().allocations == 1
    talk.filled(len(rest))
    assert sink.statuses == [0, 0]
    assert pool.counters().in_use_bytes == 0
    pool.close()


@pytest.mark.parametrize(
    ("first", "size"),
    [(b"", UNAUTHENTICATED_BYTES_MAX), (b"", (256 << 10) - 7), (PING[:3], 100_000)],
    ids=["small", "too large", "behind a prefix that came in two parts"],
)
async def test_any_other_frame_leaves_the_listener_its_buffer(
    server: EmbeddedServer, sink: Sink, first: bytes, size: int
) -> None:
    pool = MemoryPool(512 << 20)
    talk = root_talk(server, sink, pool)
    whole = memoryview(frame(int(Code.PING), bytes(size)))
    if first:
        talk.received(memoryview(first))
        whole = memoryview(PING[3:] + bytes(whole))
    lender = Lender(whole[:1000], pool)
    talk.received(lender.data, lender)
    assert not lender.has_lent
    lender.buffer.view[:1000] = b"\xaa" * 1000
    pool.release(lender.buffer)
    talk.feed(whole[1000:])
    assert set(sink.statuses) == {0}
    assert pool.counters().in_use_bytes == 0
    pool.close()


async def test_a_buffer_goes_back_to_the_pool_when_its_frame_ran_or_its_connection_went(
    server: EmbeddedServer, sink: Sink
) -> None:
    pool = MemoryPool(512 << 20)
    talk = root_talk(server, sink, pool)
    large = memoryview(frame(int(Code.PING), bytes(200_000)))
    talk.feed(large[:1000])
    assert pool.counters().in_use_bytes
    talk.feed(large[1000:])
    assert pool.counters().in_use_bytes == 0
    talk.feed(large[:1000])
    talk.lost()
    assert pool.counters().in_use_bytes == 0
    pool.close()
