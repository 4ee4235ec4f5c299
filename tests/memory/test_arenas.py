"""The arenas of other processes, seen through their descriptors."""

import os

import pytest

from borzoi.memory.arenas import Arenas
from borzoi.memory.pool import MIB, NOWHERE, MemoryPool


@pytest.fixture
def shared():
    descriptor = os.memfd_create("arena", os.MFD_CLOEXEC)
    pool = MemoryPool(4 * MIB, descriptor=os.dup(descriptor))
    yield descriptor, pool
    pool.close()
    os.close(descriptor)


def test_a_position_stands_for_the_same_bytes_in_another_process(shared):
    descriptor, pool = shared
    buffer = pool.acquire(1000)
    buffer.view[:5] = b"hello"
    position = pool.arena.position_of(buffer.view[1:])
    assert position == buffer.position + 1
    arenas = Arenas(lambda _: descriptor)
    seen = arenas.view(7, position, 4)
    assert bytes(seen) == b"ello"
    seen[:4] = b"ELLO"
    assert bytes(buffer.view[:5]) == b"hELLO"
    del seen
    arenas.close()


def test_memory_outside_has_no_position(shared):
    _, pool = shared
    assert pool.arena.position_of(memoryview(bytearray(10))) == NOWHERE


def test_views_outlive_the_arena_of_a_process_that_died(shared):
    descriptor, pool = shared
    buffer = pool.acquire(1000)
    buffer.view[:4] = b"kept"
    arenas = Arenas(lambda _: descriptor)
    seen = arenas.view(1, buffer.position, 4)
    arenas.forget(1)
    arenas.forget(1)
    assert bytes(seen) == b"kept"


def test_what_lies_outside_is_refused(shared):
    descriptor, pool = shared
    arenas = Arenas(lambda _: descriptor)
    with pytest.raises(ValueError, match="outside"):
        arenas.view(1, pool.arena.size - 1, 2)
    with pytest.raises(ValueError, match="outside"):
        arenas.view(1, -1, 1)
    arenas.close()


def test_an_arena_that_cannot_be_mapped_leaks_nothing(tmp_path):
    empty = os.memfd_create("empty", os.MFD_CLOEXEC)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises((OSError, ValueError)):
        Arenas(lambda _: empty).view(1, 0, 1)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(empty)
