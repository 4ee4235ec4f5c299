import gc
import itertools
import mmap
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.interpreter import run_python

from borzoi.memory.pool import (
    BUCKET_BYTES,
    KIB,
    MIB,
    NOWHERE,
    Arena,
    MemoryPool,
    PooledBuffer,
)


@pytest.fixture
def pool():
    pool = MemoryPool(64 * MIB)
    yield pool
    pool.close()


def arena_of(pool: MemoryPool) -> Arena:
    assert pool.arena is not None
    return pool.arena


def rationed(program: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program in a process that has 2 GiB of address space."""
    limited = (
        "import resource; from borzoi.memory.pool import MemoryPool;"
        f"resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)); {program}"
    )
    return subprocess.run([sys.executable, "-c", limited], capture_output=True, check=False)


def test_there_are_32_sizes_from_256_bytes_to_512_mib():
    assert len(BUCKET_BYTES) == 32
    assert (BUCKET_BYTES[0], BUCKET_BYTES[-1]) == (256, 512 * MIB)
    assert list(BUCKET_BYTES) == sorted(set(BUCKET_BYTES))


@pytest.mark.parametrize(
    ("size", "capacity"),
    [(0, 256), (1, 256), (256, 256), (257, 512), (4097, 8 * KIB), (MIB + 1, 3 * MIB // 2)],
)
def test_a_request_gets_the_smallest_size_that_holds_it(pool, size, capacity):
    buffer = pool.acquire(size)
    assert buffer.capacity == len(buffer.view) == capacity
    assert buffer.in_arena


def test_the_buffer_given_back_last_is_lent_first(pool):
    first, second = pool.acquire(1000), pool.acquire(1000)
    pool.release(first)
    pool.release(second)
    assert pool.acquire(1000) is second
    counters = pool.counters()
    assert (counters.allocations, counters.reuses, counters.returned) == (2, 1, 2)


def test_a_full_pool_lends_plain_memory_and_counts_it():
    pool = MemoryPool(MIB)
    inside = pool.acquire(MIB)
    outside = pool.acquire(100)
    assert inside.in_arena
    assert not outside.in_arena
    assert outside.position == NOWHERE
    assert outside.capacity == 100
    outside.view[:] = bytes(100)
    pool.release(outside)
    counters = pool.counters()
    assert counters.in_use_bytes == MIB
    assert (counters.external_allocations, counters.external_deallocations) == (1, 1)
    pool.release(inside)
    assert pool.acquire(100).in_arena
    pool.close()


def test_a_request_beyond_the_largest_size_is_plain_memory(pool):
    assert not pool.acquire(512 * MIB + 1).in_arena


def resident_bytes() -> int:
    """Of this process, its share of memory files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.parametrize("limit", [0, MIB, 1024 * MIB], ids=["no pool", "too small", "in the pool"])
def test_a_large_buffer_is_resident_only_where_it_was_written(limit):
    pool = MemoryPool(limit)
    gc.collect()  # what earlier tests left is not given back in the middle of this one
    before = resident_bytes()
    buffers = [pool.acquire(512 * MIB) for _ in range(2)]
    assert resident_bytes() - before < 8 * MIB
    for buffer in buffers:
        assert buffer.in_arena == (limit > MIB)
        for position in range(0, 16 * MIB, mmap.PAGESIZE):
            buffer.view[position] = 1
    assert 32 * MIB <= resident_bytes() - before < 64 * MIB
    for buffer in buffers:
        pool.release(buffer)
    pool.close()
    del buffer, buffers, pool
    assert resident_bytes() - before < 8 * MIB


@pytest.mark.parametrize("size", [0, 1, 128 * KIB - 1, 128 * KIB, MIB + 1])
def test_plain_memory_is_zeros_of_the_size_asked_for(size):
    buffer = MemoryPool.disabled().acquire(size)
    assert buffer.capacity == size
    assert bytes(buffer.view) == bytes(size)
    buffer.view[:] = b"x" * size
    assert bytes(buffer.view[:size]) == b"x" * size


def test_plain_memory_outlives_its_release_while_a_view_is_held():
    pool = MemoryPool.disabled()
    buffer = pool.acquire(MIB)
    view = buffer.view[:3]
    view[:] = b"abc"
    pool.release(buffer)
    del buffer
    assert bytes(view) == b"abc"


def test_more_than_there_is_address_space_for_is_no_memory():
    ended = rationed("MemoryPool.disabled().acquire(4 << 30)")
    assert b"MemoryError: 4294967296 bytes cannot be mapped" in ended.stderr


def test_a_disabled_pool_lends_only_plain_memory():
    pool = MemoryPool.disabled()
    buffer = pool.acquire(1000)
    assert not buffer.in_arena
    pool.release(buffer)
    assert pool.counters().external_deallocations == 1
    assert pool.arena is None
    pool.close()


def test_giving_back_twice_is_our_own_mistake(pool):
    buffer = pool.acquire(10)
    pool.release(buffer)
    with pytest.raises(AssertionError, match="twice"):
        pool.release(buffer)


def test_a_bucket_keeps_no_more_than_its_capacity():
    pool = MemoryPool(64 * MIB, bucket_capacity=2)
    buffers = [pool.acquire(64 * KIB) for _ in range(5)]
    for buffer in buffers:
        buffer.view[:] = b"\x01" * (64 * KIB)
        pool.release(buffer)
    counters = pool.counters()
    assert counters.dropped_returns == 3
    assert counters.retained_bytes == 2 * 64 * KIB
    assert arena_of(pool).resident_bytes == 2 * 64 * KIB
    # A place that was dropped is used again before the region grows.
    again = [pool.acquire(64 * KIB) for _ in range(5)]
    assert {buffer.position for buffer in again} == {buffer.position for buffer in buffers}
    pool.close()


def test_lent_and_kept_bytes_together_stay_below_the_limit():
    pool = MemoryPool(4 * MIB)
    small = [pool.acquire(MIB) for _ in range(4)]
    for buffer in small:
        buffer.view[:] = b"\x01" * MIB
        pool.release(buffer)
    large = pool.acquire(4 * MIB)
    large.view[:] = b"\x02" * (4 * MIB)
    pool.release(large)
    assert pool.counters().retained_bytes == 4 * MIB
    assert arena_of(pool).resident_bytes <= 4 * MIB
    pool.close()


def test_an_unused_pool_has_no_pages(pool):
    assert arena_of(pool).resident_bytes == 0


def test_trimming_gives_pages_back_largest_first(pool):
    for size in (MIB, 64 * KIB):
        buffer = pool.acquire(size)
        buffer.view[:] = b"\x01" * size
        pool.release(buffer)
    assert pool.trim(keep_bytes=64 * KIB) == MIB
    assert arena_of(pool).resident_bytes == 64 * KIB
    assert pool.trim() == 64 * KIB
    assert arena_of(pool).resident_bytes == 0
    assert pool.acquire(MIB).view[:10] == bytes(10)


def test_another_mapping_sees_the_bytes_under_the_same_position(pool):
    buffer = pool.acquire(5000)
    buffer.view[:5] = b"hello"
    elsewhere = Arena.attach(os.dup(pool.arena.descriptor))
    assert bytes(elsewhere.view[buffer.position : buffer.position + 5]) == b"hello"
    elsewhere.view[buffer.position : buffer.position + 5] = b"world"
    assert buffer.view[:5] == b"world"
    assert pool.view(buffer.position, 5) == b"world"
    elsewhere.close()


def test_another_process_sees_the_bytes(pool):
    buffer = pool.acquire(MIB)
    buffer.view[:5] = b"hello"
    program = (
        "import sys; from borzoi.memory.pool import Arena;"
        "arena = Arena.attach(int(sys.argv[1])); position = int(sys.argv[2]);"
        "sys.stdout.write(bytes(arena.view[position:position + 5]).decode());"
        "arena.view[position:position + 5] = b'world'"
    )
    descriptor = pool.arena.descriptor
    arguments = (str(descriptor), str(buffer.position))
    answer = run_python("-c", program, *arguments, pass_fds=[descriptor], check=True)
    assert answer.stdout == "hello"
    assert buffer.view[:5] == b"world"


def test_closing_while_a_view_is_held_leaves_the_view_usable():
    pool = MemoryPool(MIB)
    view = pool.acquire(100).view[:3]
    view[:] = b"abc"
    pool.close()
    assert bytes(view) == b"abc"


@given(st.integers(0, 2**32), st.integers(1, 4 * MIB))
def test_lent_buffers_never_overlap_and_the_books_balance(seed, limit):
    draws = random.Random(seed)
    pool = MemoryPool(limit, bucket_capacity=draws.choice([0, 1, 3, 100]))
    lent: list[PooledBuffer] = []
    for _ in range(60):
        if lent and draws.random() < 0.4:
            pool.release(lent.pop(draws.randrange(len(lent))))
        elif draws.random() < 0.05:
            pool.trim(draws.randrange(limit))
        else:
            lent.append(pool.acquire(draws.randrange(draws.choice([300, 5000, 100_000, 2 * MIB]))))
        inside = sorted((b.position, b.position + b.capacity) for b in lent if b.in_arena)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(inside))
        counters = pool.counters()
        assert counters.in_use_bytes == sum(end - start for start, end in inside) <= limit
        assert counters.in_use_bytes + counters.retained_bytes <= limit
    pool.close()


def test_regions_begin_on_pages():
    pool = MemoryPool(10_000_001)
    for size in BUCKET_BYTES:
        if size <= pool.limit_bytes:
            assert pool.acquire(size).position % min(size, mmap.PAGESIZE) == 0
            pool.close()
            pool = MemoryPool(10_000_001)
    pool.close()


def test_where_address_space_is_rationed_buffers_are_plain_memory():
    ended = rationed(
        "pool = MemoryPool(1 << 30); buffer = pool.acquire(1000);"
        "assert not buffer.in_arena and pool.arena is None;"
        "pool.release(buffer); pool.close()"
    )
    assert b"buffers are not pooled" in ended.stderr
    assert ended.returncode == 0
