"""The kernel's ring, by system calls; where the system has none these say so and are skipped."""

import errno
import os
import platform
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from borzoi.storage.kernel_ring import KernelRing

PATIENCE_MS = 60_000


@pytest.fixture
def ring() -> Iterator[KernelRing]:
    try:
        made = KernelRing(4)
    except OSError as error:
        pytest.skip(f"there is no io_uring here: {error}")
    yield made
    made.close()


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(opened, b"written")
    yield opened
    os.close(opened)


def ended(ring: KernelRing, count: int) -> list[tuple[int, int]]:
    """The next `count` syncs that end."""
    poll = select.poll()
    poll.register(ring.eventfd, select.POLLIN)
    found: list[tuple[int, int]] = []
    while len(found) < count:
        assert poll.poll(PATIENCE_MS), "a sync does not end"
        found += ring.reap()
    return found


def test_syncs_end_with_their_numbers(ring: KernelRing, descriptor: int) -> None:
    assert ring.submit([(7, descriptor), (2**63, descriptor)]) == 2
    assert sorted(ended(ring, 2)) == [(7, 0), (2**63, 0)]
    assert ring.reap() == []


def test_a_ring_goes_round_many_times(ring: KernelRing, descriptor: int) -> None:
    for turn in range(50):
        numbers = [3 * turn, 3 * turn + 1, 3 * turn + 2]
        assert ring.submit([(number, descriptor) for number in numbers]) == 3
        assert sorted(number for number, _ in ended(ring, 3)) == numbers


def test_an_error_comes_back_as_its_number(ring: KernelRing) -> None:
    reader, writer = os.pipe()
    assert ring.submit([(1, reader), (2, 1 << 30)]) == 2
    assert sorted(ended(ring, 2)) == [(1, errno.EINVAL), (2, errno.EBADF)]
    os.close(reader)
    os.close(writer)


@pytest.mark.usefixtures("ring")
def test_a_closed_ring_leaves_nothing_open() -> None:
    made = KernelRing(4)
    descriptors = (made._descriptor, made.eventfd)
    made.close()
    for descriptor in descriptors:
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            os.fstat(descriptor)


def test_elsewhere_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(OSError, match="x86-64 only"):
        KernelRing()


@pytest.mark.usefixtures("ring")  # where none is refused, none is asked for
def test_a_ring_the_kernel_refuses_is_an_error_with_its_reason() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        KernelRing(1 << 30)
